//! `pattern`: regular expressions in Go's RE2 syntax, run by the `regex` crate.
//!
//! The two dialects differ in corners: Go's `\d`, `\w`, `\s` and `\b` are ASCII, its classes hold
//! `[`, `&` and `~` as they are, a brace that starts no repetition is a brace, and it refuses
//! flags, escapes and repetitions that the crate knows. [`compile`] translates the first and
//! refuses the second. Matching takes linear time; a program may have [`SIZE_LIMIT`] bytes.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::{Regex, RegexBuilder};

/// The largest compiled program.
const SIZE_LIMIT: usize = 4 << 20;
/// The longest pattern that is read at all.
const LENGTH_LIMIT: usize = 64 << 10;
const NEST_LIMIT: u32 = 200;
/// The most often that `{n}` may repeat, as in Go.
const REPEAT_LIMIT: u32 = 1000;
/// How many compiled patterns are kept; the cache starts anew beyond.
const CACHED: usize = 512;

type Compiled = Result<Arc<Regex>, String>;

static CACHE: LazyLock<Mutex<HashMap<String, Compiled>>> = LazyLock::new(Mutex::default);

/// Compiles a pattern, or says in Go's words why not.
pub fn compile(pattern: &str) -> Result<Arc<Regex>, String> {
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = cache().get(pattern) {
        return known.clone();
    }
    let compiled = build(pattern).map(Arc::new);
    let mut cache = cache();
    if cache.len() >= CACHED {
        cache.clear();
    }
    cache.insert(pattern.to_owned(), compiled.clone());
    compiled
}

fn build(pattern: &str) -> Result<Regex, String> {
    let failed = |what: &str| format!("error parsing regexp: {what}");
    if pattern.len() > LENGTH_LIMIT {
        return Err(failed("expression too large"));
    }
    let translated = Translator { rest: pattern, out: String::new() }.run();
    let translated = translated.map_err(|what| failed(&what))?;
    let regex = RegexBuilder::new(&translated)
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(SIZE_LIMIT)
        .nest_limit(NEST_LIMIT)
        .build();
    regex.map_err(|error| failed(&complaint(pattern, &error)))
}

/// Go's sentence for an error that only the crate finds.
fn complaint(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let whole = |what: &str| format!("{what}: `{pattern}`");
    if matches!(error, regex::Error::CompiledTooBig(_)) || text.contains("nest limit") {
        "expression too large".to_owned()
    } else if text.contains("unclosed group") {
        whole("missing closing )")
    } else if text.contains("unopened group") {
        whole("unexpected )")
    } else if text.contains("unclosed character class") {
        let from = pattern.rfind('[').and_then(|at| pattern.get(at..)).unwrap_or(pattern);
        format!("missing closing ]: `{from}`")
    } else if text.contains("repetition operator missing expression") {
        let at = pattern.find(['*', '+', '?', '{']).and_then(|at| pattern.get(at..));
        let operator = match at {
            Some(braced) if braced.starts_with('{') => braced.split_inclusive('}').next(),
            Some(other) => other.get(..1),
            None => None,
        };
        format!("missing argument to repetition operator: `{}`", operator.unwrap_or_default())
    } else if text.contains("invalid character class range") {
        format!("invalid character class range: `{}`", bad_range(pattern))
    } else if text.contains("Unicode property") || text.contains("Unicode class") {
        let from = pattern.find("\\p").or_else(|| pattern.find("\\P")).unwrap_or(0);
        let from = pattern.get(from..).unwrap_or(pattern);
        let end = from.find('}').map_or(from.len(), |at| at + 1);
        format!("invalid character class range: `{}`", from.get(..end).unwrap_or(from))
    } else if text.contains("capture group name") || text.contains("duplicate capture") {
        whole("invalid named capture")
    } else {
        whole("invalid or unsupported Perl syntax")
    }
}

/// The first range in a class that runs backwards.
fn bad_range(pattern: &str) -> String {
    let chars: Vec<_> = pattern.chars().collect();
    let backwards = |three: &&[char]| matches!(three, [from, '-', to] if from > to);
    chars.windows(3).find(backwards).map_or(pattern.to_owned(), |three| three.iter().collect())
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
}

impl Translator<'_> {
    fn run(mut self) -> Result<String, String> {
        // Whether the last thing was a repetition, and of which form.
        let mut repeated: Option<String> = None;
        while let Some(c) = self.take() {
            let mut repetition = None;
            match c {
                '\\' if self.rest.starts_with('Q') => {
                    let literal = self.rest.get(1..).unwrap_or_default();
                    let (literal, rest) = literal.split_once("\\E").unwrap_or((literal, ""));
                    self.out.push_str(&regex::escape(literal));
                    self.rest = rest;
                }
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '(' => self.group()?,
                '{' => match counted(self.rest) {
                    Some((text, most)) if most <= REPEAT_LIMIT => {
                        repetition = Some(format!("{{{text}}}"));
                        self.out.push('{');
                        self.out.push_str(text);
                        self.out.push('}');
                        self.rest = self.rest.get(text.len() + 1..).unwrap_or_default();
                    }
                    Some((text, _)) => return Err(format!("invalid repeat count: `{{{text}}}`")),
                    None => self.out.push_str("\\{"),
                },
                '*' | '+' | '?' => {
                    repetition = Some(c.to_string());
                    self.out.push(c);
                }
                '}' => self.out.push_str("\\}"),
                ']' => self.out.push_str("\\]"),
                c => self.out.push(c),
            }
            if let Some(now) = repetition {
                if let Some(before) = repeated {
                    return Err(format!("invalid nested repetition operator: `{before}{now}`"));
                }
                let lazy = if self.rest.starts_with('?') { "?" } else { "" };
                self.out.push_str(lazy);
                self.rest = self.rest.get(lazy.len()..).unwrap_or_default();
                repeated = Some(format!("{now}{lazy}"));
            } else {
                repeated = None;
            }
        }
        Ok(self.out)
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    /// What follows a backslash, inside or outside a class.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(c) = self.take() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        match c {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            's' => self.out.push_str(r"[\t\n\x0C\r ]"),
            'S' => self.out.push_str(r"[^\t\n\x0C\r ]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            'b' if !in_class => self.out.push_str(r"(?-u:\b)"),
            'B' if !in_class => self.out.push_str(r"(?-u:\B)"),
            'A' | 'z' if !in_class => {
                self.out.push('\\');
                self.out.push(c);
            }
            'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'x' | 'p' | 'P' => {
                self.out.push('\\');
                self.out.push(c);
                if let Some(braced) = self.rest.strip_prefix('{')
                    && matches!(c, 'x' | 'p' | 'P')
                    && let Some(end) = braced.find('}')
                {
                    self.out.push_str(self.rest.get(..end + 2).unwrap_or_default());
                    self.rest = self.rest.get(end + 2..).unwrap_or_default();
                }
            }
            '0'..='7' if c == '0' || self.rest.starts_with(|c| matches!(c, '0'..='7')) => {
                let mut code = c.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    match self.rest.chars().next().and_then(|c| c.to_digit(8)) {
                        Some(digit) => {
                            code = code * 8 + digit;
                            self.take();
                        }
                        None => break,
                    }
                }
                self.out.push_str(&format!("\\x{{{code:x}}}"));
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => self.literal(c),
            c => return Err(format!("invalid escape sequence: `\\{c}`")),
        }
        Ok(())
    }

    /// A character that stands for itself.
    fn literal(&mut self, c: char) {
        if c.is_ascii() && !c.is_ascii_alphanumeric() {
            self.out.push_str(&format!("\\x{:02x}", u32::from(c)));
        } else {
            self.out.push(c);
        }
    }

    /// A class, from behind its bracket.
    fn class(&mut self) -> Result<(), String> {
        let from = self.rest;
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.take();
            self.out.push('^');
        }
        let mut first = true;
        loop {
            if let Some(end) = self.rest.strip_prefix("[:").and_then(|rest| rest.find(":]")) {
                let (name, rest) = self.rest.split_at(end + 4);
                self.out.push_str(name);
                self.rest = rest;
                first = false;
                continue;
            }
            match self.take() {
                None => return Err(format!("missing closing ]: `[{from}`")),
                Some(']') if !first => break,
                Some('\\') => self.escape(true)?,
                // A dash is itself at either end and makes a range elsewhere.
                Some('-') if first || self.rest.starts_with(']') => self.literal('-'),
                Some('-') => self.out.push('-'),
                Some(c) => self.literal(c),
            }
            first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// What may follow an opening parenthesis: nothing, a name or flags.
    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        let Some(rest) = self.rest.strip_prefix('?') else {
            return Ok(());
        };
        if let Some(name) = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<')) {
            let Some(end) = name.find('>') else {
                return Err(format!("invalid named capture: `({}`", self.rest));
            };
            let named = rest.get(..rest.len() - name.len() + end + 1).unwrap_or(rest);
            let name = name.get(..end).unwrap_or_default();
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(format!("invalid named capture: `(?{named}`"));
            }
            self.out.push('?');
            self.out.push_str(named);
            self.rest = rest.get(named.len()..).unwrap_or_default();
            return Ok(());
        }
        let end = rest.find(|c| !matches!(c, 'i' | 'm' | 's' | 'U' | '-')).unwrap_or(rest.len());
        let (flags, behind) = rest.split_at(end);
        if !behind.starts_with([':', ')']) {
            let bad = behind.chars().next().map_or(String::new(), String::from);
            return Err(format!("invalid or unsupported Perl syntax: `(?{flags}{bad}`"));
        }
        self.out.push('?');
        self.out.push_str(flags);
        self.rest = behind;
        Ok(())
    }
}

/// The inside of `{n}`, `{n,}` or `{n,m}`, and the largest number in it.
fn counted(rest: &str) -> Option<(&str, u32)> {
    let text = rest.get(..rest.find('}')?)?;
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse::<u32>().unwrap_or(u32::MAX))
    };
    let least = number(least)?;
    let most = if most.is_empty() { least } else { number(most)? };
    Some((text, if least > most { u32::MAX } else { most }))
}

/// The complaint of a CRD's schema about a bad pattern.
pub(super) fn refusal(error: &str) -> String {
    format!("must be a valid regular expression, but isn't: {error}")
}

/// The pattern as a failed match shows it when it does not even compile.
pub(super) fn broken(pattern: &str, error: &str) -> String {
    format!("{pattern}, but pattern is invalid: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, expect) in [
            ("^a+$", "aaa", true),
            ("^[a-z]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{661}", false),
            (r"^\w+$", "é", false),
            (r"^[\w.]+$", "a.b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^\S+$", "ab", true),
            (r"\bfoo\b", "a foo b", true),
            (r"a\Bb", "ab", true),
            ("^a{2,3}$", "aaa", true),
            ("^a{,3}$", "a{,3}", true),
            ("^a{x}$", "a{x}", true),
            ("^{}$", "{}", true),
            ("^[[]$", "[", true),
            ("^[]a]+$", "]a", true),
            ("^[a&&b]+$", "&", true),
            ("^[a~~b]$", "~", true),
            ("^[[:alpha:]_]+$", "a_b", true),
            ("^[+-]?1$", "-1", true),
            ("^[a-]$", "-", true),
            (r"^[a\-z]$", "-", true),
            (r"^[a\-z]$", "m", false),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\<\_$", "<_", true),
            (r"^\101$", "A", true),
            (r"^\x{41}\x42$", "AB", true),
            (r"^\pL\p{Greek}$", "aλ", true),
            ("(?i)^ABC$", "abc", true),
            ("^(?P<n>a)(?<m>b)(?:c)$", "abc", true),
            ("^a.c$", "a\nc", false),
            ("^(?s)a.c$", "a\nc", true),
            ("^a*?b+?$", "aab", true),
            ("^a#b $", "a#b ", true),
        ] {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), expect, "{pattern} on {text}");
        }
    }

    #[test]
    fn refusals_are_gos() {
        for (pattern, expect) in [
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\h", r"invalid escape sequence: `\h`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=a)", "invalid named capture: `(?<=a)`"),
            ("(?P<a", "invalid named capture: `(?P<a`"),
            ("(?<a b>c)", "invalid named capture: `(?<a b>`"),
            ("[b-a]", "invalid character class range: `b-a`"),
            (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
            ("{2}", "missing argument to repetition operator: `{2}`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            let error = compile(pattern).expect_err(pattern);
            assert_eq!(error, format!("error parsing regexp: {expect}"), "{pattern}");
        }
    }

    #[test]
    fn hostile_patterns_are_refused_cheaply() {
        for pattern in [
            "((((a{100}){100}){100}){100})".to_owned(),
            "(".repeat(100_000),
            format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000)),
            "[".repeat(60_000),
            r"\p{L}{1000}".repeat(100),
        ] {
            assert!(compile(&pattern).is_err());
        }
    }
}
