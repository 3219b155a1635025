//! The JSON API of the real program: it says what the command line says, and refuses what is wrong.

mod answers;
mod dead;
mod document;
mod errors;
mod failures;
mod fuzz;
mod generate;
mod postgres;
mod refusals;
pub mod scene;
