//! The pages as a person sees them: a real browser before a real run, with real pipes behind it.

mod overview;
mod scene;
