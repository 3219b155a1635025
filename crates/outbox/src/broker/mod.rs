//! What the sources on a broker share: how a message that anybody made is read, which retry queue or topic it waits
//! in, what is written on it when it moves, and which keys wait meanwhile. Pure: no I/O.

mod died;
mod picks;
mod steps;

#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
mod held;
#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
mod tracks;

pub use died::{Died, is_of_death};
#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
pub(crate) use held::{Came, Held};
pub use picks::{Pick, Picks};
#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
pub(crate) use picks::{Raw, Read};
#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
pub(crate) use steps::Steps;
pub use steps::{check_steps, retry_name};
#[cfg(feature = "kafka")]
pub(crate) use tracks::RETRY;
#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
pub(crate) use tracks::Tracks;
