//! `doctor` and the statements of a handler: they are prepared, and nothing is run.

use sqlx::{AssertSqlSafe, MySqlPool, PgPool};

use crate::doctor::{about, findings, the};
use crate::handlers::on_file;
use crate::program::Program;

fn config(url: &str, sql: &str) -> String {
    format!(
        "[connections]\nlog = \"sqlite:log.db\"\nshop = \"{url}\"\n[sources.orders]\non = \"log\"\n\
         [sinks.stock]\non = \"shop\"\nsql = [{sql}]\n[pipes.stock]\nfrom = \"orders\"\nto = \"stock\"\n"
    )
}

/// Two that can be run, as long as `stock` has a column `sku`.
const GOOD: &str =
    r#""INSERT INTO stock (sku) VALUES (:payload.sku)", "DELETE FROM stock WHERE sku IS NULL""#;

/// In any database: good statements are good, a column or a table that is not there is told with its statement, and the
/// one after it is looked at all the same.
fn examine(url: &str) {
    let program = Program::migrated(&config(url, GOOD));
    let (code, found) = findings(&program, &["--sink", "stock"]);
    assert_eq!(code, 0, "{found:#?}");
    assert_eq!(about(&found, "statement").len(), 2, "{found:#?}");
    let wrong = GOOD.replace("(sku) VALUES", "(skew) VALUES");
    program.write("outboxd.toml", &config(url, &wrong));
    let (code, found) = findings(&program, &["--sink", "stock"]);
    let told = about(&found, "statement");
    assert_eq!((code, told[1]["level"].as_str()), (5, Some("ok")), "{found:#?}");
    let evidence = told[0]["evidence"].as_str().unwrap();
    assert!(
        evidence.starts_with("statement 1 cannot be prepared: ") && evidence.contains("skew"),
        "{evidence}"
    );
    assert_eq!(told[0]["fix"], "correct statement 1, or make what it names in the database");
    program.write("outboxd.toml", &config(url, &GOOD.replace("DELETE FROM stock", "DELETE FROM stuck")));
    let (code, found) = findings(&program, &["--sink", "stock"]);
    let told = about(&found, "statement");
    assert_eq!((code, told[0]["level"].as_str()), (5, Some("ok")), "{found:#?}");
    assert!(told[1]["evidence"].as_str().unwrap().contains("stuck"), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_prepares_the_statements_in_postgresql() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let pool = PgPool::connect(database.url()).await.unwrap();
    for sql in ["create table stock (sku text)", "insert into stock values (null)"] {
        sqlx::raw_sql(sql).execute(&pool).await.unwrap();
    }
    examine(database.url());
    // A call is not prepared, and a notification is no query.
    let others = r#""CALL restock(:payload.sku)", "NOTIFY stock""#;
    let (code, found) = findings(&Program::migrated(&config(database.url(), others)), &["--sink", "stock"]);
    assert_eq!(code, 0, "{found:#?}");
    for finding in about(&found, "statement") {
        assert!(finding["evidence"].as_str().unwrap().contains("not looked at"), "{finding}");
    }
    let rows: i64 = sqlx::query_scalar("select count(*) from stock").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 1, "nothing was run");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_prepares_the_statements_in_mariadb() {
    let Some(mariadb) = testbed::mariadb().await else { return };
    let database = mariadb.database().await.unwrap();
    let pool = MySqlPool::connect(database.url()).await.unwrap();
    for sql in ["create table stock (sku varchar(20))", "insert into stock values (null)"] {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&pool).await.unwrap();
    }
    examine(database.url());
    let rows: i64 = sqlx::query_scalar("select count(*) from stock").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 1, "nothing was run");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_prepares_the_statements_in_sqlite() {
    let shop = Program::new();
    on_file(&shop, "shop.db", "CREATE TABLE stock (sku TEXT)").await;
    on_file(&shop, "shop.db", "INSERT INTO stock VALUES (NULL)").await;
    examine(&format!("sqlite:{}", shop.path("shop.db").display()));
    assert_eq!(on_file(&shop, "shop.db", "SELECT count(*), '' FROM stock").await[0].0, 1, "nothing was run");
}

#[test]
fn a_database_that_is_away_is_one_finding_and_no_statement_is_blamed() {
    let program = Program::with(&config("postgres://app:canary@127.0.0.1:1/shop", GOOD));
    let (code, found) = findings(&program, &["--sink", "stock"]);
    assert_eq!((code, the(&found, "connection")["level"].as_str()), (5, Some("failure")), "{found:#?}");
    assert!(about(&found, "statement").is_empty(), "{found:#?}");
}
