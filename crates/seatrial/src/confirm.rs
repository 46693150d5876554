//! Nothing is disturbed unasked: a person at a terminal is asked, and whoever is none says `--yes`.

use std::io::{BufRead, IsTerminal, Write};

/// What verbs take that disturb something or change an object.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Consent {
    /// Do it without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print the kubectl line that does the same, and do nothing
    #[arg(long)]
    pub(crate) show: bool,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Declined {
    /// Nobody can be asked.
    #[error("nobody is at a terminal to be asked; add --yes to do it")]
    Nobody,
    /// The person said no.
    #[error("nothing was done")]
    No,
}

/// Shows what would be disturbed, and asks.
///
/// # Errors
/// If the person says no, or there is none.
pub(crate) fn ask(
    consent: &Consent,
    disturbs: &str,
    question: &str,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if consent.yes {
        return Ok(());
    }
    let mut out = std::io::stderr().lock();
    writeln!(out, "{disturbs}")?;
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Declined::Nobody.into());
    }
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Declined::No.into()),
    }
}

/// A JSON patch body in single quotes for a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
