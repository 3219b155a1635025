//! Holds `docs/reference/cli.md` against what can be typed.

use clap::{Command, CommandFactory};

use super::args::{Cli, EXIT_CODES};

const REFERENCE: &str = include_str!("../../../../docs/reference/cli.md");

#[test]
fn every_verb_and_flag_is_in_the_reference() {
    let mut command = Cli::command();
    command.build();
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let heading = format!("\n### `{}`\n", verb.get_name());
        assert!(REFERENCE.contains(&heading), "docs/reference/cli.md lacks{heading}");
        check_flags(verb);
        for nested in verb.get_subcommands().filter(|nested| nested.get_name() != "help") {
            let name = format!("{} {}", verb.get_name(), nested.get_name());
            let known = REFERENCE.contains(&format!("\n#### `{name}`\n"))
                || REFERENCE.contains(&format!("`{name}` "));
            assert!(known, "docs/reference/cli.md lacks `{name}`");
            check_flags(nested);
        }
    }
    check_flags(&command);
}

fn check_flags(command: &Command) {
    for flag in command.get_arguments().filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()))
    {
        let names = flag.get_long().map(|name| format!("--{name}")).into_iter();
        let names: Vec<String> = names.chain(flag.get_short().map(|name| format!("`-{name}`"))).collect();
        let known = names.is_empty() || names.iter().any(|name| REFERENCE.contains(name.as_str()));
        assert!(known, "docs/reference/cli.md lacks {names:?} of {}", command.get_name());
    }
}

#[test]
fn every_exit_code_is_in_the_reference() {
    let codes = EXIT_CODES.lines().filter_map(|line| line.strip_prefix("  "));
    let codes: Vec<&str> = codes.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(codes, ["0", "1", "2", "3", "4", "5", "6", "7", "130"]);
    for code in codes {
        assert!(REFERENCE.contains(&format!("| `{code}` | ")), "docs/reference/cli.md lacks {code}");
    }
}
