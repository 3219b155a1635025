//! Every integration test of the library, in one binary: one module per backend, and the loop itself.

mod memory;
