//! From source text to an unchecked tree, by the `cel` crate's parser.
//!
//! Guarantees: hostile input neither overflows the stack nor panics: length and nesting are checked
//! on the text before the parser sees it. Macros are left as the calls they are written as; the
//! checker gives them meaning. Messages are laid out as the reference implementation lays them out.

use cel::Env;
use cel::common::ast::{IdedExpr, SourceInfo};

/// The deepest nesting of an expression.
pub(super) const MAX_DEPTH: usize = 250;

/// What the count may be wrong by.
const SLACK: usize = 4;

/// The longest expression, in characters.
const MAX_CHARS: usize = 100_000;

/// The most complaints that are listed.
const MAX_ISSUES: usize = 100;

/// A complaint about a place in the source.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Issue {
    /// Counted from one.
    pub(super) line: usize,
    /// Counted from zero, in characters.
    pub(super) column: usize,
    pub(super) message: String,
}

/// Source text with a parsed tree.
pub(super) struct Parsed {
    pub(super) root: IdedExpr,
    pub(super) info: SourceInfo,
}

/// The tree of an expression, or what is wrong with the text.
pub(super) fn parse(source: &str) -> Result<Parsed, String> {
    let chars = source.chars().count();
    if chars > MAX_CHARS {
        return Err(format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {chars}, limit {MAX_CHARS}"
        ));
    }
    // Counted on the text, the tree is a little deeper than it is.
    if nesting(source) > MAX_DEPTH + SLACK {
        return Err(format!(
            "ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}"
        ));
    }
    let parser = Env::default().parser().max_recursion_depth(u16::MAX - 1);
    match parser.parse_with_source_info(source) {
        Ok((root, info)) => Ok(Parsed { root, info }),
        Err(errors) => {
            let issues = errors.errors.into_iter().map(|e| Issue {
                line: usize::try_from(e.pos.0).unwrap_or(0),
                column: usize::try_from(e.pos.1 - 1).unwrap_or(0),
                message: e.msg,
            });
            Err(layout(source, issues.collect()))
        }
    }
}

/// The complaints in the order of the text, each with the line it is about.
pub(super) fn layout(source: &str, mut issues: Vec<Issue>) -> String {
    issues.sort_by_key(|i| (i.line, i.column));
    let lines: Vec<&str> = source.split('\n').collect();
    let more = issues.len().saturating_sub(MAX_ISSUES);
    issues.truncate(MAX_ISSUES);
    let mut out: Vec<String> = issues.iter().map(|i| i.display(&lines)).collect();
    if more > 0 {
        out.push(format!("{more} more errors were truncated"));
    }
    out.join("\n")
}

impl Issue {
    /// A complaint about a character of the source.
    pub(super) fn at(source: &str, offset: usize, message: String) -> Self {
        let mut line = 1;
        let mut column = 0;
        for c in source.chars().take(offset) {
            if c == '\n' {
                line += 1;
                column = 0;
            } else {
                column += 1;
            }
        }
        Self { line, column, message }
    }

    fn display(&self, lines: &[&str]) -> String {
        let mut out = format!("ERROR: <input>:{}:{}: {}", self.line, self.column + 1, self.message);
        let Some(text) = self.line.checked_sub(1).and_then(|l| lines.get(l)) else { return out };
        if text.len() > 16384 || lines.len() == 1 && text.is_empty() {
            return out;
        }
        let text = text.replace('\t', " ");
        out.push_str("\n | ");
        out.push_str(&text);
        out.push_str("\n | ");
        let mut chars = text.chars();
        for c in chars.by_ref().take(self.column) {
            out.push(if c.is_ascii() { '.' } else { '．' });
        }
        out.push(if chars.next().is_none_or(|c| c.is_ascii()) { '^' } else { '＾' });
        out
    }
}

/// How deep operands, brackets and ternaries nest on one level of brackets.
#[derive(Default)]
struct Level {
    /// Whether the bracket that opened the level continues an operand, as a call does.
    continues: bool,
    ternaries: usize,
    /// The deepest of the terms that `&&`, `||`, commas and ternaries have ended.
    ended: usize,
    /// The depth of the operators of this term so far.
    operators: usize,
    /// The depth of the operand that is being read, and whether there is one.
    operand: usize,
    in_operand: bool,
}

impl Level {
    fn depth(&self) -> usize {
        self.ternaries + self.ended.max(self.operators).max(self.operand)
    }

    fn operator(&mut self) {
        self.operators = self.operators.max(self.operand) + 1;
        self.operand = 0;
        self.in_operand = false;
    }

    fn end_term(&mut self) {
        self.ended = self.ended.max(self.operators).max(self.operand);
        self.operators = 0;
        self.operand = 0;
        self.in_operand = false;
    }

    fn close(&mut self, inner: &Self) {
        self.operand = match inner.continues {
            true => self.operand.max(inner.depth()) + 1,
            false => inner.depth() + 1,
        };
        self.in_operand = true;
    }
}

/// How deep the tree of the text gets at most, found without reading it properly.
fn nesting(source: &str) -> usize {
    let bytes = source.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut i = 0;
    while i < bytes.len() {
        let c = at(i);
        match c {
            b'"' | b'\'' => {
                i = end_of_string(bytes, i);
                level.in_operand = true;
                continue;
            }
            b'/' if at(i + 1) == b'/' => {
                while i < bytes.len() && at(i) != b'\n' {
                    i += 1;
                }
                continue;
            }
            b'(' | b'[' | b'{' => {
                let inner = Level { continues: level.in_operand, ..Level::default() };
                outer.push(std::mem::replace(&mut level, inner));
            }
            b')' | b']' | b'}' => {
                if let Some(mut back) = outer.pop() {
                    back.close(&level);
                    level = back;
                }
            }
            b',' => {
                level.end_term();
                level.ended += level.ternaries;
                level.ternaries = 0;
            }
            b'?' if at(i.wrapping_sub(1)) != b'.' && at(i.wrapping_sub(1)) != b'[' => {
                level.end_term();
                level.ternaries += 1;
            }
            b':' => level.end_term(),
            b'&' | b'|' if at(i + 1) == c => {
                level.end_term();
                i += 1;
            }
            b'.' => level.operand += 1,
            b'!' if at(i + 1) != b'=' => {}
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' => {
                level.operator();
                if at(i + 1) == b'=' {
                    i += 1;
                }
            }
            c if is_word(c) => {
                let start = i;
                while is_word(at(i + 1)) {
                    i += 1;
                }
                match bytes.get(start..=i) {
                    Some(b"in") => level.operator(),
                    _ => level.in_operand = true,
                }
            }
            _ => {}
        }
        i += 1;
    }
    while let Some(mut back) = outer.pop() {
        back.close(&level);
        level = back;
    }
    level.depth()
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

/// The place after the string that starts here.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let quote = at(start);
    let prefix = at(start.wrapping_sub(1));
    let raw = matches!(prefix, b'r' | b'R')
        || matches!(prefix, b'b' | b'B') && matches!(at(start.wrapping_sub(2)), b'r' | b'R');
    let triple = at(start + 1) == quote && at(start + 2) == quote;
    let mut i = start + if triple { 3 } else { 1 };
    while i < bytes.len() {
        let c = at(i);
        if c == b'\\' && !raw {
            i += 2;
        } else if triple && c == quote && at(i + 1) == quote && at(i + 2) == quote {
            return i + 3;
        } else if !triple && (c == quote || c == b'\n') {
            return i + 1;
        } else {
            i += 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_counts_what_nests() {
        let cases = [
            ("a", 0),
            ("((((1))))", 4),
            ("a.b.c == 1", 3),
            ("a && b && c", 0),
            ("f(a, b, c)", 1),
            ("f(g(h(a)))", 3),
            ("a.f(b.c.d)", 3),
            ("1 + 1 + 1", 2),
            ("'((((' == \"((((\"", 1),
            ("r'\\' + '(('", 1),
            ("'''a'((''' + 1", 1),
            ("1 // ((((", 0),
            ("a ? b : c ? d : e", 2),
            ("!(!(a))", 2),
            ("a in b", 1),
            ("((((", 4),
        ];
        for (source, expect) in cases {
            assert_eq!(nesting(source), expect, "{source}");
        }
    }

    #[test]
    fn hostile_nesting_is_refused_before_parsing() {
        for source in
            ["(".repeat(99_999), "[".repeat(99_999), "a.".repeat(49_000), "- ".repeat(49_000)]
        {
            let Err(message) = parse(&source) else { panic!("accepted") };
            assert!(message.contains("recursion limit exceeded: 250"), "{message}");
        }
        let Err(message) = parse(&"1".repeat(100_001)) else { panic!("accepted") };
        assert!(message.contains("size: 100001, limit 100000"), "{message}");
    }
}
