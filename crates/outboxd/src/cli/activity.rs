//! What went on lately, as `status --activity` shows it.

use std::io;

use outbox::admin::TRIED_OFTEN;

use super::output::Output;
use crate::ops::status::{Minute, SourceActivity};

/// One table with a line per source, and one with a line per minute.
pub fn write_tables(activities: &[SourceActivity], output: &mut Output) -> io::Result<()> {
    for (header, rows) in tables(activities) {
        if !rows.is_empty() {
            output.line("")?;
            output.table(&header.each_ref().map(String::as_str), &rows)?;
        }
    }
    Ok(())
}

type Table = ([String; 3], Vec<Vec<String>>);

fn tables(activities: &[SourceActivity]) -> [Table; 2] {
    let header = |second: &str, third: &str| ["source", second, third].map(str::to_owned);
    let sums = activities
        .iter()
        .map(|one| vec![one.source.clone(), one.done_last_hour.to_string(), one.tried_often.to_string()]);
    let minutes = activities.iter().flat_map(|one| {
        let row = |seen: &Minute| vec![one.source.clone(), format!("{}", seen.minute), seen.done.to_string()];
        one.by_minute.iter().map(row).collect::<Vec<_>>()
    });
    [
        (header("done last hour", &format!("tried {TRIED_OFTEN}+ times")), sums.collect()),
        (header("minute", "done"), minutes.collect()),
    ]
}

#[cfg(test)]
mod tests {
    use outbox::admin::Activity;

    use super::*;

    fn seen() -> Activity {
        let minute = |text: &str| text.parse().expect("it is a time");
        let by_minute = vec![(minute("2026-03-01T12:01:00Z"), 40), (minute("2026-03-01T12:00:00Z"), 2)];
        Activity { tried_often: 3, done_last_hour: 42, by_minute }
    }

    #[test]
    fn a10_the_tables_answer_every_question() {
        let (orders, quiet) =
            (SourceActivity::new("orders", &seen()), SourceActivity::new("quiet", &Activity::default()));
        let [(head, sums), (_, minutes)] = tables(&[orders, quiet]);
        assert_eq!(head, ["source", "done last hour", "tried 3+ times"]);
        assert_eq!(sums, [["orders", "42", "3"], ["quiet", "0", "0"]]);
        assert_eq!(
            minutes,
            [["orders", "2026-03-01T12:01:00Z", "40"], ["orders", "2026-03-01T12:00:00Z", "2"]]
        );
    }
}
