//! Format, lints, dependencies: what a reviewer should never have to say.

use anyhow::Result;

use crate::tool;

/// rustfmt, clippy, cargo-deny; fails at the first complaint.
pub(crate) fn run() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    if !tool::has("cargo-deny", "--version") {
        cargo(&["install", "--locked", "--quiet", "cargo-deny"])?;
    }
    // Advisories would need a database that not every network reaches.
    cargo(&["deny", "check", "bans", "licenses", "sources"])
}

fn cargo(args: &[&str]) -> Result<()> {
    tool::run(tool::cargo(args))
}
