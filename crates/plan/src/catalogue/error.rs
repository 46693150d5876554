//! What can be wrong with a catalogue file, in words that name the remedy.

use std::fmt;

use crate::words::nearest;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CatalogueError {
    /// The file's name.
    pub file: String,
    /// The row or policy, if the fault is in one.
    pub row: Option<String>,
    /// The field, if the fault is in one.
    pub field: Option<String>,
    /// What is wrong, with the nearest valid value where there is one.
    pub reason: String,
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for (what, name) in [("row", &self.row), ("field", &self.field)] {
            if let Some(name) = name {
                write!(f, ": {what} {name}")?;
            }
        }
        write!(f, ": {}", self.reason)
    }
}

/// A word that is none of the valid ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not known; the nearest valid value is {nearest:?}")]
pub struct UnknownWord {
    word: String,
    nearest: String,
}

impl UnknownWord {
    pub(crate) fn new<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Self {
        let nearest = nearest(word, words).unwrap_or_default().to_owned();
        Self { word: word.chars().take(64).collect(), nearest }
    }
}
