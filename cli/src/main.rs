//! The command `leasehold`, for the stores that are compiled in.

fn main() -> std::process::ExitCode {
    leasehold_cli::main(leasehold::Registry::default())
}
