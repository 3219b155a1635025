//! Tables that somebody else made: the suite on each database and each way to claim, and what only they promise.

mod chaos;
#[cfg(feature = "postgres")]
mod fixture;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_life;
#[cfg(feature = "postgres")]
mod promises;
mod silent;
mod takeover;
