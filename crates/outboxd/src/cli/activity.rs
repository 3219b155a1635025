//! What went on lately, as `status --activity` shows it.

use std::io;

use outbox::admin::{Activity, TRIED_OFTEN};
use serde_json::{Value, json};

use super::output::Output;

pub fn to_json(source: &str, activity: &Activity) -> Value {
    let by_minute = activity.by_minute.iter().map(|(minute, done)| json!({ "minute": minute, "done": done }));
    json!({
        "source": source,
        "tried_often": activity.tried_often,
        "done_last_hour": activity.done_last_hour,
        "by_minute": by_minute.collect::<Vec<_>>(),
    })
}

/// One table with a line per source, and one with a line per minute.
pub fn write_tables(activities: &[(String, Activity)], output: &mut Output) -> io::Result<()> {
    for (header, rows) in tables(activities) {
        if !rows.is_empty() {
            output.line("")?;
            output.table(&header.each_ref().map(String::as_str), &rows)?;
        }
    }
    Ok(())
}

type Table = ([String; 3], Vec<Vec<String>>);

fn tables(activities: &[(String, Activity)]) -> [Table; 2] {
    let header = |second: &str, third: &str| ["source", second, third].map(str::to_owned);
    let sums = activities.iter().map(|(source, activity)| {
        vec![source.clone(), activity.done_last_hour.to_string(), activity.tried_often.to_string()]
    });
    let minutes = activities.iter().flat_map(|(source, activity)| {
        let row = |(minute, done): &(_, u64)| vec![source.clone(), format!("{minute}"), done.to_string()];
        activity.by_minute.iter().map(row).collect::<Vec<_>>()
    });
    [
        (header("done last hour", &format!("tried {TRIED_OFTEN}+ times")), sums.collect()),
        (header("minute", "done"), minutes.collect()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Activity {
        let minute = |text: &str| text.parse().expect("it is a time");
        let by_minute = vec![(minute("2026-03-01T12:01:00Z"), 40), (minute("2026-03-01T12:00:00Z"), 2)];
        Activity { tried_often: 3, done_last_hour: 42, by_minute }
    }

    #[test]
    fn a10_the_tables_answer_every_question() {
        let quiet = Activity::default();
        let [(head, sums), (_, minutes)] =
            tables(&[("orders".to_owned(), seen()), ("quiet".to_owned(), quiet)]);
        assert_eq!(head, ["source", "done last hour", "tried 3+ times"]);
        assert_eq!(sums, [["orders", "42", "3"], ["quiet", "0", "0"]]);
        assert_eq!(
            minutes,
            [["orders", "2026-03-01T12:01:00Z", "40"], ["orders", "2026-03-01T12:00:00Z", "2"]]
        );
    }

    #[test]
    fn a10_so_does_the_json() {
        let expected = json!({
            "source": "orders",
            "tried_often": 3,
            "done_last_hour": 42,
            "by_minute": [
                { "minute": "2026-03-01T12:01:00Z", "done": 40 },
                { "minute": "2026-03-01T12:00:00Z", "done": 2 },
            ],
        });
        assert_eq!(to_json("orders", &seen()), expected);
    }
}
