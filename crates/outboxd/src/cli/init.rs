//! `init`: a configuration that runs at once.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use super::args::InitArgs;
use super::output::Output;
use crate::trouble::{Exit, Trouble};

/// The commented example; a test holds it against the defaults.
const EXAMPLE: &str = include_str!("../../assets/outboxd.toml");

/// Writes the example to where the configuration is looked for.
pub fn init(args: &InitArgs, file: &Path, output: &mut Output) -> anyhow::Result<Exit> {
    let mut options = OpenOptions::new();
    if args.force {
        options.write(true).create(true).truncate(true);
    } else {
        options.write(true).create_new(true);
    }
    let written = options.open(file).and_then(|mut file| file.write_all(EXAMPLE.as_bytes()));
    if let Err(error) = written {
        let shown = file.display();
        let trouble = if error.kind() == std::io::ErrorKind::AlreadyExists {
            Trouble::new(Exit::Failed, format!("{shown} exists already"), "overwrite it with --force")
        } else {
            Trouble::new(
                Exit::Failed,
                format!("cannot write {shown}: {error}"),
                "check the folder, or name another with --config",
            )
        };
        return Err(trouble.into());
    }
    if output.is_json() {
        output.json(&serde_json::json!({ "written": file }))?;
    } else {
        output.line(format_args!("wrote {}", file.display()))?;
    }
    output
        .note("next: outboxd migrate, then outboxd send --type order.created --data '{}', then outboxd run");
    Ok(Exit::Ok)
}
