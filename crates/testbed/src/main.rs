//! `testbed with <command> …`: the shared servers around one command, such as `cargo test --workspace`.

use std::env;
use std::ffi::OsString;
use std::process::exit;

fn main() {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let code = match arguments.split_first() {
        Some((verb, command)) if verb == "with" && !command.is_empty() => testbed::with(command),
        _ => {
            eprintln!("usage: testbed with <command> [argument …]");
            exit(2);
        }
    };
    match code {
        Ok(code) => exit(code),
        Err(error) => {
            eprintln!("testbed: {error:#}");
            exit(1);
        }
    }
}
