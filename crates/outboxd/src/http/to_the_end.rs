//! Deeds that somebody has asked for.

use std::future::Future;

use axum::http::StatusCode;

use super::answer::Refusal;
use crate::ops::Office;

/// Does something to its end, also when whoever asked is gone or has waited too long, and also when a stop comes: what is
/// written down as begun must not be left half done. After a stop nothing is begun.
pub(super) async fn to_the_end<T, E>(
    office: &Office,
    deed: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, Refusal>
where
    T: Send + 'static,
    E: Into<Refusal> + Send + 'static,
{
    let Some(begun) = office.deeds.begin(deed) else {
        let help = "ask another instance, or this one when it is up again; the command line can do it too";
        return Err(Refusal::later("outboxd is stopping, and begins nothing new", help));
    };
    match begun.await {
        Ok(done) => done.map_err(Into::into),
        Err(panic) => {
            tracing::error!(%panic, "a request ended by a bug");
            let help = "see the log, and report it";
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "it ended by a bug", help))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::plan::Plan;
    use crate::trouble::Trouble;

    fn office(stop: &CancellationToken) -> Office {
        let text = "[connections]\nshop = \"sqlite:shop.db\"\n[sources.orders]\non = \"shop\"\n";
        let plan = Plan::parse(Path::new("/srv/outboxd.toml"), text, &|_| None).expect("it is valid").plan;
        Office::serving(Arc::new(plan), Arc::default()).until(stop.clone())
    }

    #[tokio::test]
    async fn after_a_stop_nothing_is_begun_and_who_asks_is_told_where_to_go() {
        let stop = CancellationToken::new();
        let office = office(&stop);
        let done = to_the_end(&office, async { Ok::<_, Trouble>(7) }).await;
        assert_eq!(done.expect("it is done"), 7);
        stop.cancel();
        let refused = to_the_end(&office, async { Ok::<_, Trouble>(7) }).await.expect_err("it is refused");
        assert_eq!(refused.told(), (503, "outboxd is stopping, and begins nothing new"));
    }

    #[tokio::test]
    async fn a_deed_that_ends_by_a_bug_is_told_as_such() {
        let office = office(&CancellationToken::new());
        let bug = async { if true { panic!("on purpose") } else { Ok::<(), Trouble>(()) } };
        let refused = to_the_end(&office, bug).await.expect_err("it failed");
        assert_eq!(refused.told(), (500, "it ended by a bug"));
    }
}
