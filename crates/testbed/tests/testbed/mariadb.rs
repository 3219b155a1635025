use std::path::Path;

use anyhow::Result;
use sqlx::{Connection, MySqlConnection, Row};
use testbed::{MariaDb, available};

async fn number(connection: &mut MySqlConnection, query: &'static str) -> Result<i64> {
    Ok(sqlx::raw_sql(query).fetch_one(connection).await?.try_get(0)?)
}

#[tokio::test]
async fn each_test_gets_a_database_of_its_own() -> Result<()> {
    let Some(mariadb) = testbed::mariadb().await else { return Ok(()) };
    let (one, other) = tokio::try_join!(mariadb.database(), mariadb.database())?;
    assert_ne!(one.name(), other.name());

    let mut connection = MySqlConnection::connect(one.url()).await?;
    sqlx::raw_sql("create table seen (id int)").execute(&mut connection).await?;
    let mut connection = MySqlConnection::connect(other.url()).await?;
    let count = "select count(*) from information_schema.tables where table_schema = database()";
    assert_eq!(number(&mut connection, count).await?, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_shared_server_serves_another_runtime_with_a_paused_clock() -> Result<()> {
    let Some(mariadb) = testbed::mariadb().await else { return Ok(()) };
    mariadb.database().await?;
    Ok(())
}

#[tokio::test]
async fn a_private_server_keeps_what_was_committed_when_it_is_stopped_or_killed() -> Result<()> {
    let Some(mut mariadb) = available(MariaDb::start().await) else { return Ok(()) };
    let database = mariadb.database().await?;
    let mut connection = MySqlConnection::connect(database.url()).await?;
    sqlx::raw_sql("create table kept (id bigint); insert into kept values (1)")
        .execute(&mut connection)
        .await?;
    let mut open = MySqlConnection::connect(database.url()).await?;
    sqlx::raw_sql("begin; insert into kept values (2)").execute(&mut open).await?;

    mariadb.kill().await?;
    assert!(sqlx::raw_sql("select 1").execute(&mut connection).await.is_err());
    assert!(MySqlConnection::connect(database.url()).await.is_err());
    mariadb.start_again().await?;
    let mut connection = MySqlConnection::connect(database.url()).await?;
    assert_eq!(number(&mut connection, "select cast(sum(id) as signed) from kept").await?, 1);

    mariadb.restart().await?;
    assert!(sqlx::raw_sql("select 1").execute(&mut connection).await.is_err());
    let mut connection = MySqlConnection::connect(database.url()).await?;
    assert_eq!(number(&mut connection, "select cast(sum(id) as signed) from kept").await?, 1);
    Ok(())
}

#[tokio::test]
async fn settings_of_a_private_server_win() -> Result<()> {
    let settings = [("max-connections", "17")];
    let Some(mariadb) = available(MariaDb::start_with(&settings).await) else { return Ok(()) };
    let mut connection = MySqlConnection::connect(&mariadb.admin_url()).await?;
    assert_eq!(number(&mut connection, "select cast(@@max_connections as signed)").await?, 17);
    Ok(())
}

#[tokio::test]
async fn its_temporary_tables_are_out_of_the_reach_of_other_servers() -> Result<()> {
    let Some(mariadb) = testbed::mariadb().await else { return Ok(()) };
    let mut connection = MySqlConnection::connect(&mariadb.admin_url()).await?;
    let row = sqlx::raw_sql("select cast(@@tmpdir as char)").fetch_one(&mut connection).await?;
    assert_eq!(Path::new(row.try_get::<&str, _>(0)?), mariadb.folder());
    Ok(())
}
