//! Functions on strings and bytes; positions count characters, not bytes.

use std::rc::Rc;

use regex::Regex;

use super::meter::{BUILD_LIMIT, Fail, Meter, fail, no_overload};
use super::template;
use super::time;
use super::value::{Out, Val};
use crate::schema::print;

pub(super) fn to_bytes<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Bytes(b)] => Ok(Val::Bytes(Rc::clone(b))),
        [Val::Str(s)] => Ok(Val::Bytes(s.as_bytes().into())),
        _ => no_overload(),
    }
}

pub(super) fn to_string<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [v] => match text(v)? {
            Some(s) => Ok(Val::string(s)),
            None => no_overload(),
        },
        _ => no_overload(),
    }
}

/// The text of a value that has one.
pub(super) fn text(v: &Val<'_>) -> Result<Option<String>, Fail> {
    Ok(Some(match v {
        Val::Str(s) => s.to_string(),
        Val::Bool(b) => b.to_string(),
        Val::Int(i) => i.to_string(),
        Val::Uint(u) => u.to_string(),
        Val::Double(d) => print::float(*d),
        Val::Bytes(b) => match std::str::from_utf8(b) {
            Ok(s) => s.to_owned(),
            Err(_) => return fail("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Val::Duration(nanos) => time::show_duration(*nanos),
        Val::Timestamp(t) => time::show_timestamp(*t),
        Val::Ip(ip) => ip.to_string(),
        Val::Cidr(ip, bits) => format!("{ip}/{bits}"),
        Val::Type(name) => (*name).to_owned(),
        _ => return Ok(None),
    }))
}

pub(super) fn contains<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s), Val::Str(part)] => Ok(Val::Bool(s.contains(&**part))),
        _ => no_overload(),
    }
}

pub(super) fn starts_with<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s), Val::Str(part)] => Ok(Val::Bool(s.starts_with(&**part))),
        _ => no_overload(),
    }
}

pub(super) fn ends_with<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s), Val::Str(part)] => Ok(Val::Bool(s.ends_with(&**part))),
        _ => no_overload(),
    }
}

pub(super) fn matches<'a>(regex: &Regex, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s), _] => Ok(Val::Bool(regex.is_match(s))),
        _ => no_overload(),
    }
}

pub(super) fn find<'a>(regex: &Regex, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s), _] => Ok(Val::string(regex.find(s).map_or("", |m| m.as_str()))),
        _ => no_overload(),
    }
}

pub(super) fn find_all<'a>(regex: &Regex, args: &[Val<'a>]) -> Out<'a> {
    let (s, limit) = match args {
        [Val::Str(s), _] => (s, usize::MAX),
        [Val::Str(s), _, Val::Int(n)] => (s, usize::try_from(*n).unwrap_or(usize::MAX)),
        _ => return no_overload(),
    };
    Ok(Val::list(regex.find_iter(s).take(limit).map(|m| Val::string(m.as_str())).collect()))
}

fn out_of_range<T>(index: i64) -> Result<T, Fail> {
    fail(format!("index out of range: {index}"))
}

/// The byte position of a character position, which may be the end.
fn position(s: &str, index: i64) -> Result<usize, Fail> {
    let Ok(wanted) = usize::try_from(index) else { return out_of_range(index) };
    let mut ends = s.char_indices().map(|(i, _)| i).chain([s.len()]);
    ends.nth(wanted).map_or_else(|| out_of_range(index), Ok)
}

pub(super) fn char_at<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Str(s), Val::Int(index)] = args else { return no_overload() };
    let rest = &s[position(s, *index)?..];
    Ok(Val::string(rest.chars().next().map(String::from).unwrap_or_default()))
}

/// The first place from an offset on.
pub(super) fn index_of<'a>(args: &[Val<'a>]) -> Out<'a> {
    let (s, part, offset) = match args {
        [Val::Str(s), Val::Str(part)] => (s, part, 0),
        [Val::Str(s), Val::Str(part), Val::Int(offset)] => (s, part, *offset),
        _ => return no_overload(),
    };
    if part.is_empty() {
        return Ok(Val::Int(offset));
    }
    if offset < 0 {
        return out_of_range(offset);
    }
    let Ok(start) = position(s, offset) else { return Ok(Val::Int(-1)) };
    Ok(Val::Int(match s[start..].find(&**part) {
        Some(at) => offset + s[start..start + at].chars().count() as i64,
        None => -1,
    }))
}

/// The last place up to an offset.
pub(super) fn last_index_of<'a>(args: &[Val<'a>]) -> Out<'a> {
    let (s, part, offset) = match args {
        [Val::Str(s), Val::Str(part)] => (s, part, None),
        [Val::Str(s), Val::Str(part), Val::Int(offset)] => (s, part, Some(*offset)),
        _ => return no_overload(),
    };
    if part.is_empty() {
        return Ok(Val::Int(offset.unwrap_or_else(|| s.chars().count() as i64)));
    }
    let end = match offset {
        None => s.len(),
        Some(offset) if offset < 0 => return out_of_range(offset),
        Some(offset) => match position(s, offset) {
            Ok(start) if start < s.len() => {
                // A match may begin at the offset itself.
                let end = start + part.len();
                (end..=s.len()).find(|i| s.is_char_boundary(*i)).unwrap_or(s.len())
            }
            _ => return Ok(Val::Int(-1)),
        },
    };
    Ok(Val::Int(match s[..end.min(s.len())].rfind(&**part) {
        Some(at) => s[..at].chars().count() as i64,
        None => -1,
    }))
}

pub(super) fn lower_ascii<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => Ok(Val::string(s.to_ascii_lowercase())),
        _ => no_overload(),
    }
}

pub(super) fn upper_ascii<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => Ok(Val::string(s.to_ascii_uppercase())),
        _ => no_overload(),
    }
}

pub(super) fn trim<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => Ok(Val::string(s.trim())),
        _ => no_overload(),
    }
}

pub(super) fn replace<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let (s, old, new, limit) = match args {
        [Val::Str(s), Val::Str(old), Val::Str(new)] => (s, old, new, usize::MAX),
        [Val::Str(s), Val::Str(old), Val::Str(new), Val::Int(n)] => {
            (s, old, new, usize::try_from(*n).unwrap_or(usize::MAX))
        }
        _ => return no_overload(),
    };
    let count = s.matches(&**old).take(limit).count();
    let grown = count.saturating_mul(new.len()).saturating_add(s.len());
    if grown > BUILD_LIMIT {
        return Err(Fail::Cost);
    }
    Ok(Val::string(s.replacen(&**old, new, limit)))
}

pub(super) fn split<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let (s, separator, limit) = match args {
        [Val::Str(s), Val::Str(separator)] => (s, separator, usize::MAX),
        [Val::Str(s), Val::Str(separator), Val::Int(n)] => {
            (s, separator, usize::try_from(*n).unwrap_or(usize::MAX))
        }
        _ => return no_overload(),
    };
    let parts: Vec<Val<'a>> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        // Each character by itself, and what is over the limit with the last.
        let mut out = Vec::new();
        let mut rest: &str = s;
        while let Some(c) = rest.chars().next() {
            let end = if out.len() + 1 == limit { rest.len() } else { c.len_utf8() };
            out.push(Val::string(&rest[..end]));
            rest = &rest[end..];
        }
        out
    } else {
        s.splitn(limit, &**separator).map(Val::string).collect()
    };
    Ok(Val::list(parts))
}

pub(super) fn substring<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s), Val::Int(start)] => Ok(Val::string(&s[position(s, *start)?..])),
        [Val::Str(s), Val::Int(start), Val::Int(end)] => {
            if start > end {
                return fail(format!("invalid substring range. start: {start}, end: {end}"));
            }
            Ok(Val::string(&s[position(s, *start)?..position(s, *end)?]))
        }
        _ => no_overload(),
    }
}

pub(super) fn join<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let (list, separator) = match args {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::Str(separator)] => (list, &**separator),
        _ => return no_overload(),
    };
    let mut out = String::new();
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        match item? {
            Val::Str(s) => out.push_str(&s),
            other => return fail(format!("join: invalid input: {}", other.show())),
        }
        if out.len() > BUILD_LIMIT {
            return Err(Fail::Cost);
        }
    }
    Ok(Val::string(out))
}

pub(super) fn quote<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Str(s)] = args else { return no_overload() };
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(Val::string(out))
}

pub(super) fn format<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s), Val::List(list)] => Ok(Val::string(template::fill(s, list)?)),
        _ => no_overload(),
    }
}
