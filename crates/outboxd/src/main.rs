//! The program `outboxd`; everything is in `lib.rs`.

fn main() -> std::process::ExitCode {
    outboxd::main()
}
