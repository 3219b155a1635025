//! The beats of instances (D8), on real databases.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outbox::beats::Beats;
use outbox::conformance::beats::BeatsFixture;

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::postgres::Log;

    #[async_trait]
    impl BeatsFixture for Log {
        fn beats(&self) -> Arc<dyn Beats> {
            outbox::postgres::beats(self.outbox.pool().clone())
        }
        async fn age(&self, instance: &str, by: Duration) {
            let sql =
                "update outbox.beats set beat_at = beat_at - make_interval(secs => $2) where instance = $1";
            let query = sqlx::query(sql).bind(instance).bind(by.as_secs_f64()).persistent(false);
            query.execute(self.outbox.pool()).await.unwrap();
        }
    }

    mod suite {
        outbox::beats_suite!(super::Log::new());
    }

    mod pooled {
        outbox::beats_suite!(super::Log::pooled());
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;
    use crate::sqlite::Fresh;

    #[async_trait]
    impl BeatsFixture for Fresh {
        fn beats(&self) -> Arc<dyn Beats> {
            outbox::sqlite::beats(self.outbox.pool().clone())
        }
        async fn age(&self, instance: &str, by: Duration) {
            let sql = "UPDATE outbox_beats SET beat_at = strftime('%Y-%m-%dT%H:%M:%fZ', beat_at, ?) WHERE instance = ?";
            let query = sqlx::query(sql).bind(format!("-{} seconds", by.as_secs())).bind(instance);
            query.execute(self.outbox.pool()).await.unwrap();
        }
    }

    async fn fresh() -> Option<Fresh> {
        Some(Fresh::new().await)
    }

    outbox::beats_suite!(fresh());
}

#[cfg(feature = "mysql")]
mod mysql {
    use super::*;
    use crate::mysql::Fresh;

    #[async_trait]
    impl BeatsFixture for Fresh {
        fn beats(&self) -> Arc<dyn Beats> {
            outbox::mysql::beats(self.pool.clone())
        }
        async fn age(&self, instance: &str, by: Duration) {
            let sql =
                "update outbox_beats set beat_at = date_sub(beat_at, interval ? second) where instance = ?";
            sqlx::query(sql).bind(by.as_secs()).bind(instance).execute(&self.pool).await.unwrap();
        }
    }

    outbox::beats_suite!(Fresh::new());
}
