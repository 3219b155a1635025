//! How fast the whole way is. Not a test: run it with `--ignored --nocapture`, in release.
