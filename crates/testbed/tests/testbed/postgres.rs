use anyhow::Result;
use sqlx::{Connection, PgConnection, Row};
use testbed::{PgBouncer, Postgres, available};

async fn number(connection: &mut PgConnection, query: &'static str) -> Result<i64> {
    Ok(sqlx::raw_sql(query).fetch_one(connection).await?.try_get(0)?)
}

#[tokio::test]
async fn each_test_gets_a_database_of_its_own() -> Result<()> {
    let Some(postgres) = testbed::postgres().await else { return Ok(()) };
    let (one, other) = tokio::try_join!(postgres.database(), postgres.database())?;
    assert_ne!(one.name(), other.name());

    let mut connection = PgConnection::connect(one.url()).await?;
    sqlx::raw_sql("create table seen (id int)").execute(&mut connection).await?;
    let mut connection = PgConnection::connect(other.url()).await?;
    let count = "select count(*) from pg_tables where tablename = 'seen'";
    assert_eq!(number(&mut connection, count).await?, 0);
    assert!(postgres.bin().join("pg_dump").exists());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_shared_server_serves_another_runtime_with_a_paused_clock() -> Result<()> {
    let Some(postgres) = testbed::postgres().await else { return Ok(()) };
    postgres.database().await?;
    Ok(())
}

#[tokio::test]
async fn a_private_server_keeps_what_was_committed_when_it_is_stopped_or_killed() -> Result<()> {
    let Some(mut postgres) = available(Postgres::start_with(&[("fsync", "on")]).await) else { return Ok(()) };
    let database = postgres.database().await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    sqlx::raw_sql("create table kept (id bigint); insert into kept values (1)")
        .execute(&mut connection)
        .await?;

    postgres.kill().await?;
    assert!(sqlx::raw_sql("select 1").execute(&mut connection).await.is_err());
    assert!(PgConnection::connect(database.url()).await.is_err());
    postgres.start_again().await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    assert_eq!(number(&mut connection, "select sum(id)::bigint from kept").await?, 1);

    postgres.restart().await?;
    assert!(sqlx::raw_sql("select 1").execute(&mut connection).await.is_err());
    let mut connection = PgConnection::connect(database.url()).await?;
    assert_eq!(number(&mut connection, "select sum(id)::bigint from kept").await?, 1);
    Ok(())
}

#[tokio::test]
async fn settings_of_a_private_server_win() -> Result<()> {
    let Some(postgres) = available(Postgres::start_with(&[("max_connections", "17")]).await) else {
        return Ok(());
    };
    let mut connection = PgConnection::connect(&postgres.admin_url()).await?;
    assert_eq!(number(&mut connection, "select current_setting('max_connections')::bigint").await?, 17);
    Ok(())
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_lends_a_connection_for_a_transaction() -> Result<()> {
    let Some(postgres) = testbed::postgres().await else { return Ok(()) };
    let Some(pooler) = available(PgBouncer::start(postgres).await) else { return Ok(()) };
    let database = postgres.database().await?;
    let url = pooler.url(database.name());
    let mut one = PgConnection::connect(&url).await?;
    let mut other = PgConnection::connect(&url).await?;
    // One after the other, both clients run on the one connection that the pooler has opened.
    let first = number(&mut one, "select pg_backend_pid()::bigint").await?;
    assert_eq!(number(&mut other, "select pg_backend_pid()::bigint").await?, first);
    Ok(())
}
