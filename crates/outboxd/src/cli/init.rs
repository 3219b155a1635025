//! `init`: a configuration that runs at once.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::args::InitArgs;
use super::output::Output;
use crate::trouble::{Exit, Trouble};

/// The commented example; a test holds it against the defaults.
const EXAMPLE: &str = include_str!("../../assets/outboxd.toml");

/// Passwords will be put into it, so nobody else may read it.
const MODE: u32 = 0o600;

/// Writes the example to where the configuration is looked for.
pub fn init(args: &InitArgs, file: &Path, output: &mut Output) -> anyhow::Result<Exit> {
    if let Err(error) = write(file, args.force) {
        let shown = file.display();
        let trouble = if error.kind() == io::ErrorKind::AlreadyExists {
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

fn write(path: &Path, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).mode(MODE);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut file = options.open(path)?;
    // One that was there before has the mode that it had; what is no file has none that matters.
    if force && file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    file.write_all(EXAMPLE.as_bytes())
}
