//! The simulation: the real pipe between seeded fakes, on a paused clock. Each seed is a life of its own, with outcomes,
//! outages, crashes, takeovers, freezes and stops by the dice, and a ledger that knows every clause of the contracts.
//!
//!     cargo test -p outbox --test simulation                      ten thousand lives, a hundred thousand in CI
//!     OUTBOX_LIVES=100000..200000 cargo test -p outbox --test simulation lives
//!     OUTBOX_SEED=42 cargo test -p outbox --test simulation lives    one life; if it fails, its whole story

mod dice;
mod ledger;
mod lie;
mod life;
mod lives;
mod mutants;
mod relay;
mod script;
mod sink;
mod source;
mod world;
