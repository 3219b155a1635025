//! The JSON API of the real program: it says what the command line says, and refuses what is wrong.

mod answers;
mod document;
mod fuzz;
mod generate;
mod postgres;
mod refusals;
mod scene;
