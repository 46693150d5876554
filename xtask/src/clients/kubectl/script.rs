//! What is typed: commands of a shell with their input, read from `script.txt`.

use anyhow::{Result, bail};

/// One command.
pub(super) struct Step {
    pub(super) tone: Tone,
    pub(super) command: String,
    pub(super) input: String,
}

/// What is made of what a command says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tone {
    /// It is compared.
    Compare,
    /// It is repeated until it succeeds.
    Await,
}

/// `$ ` begins a command that is compared, `? ` one that is awaited, `# ` a comment; the lines after
/// a command, up to an empty one, are its input.
pub(super) fn parse(text: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (at, block) in text.split("\n\n").enumerate() {
        let block = block.trim_matches('\n');
        if block.is_empty() || block.lines().all(|line| line.starts_with('#')) {
            continue;
        }
        let (first, input) = block.split_once('\n').unwrap_or((block, ""));
        let (tone, command) = match first.split_at_checked(2) {
            Some(("$ ", command)) => (Tone::Compare, command),
            Some(("? ", command)) => (Tone::Await, command),
            _ => bail!("block {} of the script begins with neither `$ ` nor `? `: {first}", at + 1),
        };
        let input = if input.is_empty() { String::new() } else { format!("{input}\n") };
        steps.push(Step { tone, command: command.to_owned(), input });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_with_and_without_input() {
        let steps = parse("# why\n\n$ a b\n\n? c -f -\nx: 1\ny: 2\n\n").unwrap();
        let steps: Vec<_> =
            steps.iter().map(|s| (s.tone, s.command.as_str(), s.input.as_str())).collect();
        assert_eq!(steps, [(Tone::Compare, "a b", ""), (Tone::Await, "c -f -", "x: 1\ny: 2\n")]);
        assert!(parse("$ a\n\nb: 1\n").is_err());
    }
}
