//! `init`: a configuration that runs at once.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use outbox::table::Suggestion;
use serde_json::{Value, json};

use super::args::InitArgs;
use super::init_from::propose;
use super::output::{Output, printable};
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// The commented example; a test holds it against the defaults.
const EXAMPLE: &str = include_str!("../../assets/outboxd.toml");

/// Passwords will be put into it, so nobody else may read it.
const MODE: u32 = 0o600;

/// Writes the example to where the configuration is looked for.
pub async fn init(args: &InitArgs, file: &Path, output: &mut Output) -> anyhow::Result<Exit> {
    let Some(url) = &args.from else {
        put(file, args.force, EXAMPLE)?;
        written(file, output, &json!({ "written": file }))?;
        output.note(
            "next: outboxd migrate, then outboxd send --type order.created --data '{}', then outboxd run",
        );
        return Ok(Exit::Ok);
    };
    // Before anybody is kept waiting.
    if file.exists() && !args.force {
        return Err(exists(file).into());
    }
    let proposal = propose(url).await?;
    // A name that is odd in a way that we did not think of must not end in a file that is of no use.
    Plan::parse(file, &proposal.text, &|_| None)?;
    put(file, args.force, &proposal.text)?;
    let Suggestion { table, preset, unsure, .. } = &proposal.suggestion;
    written(file, output, &json!({ "written": file, "table": table, "preset": preset, "unsure": unsure }))?;
    let layout = preset.map(|preset| format!(", the layout of preset '{preset}'")).unwrap_or_default();
    output.note(format_args!("mapped table '{table}'{layout}"));
    for words in unsure {
        output.note(format_args!("not sure: {}", printable(words)));
    }
    if proposal.without_password {
        output.note("the password was not written: set DATABASE_PASSWORD, or use password_file");
    }
    output.note("next: look at the file, then outboxd validate, outboxd doctor, outboxd run");
    Ok(Exit::Ok)
}

fn exists(file: &Path) -> Trouble {
    Trouble::new(Exit::Failed, format!("{} exists already", file.display()), "overwrite it with --force")
}

fn written(file: &Path, output: &mut Output, told: &Value) -> io::Result<()> {
    if output.is_json() { output.json(told) } else { output.line(format_args!("wrote {}", file.display())) }
}

fn put(file: &Path, force: bool, text: &str) -> Result<(), Trouble> {
    if let Err(error) = write(file, force, text) {
        let shown = file.display();
        let trouble = if error.kind() == io::ErrorKind::AlreadyExists {
            exists(file)
        } else {
            Trouble::new(
                Exit::Failed,
                format!("cannot write {shown}: {error}"),
                "check the folder, or name another with --config",
            )
        };
        return Err(trouble);
    }
    Ok(())
}

fn write(path: &Path, force: bool, text: &str) -> io::Result<()> {
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
    file.write_all(text.as_bytes())
}
