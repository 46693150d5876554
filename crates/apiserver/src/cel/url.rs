//! URLs, as Go parses them from a request: absolute, or a path from the root.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::meter::{Meter, fail, no_overload};
use super::value::{Entries, Key, Map, Out, Val};

/// A parsed URL.
#[derive(Debug, PartialEq)]
pub(super) struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|why| format!("parse {text:?}: {why}"))
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        // The fragment is nobody's business here, but it ends the rest.
        let whole = text.split_once('#').map_or(text, |(before, _)| before);
        let (scheme, rest) = split_scheme(whole)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let url = |host: &str, path: &str| Self {
            text: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return Err("invalid URI for request".to_owned());
            }
            return Ok(url("", ""));
        }
        let (host, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            None => ("", rest),
            Some(after) => {
                let end = after.find('/').unwrap_or(after.len());
                let authority = &after[..end];
                let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
                check_host(host)?;
                (host, &after[end..])
            }
        };
        check_escapes(path)?;
        Ok(url(host, path))
    }

    /// The host without its port and brackets.
    fn hostname(&self) -> &str {
        let host = match port_start(&self.host) {
            Some(i) => &self.host[..i],
            None => &self.host,
        };
        host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
    }

    fn port(&self) -> &str {
        port_start(&self.host).map_or("", |i| &self.host[i + 1..])
    }

    fn escaped_path(&self) -> String {
        let fine = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&b);
        let mut out = String::with_capacity(self.path.len());
        for b in self.path.bytes() {
            match fine(b) {
                true => out.push(b.into()),
                false => out.push_str(&format!("%{b:02X}")),
            }
        }
        out
    }
}

/// The place of the colon before a port.
fn port_start(host: &str) -> Option<usize> {
    let colon = host.rfind(':')?;
    let port = &host[colon + 1..];
    (port.bytes().all(|b| b.is_ascii_digit()) && !host[colon..].contains(']')).then_some(colon)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    let path = text.split('?').next().unwrap_or(text);
    if !path.starts_with('/') && path.split('/').next().is_some_and(|first| first.contains(':')) {
        return Err("first path segment in URL cannot contain colon".to_owned());
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(_) => match host.rfind(']') {
            Some(end) => &host[end + 1..],
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.rfind(':').map_or("", |i| &host[i..]),
    };
    let digits = port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if !port.is_empty() && !digits {
        return Err(format!("invalid port {port:?} after host"));
    }
    check_escapes(host)?;
    if let Some(c) = host.chars().find(|c| " \"<>^`{}|\\".contains(*c)) {
        return Err(format!("invalid character {:?} in host name", c.to_string()));
    }
    Ok(())
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (i, _) in bytes.iter().enumerate().filter(|(_, b)| **b == b'%') {
        let hex = |n: usize| bytes.get(i + n).is_some_and(u8::is_ascii_hexdigit);
        if !hex(1) || !hex(2) {
            let end = (i..text.len().min(i + 3) + 1).rev().find(|e| text.is_char_boundary(*e));
            let shown = &text[i..end.unwrap_or(i + 1)];
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

/// A piece of a query with its escapes undone, if they are sound.
fn unescape(text: &str) -> Option<String> {
    check_escapes(text).ok()?;
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'+' => b' ',
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                (digit(bytes.next())? * 16 + digit(bytes.next())?) as u8
            }
            b => b,
        });
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

pub(super) fn parse<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => match Url::parse(s) {
            Ok(url) => Ok(Val::Url(Rc::new(url))),
            Err(e) => fail(format!("URL parse error during conversion from string: {e}")),
        },
        _ => no_overload(),
    }
}

pub(super) fn is_url<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => Ok(Val::Bool(Url::parse(s).is_ok())),
        _ => no_overload(),
    }
}

/// Why the text is no URI, in Go's words.
pub(super) fn problem(text: &str) -> Option<String> {
    Url::parse(text).err()
}

fn get<'a>(args: &[Val<'a>], part: fn(&Url) -> String) -> Out<'a> {
    match args {
        [Val::Url(url)] => Ok(Val::string(part(url))),
        _ => no_overload(),
    }
}

pub(super) fn scheme<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    get(args, |u| u.scheme.clone())
}

pub(super) fn host<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    get(args, |u| u.host.clone())
}

pub(super) fn hostname<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    get(args, |u| u.hostname().to_owned())
}

pub(super) fn port<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    get(args, |u| u.port().to_owned())
}

pub(super) fn escaped_path<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    get(args, Url::escaped_path)
}

pub(super) fn query<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Url(url)] = args else { return no_overload() };
    let mut lists: BTreeMap<String, Vec<Val<'a>>> = BTreeMap::new();
    for pair in url.query.split('&').filter(|p| !p.is_empty() && !p.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(name), Some(value)) = (unescape(name), unescape(value)) {
            lists.entry(name).or_default().push(Val::string(value));
        }
    }
    let entries: Entries<'a> = lists
        .into_iter()
        .map(|(name, values)| {
            (Key::Str(name.as_str().into()), (Val::string(name), Val::list(values)))
        })
        .collect();
    Ok(Val::Map(Map::Vals(Rc::new(entries))))
}
