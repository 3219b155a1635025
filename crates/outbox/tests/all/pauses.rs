//! The pauses of pipes, on real databases.

use std::sync::Arc;

use outbox::conformance::pauses::PausesFixture;
use outbox::pauses::Pauses;

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::postgres::Log;

    impl PausesFixture for Log {
        fn pauses(&self) -> Arc<dyn Pauses> {
            outbox::postgres::pauses(self.outbox.pool().clone())
        }
    }

    mod suite {
        outbox::pauses_suite!(super::Log::new());
    }

    mod pooled {
        outbox::pauses_suite!(super::Log::pooled());
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;
    use crate::sqlite::Fresh;

    impl PausesFixture for Fresh {
        fn pauses(&self) -> Arc<dyn Pauses> {
            outbox::sqlite::pauses(self.outbox.pool().clone())
        }
    }

    async fn fresh() -> Option<Fresh> {
        Some(Fresh::new().await)
    }

    outbox::pauses_suite!(fresh());
}

#[cfg(feature = "mysql")]
mod mysql {
    use super::*;
    use crate::mysql::Fresh;

    impl PausesFixture for Fresh {
        fn pauses(&self) -> Arc<dyn Pauses> {
            outbox::mysql::pauses(self.pool.clone())
        }
    }

    outbox::pauses_suite!(Fresh::new());
}
