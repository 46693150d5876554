//! `cargo xtask picture`: a real run of the binary, drawn as README shows it.
//!
//! What stands in the picture was printed by the commands that stand in it; nothing is made up but the
//! frame.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::tool;

/// Where README looks for it.
const PICTURE: &str = "docs/img/up.svg";
/// The node that is broken.
const NODE: &str = "r2-s03";
/// A character's width, a line's height and the margin, in pixels.
const GRID: (usize, usize, usize) = (8, 19, 18);
/// The width of the terminal.
const COLUMNS: usize = 112;
/// The repair takes twenty seconds; so many looks at it, one a second, and something is wrong.
const LOOKS: usize = 120;

/// Builds the binary, plays, draws.
pub(crate) fn run() -> Result<()> {
    tool::release()?;
    let home = tool::root().join("target/picture");
    if home.exists() {
        std::fs::remove_dir_all(&home)
            .with_context(|| format!("cannot clear {}", home.display()))?;
    }
    let told = play(&home);
    let stopped = said(&home, &["down"]);
    let told = told?.replace(&home.display().to_string(), "~");
    stopped?;
    let path = tool::root().join(PICTURE);
    std::fs::create_dir_all(path.with_file_name(""))?;
    std::fs::write(&path, draw(&told)).with_context(|| format!("cannot write {}", path.display()))
}

/// Brings a site up, breaks a node and asks about it until it is repaired.
fn play(home: &Path) -> Result<String> {
    let mut told = String::new();
    let mut ask = |words: &[&str]| -> Result<()> {
        let answer = said(home, words)?;
        writeln!(told, "$ seatrial {}\n{answer}", words.join(" ")).context("cannot note it")
    };
    ask(&["up", "--until-ready", "--detach"])?;
    ask(&["simulate", "fault", "gpu-ecc", NODE])?;
    for _ in 0..LOOKS {
        if said(home, &["node", "history", NODE])?.contains("Solved") {
            ask(&["node", "history", NODE])?;
            return Ok(told);
        }
        tool::pause(Duration::from_secs(1));
    }
    bail!("{NODE} is not repaired after {LOOKS} s: seatrial node why {NODE}");
}

/// What the binary prints, in a home of its own.
fn said(home: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(tool::program());
    command.args(words).current_dir(tool::root()).env("HOME", home);
    command.env_remove("XDG_DATA_HOME").env_remove("KUBECONFIG");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run seatrial {}", words.join(" ")))?;
    if !output.status.success() {
        bail!("seatrial {} failed ({})", words.join(" "), output.status);
    }
    String::from_utf8(output.stdout).context("seatrial prints what is no UTF-8")
}

/// A line as far as it fits.
fn cut(line: &str) -> String {
    match line.char_indices().nth(COLUMNS) {
        None => line.to_owned(),
        Some(_) => line.chars().take(COLUMNS - 1).chain(['…']).collect(),
    }
}

/// A terminal with this text.
fn draw(text: &str) -> String {
    let (wide, high, margin) = GRID;
    let lines: Vec<String> = text.lines().map(|line| cut(line.trim_end())).collect();
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let (width, height) = (longest * wide + 2 * margin, lines.len() * high + 3 * margin);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"seatrial in a terminal\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#101418\"/>\n\
         <g font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\" \
         fill=\"#c9d3dc\" xml:space=\"preserve\">\n"
    );
    for (row, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let fill = match line {
            line if line.starts_with("$ ") => " fill=\"#7ee0a8\"",
            line if line.contains("36/36") => " fill=\"#8fd3ff\"",
            _ => "",
        };
        let escaped = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let (x, y, length) = (margin, margin + (row + 1) * high, line.chars().count() * wide);
        // The length holds columns straight whatever font the reader has.
        let place = format!("x=\"{x}\" y=\"{y}\" textLength=\"{length}\"");
        svg += &format!("<text {place}{fill}>{escaped}</text>\n");
    }
    svg + "</g>\n</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_there_and_none_is_markup() {
        let svg = draw("$ seatrial up\n\n  a <b> & c\n");
        assert!(svg.contains(">$ seatrial up</text>"), "{svg}");
        assert!(svg.contains(">  a &lt;b&gt; &amp; c</text>"), "{svg}");
        assert_eq!(svg.matches("<text").count(), 2);
        assert_eq!(cut(&"x".repeat(200)).chars().count(), COLUMNS);
    }
}
