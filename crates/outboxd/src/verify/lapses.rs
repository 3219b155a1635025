//! How often a relay lost its lease though nothing was done to it, by its own account: a machine that is busy enough
//! does that. What it had in flight is repeated by whoever takes over, and that is no fault of anybody.

use std::io::{BufRead, BufReader};
use std::path::Path;

/// What a relay says when it has lost claims of the pipe that is recorded.
const WORDS: [(&str, &str); 2] =
    [("claims were lost", "pipe=\"relay\""), ("renewed too late", "cursor=\"relay\"")];

/// Of all relays whose logs are in the folder.
pub(super) fn lapses(folder: &Path) -> std::io::Result<u64> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("relay-") && name.ends_with(".log") {
            let lines = BufReader::new(std::fs::File::open(&path)?).lines();
            count += lines.map_while(Result::ok).map(|line| of_line(&line)).sum::<u64>();
        }
    }
    Ok(count)
}

/// What repeats is told as a sum.
fn of_line(line: &str) -> u64 {
    if !WORDS.iter().any(|(what, whose)| line.contains(what) && line.contains(whose)) {
        return 0;
    }
    let more = line.rsplit_once(" more=").and_then(|(_, more)| more.trim().parse().ok());
    more.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lapses_of_the_recorded_pipe_are_counted_and_sums_as_well() {
        let said = "WARN claims were lost; starting afresh pipe=\"relay\" claims=1 why=\"the lease ran out\"";
        let sum =
            "WARN 3 more like this in the last 10 s: claims were lost; starting afresh pipe=\"relay\" more=3";
        let late = "WARN renewed too late; starting afresh cursor=\"relay\" lane=0";
        let other = "WARN claims were lost; starting afresh pipe=\"effects\" claims=1";
        assert_eq!([said, sum, late, other, "INFO outboxd is up"].map(of_line), [1, 3, 1, 0, 0]);
    }
}
