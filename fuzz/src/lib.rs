//! Fuzz targets for whatever reads foreign bytes: see `targets/`, and `scripts/fuzz`.
