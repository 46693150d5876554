//! Semantic versions.

use std::cmp::Ordering;
use std::rc::Rc;

use super::meter::{Meter, fail, no_overload};
use super::value::{Out, Val};

/// A version; what follows `+` does not matter to anything here.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Semver {
    core: [u64; 3],
    pre: Vec<Pre>,
}

/// One identifier of a pre-release; numbers come before words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Pre {
    Number(u64),
    Word(String),
}

impl Semver {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, patch] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number("major", "Major", major)?;
        let minor = number("minor", "Minor", minor)?;
        let (rest, build) = patch.split_once('+').map_or((patch, None), |(r, b)| (r, Some(b)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(p, pre)| (p, Some(pre)));
        let patch = number("patch", "Patch", patch)?;
        let mut identifiers = Vec::new();
        for part in pre.iter().flat_map(|p| p.split('.')) {
            identifiers.push(identifier(part)?);
        }
        for part in build.iter().flat_map(|b| b.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(allowed) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Self { core: [major, minor, patch], pre: identifiers })
    }

    /// A version of a looser form: `v1`, `01.2`.
    fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let trimmed = part.trim_start_matches('0');
                *part = match trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                    true => trimmed.to_owned(),
                    false => format!("0{trimmed}"),
                };
            }
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|p| p.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// Which is newer.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.core.cmp(&other.core).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

fn allowed(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'-'
}

fn number(name: &str, title: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {text:?}: {why}")
    })
}

fn identifier(text: &str) -> Result<Pre, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text:?}"
            ));
        }
        return text
            .parse()
            .map(Pre::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"));
    }
    match text.bytes().all(allowed) {
        true => Ok(Pre::Word(text.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {text:?}")),
    }
}

fn read(args: &[Val<'_>]) -> Option<Result<Semver, String>> {
    match args {
        [Val::Str(s)] | [Val::Str(s), Val::Bool(false)] => Some(Semver::parse(s)),
        [Val::Str(s), Val::Bool(true)] => Some(Semver::parse_tolerant(s)),
        _ => None,
    }
}

pub(super) fn parse<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match read(args) {
        Some(Ok(version)) => Ok(Val::Semver(Rc::new(version))),
        Some(Err(e)) => fail(e),
        None => no_overload(),
    }
}

pub(super) fn is_semver<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match read(args) {
        Some(read) => Ok(Val::Bool(read.is_ok())),
        None => no_overload(),
    }
}

fn part<'a>(args: &[Val<'a>], i: usize) -> Out<'a> {
    match args {
        [Val::Semver(v)] => {
            Ok(Val::Int(v.core.get(i).and_then(|n| i64::try_from(*n).ok()).unwrap_or(-1)))
        }
        _ => no_overload(),
    }
}

pub(super) fn major<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    part(args, 0)
}

pub(super) fn minor<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    part(args, 1)
}

pub(super) fn patch<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    part(args, 2)
}
