//! `doctor` at tables in MariaDB: the printed statements are run as they stand.

use sqlx::AssertSqlSafe;
use sqlx::mysql::MySqlPool;

use crate::doctor::{about, findings, the};
use crate::program::Program;

const TICKETFLOW: &str = "
    create table `OutboxMessages` (
        `Id` char(36) character set ascii not null primary key, `Type` longtext not null,
        `PayloadJson` longtext not null, `CorrelationId` longtext not null, `OccurredAt` datetime(6) not null,
        `DispatchedAt` datetime(6) null, `Attempts` int not null default 0, `Error` longtext null);
    create table `ProcessedEvents` (
        `EventId` char(36) character set ascii not null primary key, `ProcessedAt` datetime(6) not null)";

fn tickets(url: &str) -> String {
    format!(
        "[connections]\nshop = \"{url}\"\n[sources.tickets]\non = \"shop\"\npreset = \"ticketflow\"\n\
         [sinks.screen]\nstdout = true\n[pipes.relay]\nfrom = \"tickets\"\nto = \"screen\"\n"
    )
}

async fn database() -> Option<(String, MySqlPool)> {
    let url = testbed::mariadb().await?.database().await.unwrap().url().replace("mysql://", "mariadb://");
    let pool = MySqlPool::connect(&url).await.unwrap();
    sqlx::raw_sql(TICKETFLOW).execute(&pool).await.unwrap();
    Some((url, pool))
}

async fn run_sql(pool: &MySqlPool, sql: &str) {
    let ran = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(pool).await;
    ran.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_missing_index_of_a_table_in_mariadb_is_printed_and_once_made_all_is_well() {
    let Some((url, pool)) = database().await else { return };
    let fill = "insert into `OutboxMessages` values (uuid(), 't', '{}', '', utc_timestamp(6) - interval 60 second, null, 0, null)";
    run_sql(&pool, fill).await;
    let program = Program::with(&tickets(&url));
    let (code, found) = findings(&program, &["--source", "tickets"]);
    assert_eq!(code, 0, "{found:#?}");
    let index = the(&found, "claim index");
    assert_eq!(index["level"], "warning", "{index}");
    let fix = index["fix"].as_str().unwrap();
    assert_eq!(fix, "CREATE INDEX outbox_pending ON `OutboxMessages` (`DispatchedAt`, `OccurredAt`, `Id`);");
    // An index that only gives the order leads through everything that was ever sent.
    run_sql(&pool, "create index occurred on `OutboxMessages` (`OccurredAt`)").await;
    let (_, found) = findings(&program, &["--source", "tickets"]);
    assert!(
        the(&found, "claim index")["evidence"]
            .as_str()
            .unwrap()
            .contains("walks over the rows that are done"),
        "{found:#?}"
    );
    run_sql(&pool, fix).await;
    let (code, found) = findings(&program, &["--source", "tickets", "--deny-warnings"]);
    assert_eq!(code, 0, "{found:#?}");
    for what in ["connection", "encryption", "version", "clock", "columns", "claim index", "dead"] {
        assert_eq!(the(&found, what)["level"], "ok", "{found:#?}");
    }
    assert!(
        the(&found, "pending")["evidence"].as_str().unwrap().starts_with("1, the oldest for "),
        "{found:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_missing_grants_on_a_table_in_mariadb_are_printed_and_once_given_all_is_well() {
    let Some((url, pool)) = database().await else { return };
    let user = format!("doctor{}", std::process::id());
    run_sql(&pool, &format!("create user '{user}'@'%' identified by 'canary'")).await;
    for table in ["OutboxMessages", "ProcessedEvents"] {
        run_sql(&pool, &format!("grant select on `{table}` to '{user}'@'%'")).await;
    }
    let (scheme, rest) = url.split_once("://").unwrap();
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let program = Program::with(&tickets(&format!("{scheme}://{user}:canary@{host}")));
    let (code, found) = findings(&program, &["--source", "tickets"]);
    assert_eq!(code, 4, "{found:#?}");
    let fixes: Vec<&str> =
        about(&found, "grants").iter().filter_map(|finding| finding["fix"].as_str()).collect();
    assert_eq!(
        fixes,
        [
            format!("GRANT UPDATE ON `OutboxMessages` TO '{user}'@'%';"),
            format!("GRANT INSERT ON `ProcessedEvents` TO '{user}'@'%';")
        ],
        "{found:#?}"
    );
    for fix in fixes {
        run_sql(&pool, fix).await;
    }
    let (code, found) = findings(&program, &["--source", "tickets"]);
    assert_eq!(code, 0, "{found:#?}");
    assert!(about(&found, "grants").iter().all(|finding| finding["level"] == "ok"), "{found:#?}");
    assert!(!format!("{found:?}{:?}", program.run(&["doctor", "-vv"])).contains("canary"));
    run_sql(&pool, &format!("drop user '{user}'@'%'")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapping_that_does_not_fit_a_table_in_mariadb_is_told_beside_the_server() {
    let Some((url, _pool)) = database().await else { return };
    let program =
        Program::with(&tickets(&url).replace("\"ticketflow\"\n", "\"ticketflow\"\npayload = \"Body\"\n"));
    let (code, found) = findings(&program, &["--source", "tickets"]);
    assert_eq!(code, 4, "{found:#?}");
    assert_eq!(
        (the(&found, "clock")["level"].as_str(), the(&found, "columns")["level"].as_str()),
        (Some("ok"), Some("failure"))
    );
    assert!(the(&found, "columns")["evidence"].as_str().unwrap().contains("no column 'Body'"), "{found:#?}");
}
