//! Tables that somebody else made: the suite on each database and each way to claim, and what only they promise.

#[cfg(feature = "postgres")]
mod chaos;
#[cfg(feature = "postgres")]
mod fixture;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod promises;
