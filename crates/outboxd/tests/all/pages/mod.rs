//! The pages as a person sees them: a real browser before a real run, with real pipes behind it.

mod access;
mod broker;
mod failures;
mod large;
mod messages;
mod overview;
mod pipes;
mod scene;
mod tour;
