//! What a condition's message carries beside its sentence.
//!
//! A node's condition has four fields and no room for data, yet nothing may act on it without
//! knowing from which boot it comes. So a message ends with a trailer that people can read too:
//!
//! ```text
//! GPU 3 reported XID 95 (uncontained memory error) [boot=4e1c part=GPU-3 count=2]
//! ```
//!
//! Where several rows of the fault catalogue share a reason, since people need not tell them apart,
//! the trailer names the row as well, as `row=xid/95`.
//!
//! A message without a trailer is legal: its sentence is shown, and since it names no boot it is
//! never acted upon by a repair that needs one.

use std::fmt;

/// A sentence for people, and the facts that a decision needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// What was seen, as one sentence.
    pub text: String,
    /// The boot during which it was seen.
    pub boot: Option<String>,
    /// The part it was seen on, as `GPU-3` or `mlx5_0`.
    pub part: Option<String>,
    /// How often it was seen, where that is counted.
    pub count: Option<u32>,
}

impl Evidence {
    /// Reads a condition's message. Never fails: what is no trailer belongs to the sentence, and
    /// keys that this version does not know are passed over.
    pub fn read(message: &str) -> Self {
        let plain = || Self { text: message.trim().to_owned(), ..Self::default() };
        let Some((text, rest)) = message.trim_end().rsplit_once('[') else { return plain() };
        let Some(trailer) = rest.strip_suffix(']') else { return plain() };
        let mut read = Self { text: text.trim().to_owned(), ..Self::default() };
        for pair in trailer.split_ascii_whitespace() {
            let Some((key, value)) = pair.split_once('=') else { return plain() };
            match key {
                "boot" => read.boot = Some(value.to_owned()),
                "part" => read.part = Some(value.to_owned()),
                "count" => read.count = value.parse().ok(),
                _ => {}
            }
        }
        read
    }

    /// The message, with the row of the catalogue in its trailer.
    pub fn with_row(&self, row: &str) -> String {
        let mut message = self.to_string();
        // Without facts of its own it has no trailer, whatever its sentence ends with.
        let bare = self.boot.is_none() && self.part.is_none() && self.count.is_none();
        if bare || message.pop() != Some(']') {
            return format!("{self} [row={row}]");
        }
        message.push_str(" row=");
        message.push_str(row);
        message.push(']');
        message
    }

    /// The row that a message names, if it names one.
    pub fn row(message: &str) -> Option<&str> {
        let (_, trailer) = message.trim_end().strip_suffix(']')?.rsplit_once('[')?;
        trailer.split_ascii_whitespace().find_map(|pair| pair.strip_prefix("row="))
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text.trim())?;
        let count = self.count.map(|count| count.to_string());
        let pairs = [("boot", &self.boot), ("part", &self.part), ("count", &count)];
        let mut open = false;
        for (key, value) in pairs {
            let Some(value) = value else { continue };
            out.write_str(if open { " " } else { " [" })?;
            open = true;
            write!(out, "{key}={value}")?;
        }
        if open { out.write_str("]") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(
        text: &str,
        boot: Option<&str>,
        part: Option<&str>,
        count: Option<u32>,
    ) -> Evidence {
        Evidence {
            text: text.to_owned(),
            boot: boot.map(str::to_owned),
            part: part.map(str::to_owned),
            count,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (text, boot, part, count) in [
            ("GPU 3 reported XID 95", Some("4e1c"), Some("GPU-3"), Some(2)),
            ("the kubelet stopped reporting", Some("4e1c"), None, None),
            ("a person asked", None, None, None),
            ("", None, Some("mlx5_0"), Some(0)),
        ] {
            let written = evidence(text, boot, part, count);
            assert_eq!(Evidence::read(&written.to_string()), written);
        }
    }

    #[test]
    fn a_row_stands_beside_the_facts() {
        for (boot, part) in [(Some("4e1c"), Some("GPU-3")), (Some("4e1c"), None), (None, None)] {
            let written = evidence("GPU 3 [H100]", boot, part, None);
            let message = written.with_row("xid/95");
            assert_eq!(Evidence::row(&message), Some("xid/95"), "{message}");
            assert_eq!(Evidence::read(&message), written);
        }
        for none in ["", "]", "GPU 3 [H100]", "seen [boot=b1]"] {
            assert_eq!(Evidence::row(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_trailer_is_text() {
        for text in ["", "plain", "array[3]", "half [boot=1", "odd [a b]", "]["] {
            assert_eq!(Evidence::read(text), evidence(text, None, None, None), "{text}");
        }
        let newer = Evidence::read("slow [boot=b1 colour=red count=many]");
        assert_eq!(newer, evidence("slow", Some("b1"), None, None));
    }
}
