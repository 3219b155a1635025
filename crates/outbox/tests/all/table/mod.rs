//! Tables that somebody else made: the suite on each database and each way to claim, and what only they promise.

mod chaos;
mod fixture;
mod postgres;
mod promises;
mod takeover;
