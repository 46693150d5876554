//! `'...'.format([...])`: templates with `%s`, `%d`, `%f`, `%e`, `%b`, `%x`, `%X` and `%o`.
//!
//! Literal templates are checked when a rule is compiled, all are when it runs. Fixed-point numbers
//! are written the American way and scientific ones as in print, because the reference does so.

use super::expr::{Expr, Kind};
use super::meter::{BUILD_LIMIT, Fail, fail};
use super::strings::text;
use super::types::Ty;
use super::value::{List, Map, Val};
use crate::schema::print;

const DEFAULT_PRECISION: usize = 6;
/// More digits than any double has.
const MAX_PRECISION: usize = 1100;

/// One piece of a template.
#[derive(Debug, PartialEq)]
enum Piece<'t> {
    Text(&'t str),
    Clause(char, usize),
}

/// The pieces of a template, as far as they make sense, and what is wrong after them.
fn pieces(template: &str) -> (Vec<Piece<'_>>, Option<String>) {
    let mut out = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push(Piece::Text(&rest[..at]));
        let clause = &rest[at + 1..];
        if let Some(after) = clause.strip_prefix('%') {
            out.push(Piece::Text("%"));
            rest = after;
            continue;
        }
        if clause.is_empty() {
            return (out, Some("unexpected end of string".to_owned()));
        }
        let unparsed = |why: &str| Some(format!("could not parse formatting clause: {why}"));
        let (precision, clause) = match clause.strip_prefix('.') {
            None => (DEFAULT_PRECISION, clause),
            Some(digits) => {
                let end = digits.find(|c: char| !c.is_ascii_digit());
                let Some(end) = end else {
                    let why =
                        "error while parsing precision: could not find end of precision specifier";
                    return (out, unparsed(why));
                };
                let Ok(precision) = digits[..end].parse::<usize>() else {
                    let why = format!(
                        "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"{}\": invalid syntax",
                        &digits[..end]
                    );
                    return (out, unparsed(&why));
                };
                (precision.min(MAX_PRECISION), &digits[end..])
            }
        };
        let mut chars = clause.chars();
        match chars.next() {
            Some(c @ ('s' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o')) => {
                out.push(Piece::Clause(c, precision));
                rest = chars.as_str();
            }
            Some(c) => {
                return (out, unparsed(&format!("unrecognized formatting clause \"{c}\"")));
            }
            None => return (out, Some("unexpected end of string".to_owned())),
        }
    }
    out.push(Piece::Text(rest));
    (out, None)
}

/// What is wrong with a literal template and its arguments, and with which of them.
pub(super) fn check(template: &str, args: &[&Expr]) -> Result<(), (Option<usize>, String)> {
    let (pieces, broken) = pieces(template);
    let mut used = 0;
    for piece in pieces {
        let Piece::Clause(clause, _) = piece else { continue };
        let Some(arg) = args.get(used) else {
            return Err((None, format!("index {used} out of range")));
        };
        used += 1;
        if let Some(bad) = misfit(clause, arg) {
            let message =
                format!("error during formatting: {}", complaint(clause, type_word(&bad.ty)));
            return Err((Some(bad.at), message));
        }
    }
    match broken {
        Some(_) if args.len() <= used => Err((None, format!("index {used} out of range"))),
        Some(message) => Err((None, message)),
        None if args.len() > used => Err((
            None,
            format!(
                "too many arguments supplied to string.format (expected {used}, got {})",
                args.len()
            ),
        )),
        None => Ok(()),
    }
}

/// The part of an argument that a clause cannot show.
fn misfit(clause: char, arg: &Expr) -> Option<&Expr> {
    let fits = match clause {
        's' => !matches!(arg.ty, Ty::Optional(_) | Ty::Abstract(_) | Ty::Object(..)),
        'd' | 'o' => matches!(arg.ty, Ty::Int | Ty::Uint | Ty::Dyn),
        'f' | 'e' => matches!(arg.ty, Ty::Double | Ty::String | Ty::Dyn),
        'b' => matches!(arg.ty, Ty::Int | Ty::Uint | Ty::Bool | Ty::Dyn),
        _ => matches!(arg.ty, Ty::Int | Ty::Uint | Ty::String | Ty::Bytes | Ty::Dyn),
    };
    if !fits {
        return Some(arg);
    }
    match (&arg.kind, clause) {
        (Kind::List(items), 's') => items.iter().find_map(|i| misfit('s', &i.value)),
        (Kind::Map(entries), 's') => {
            entries.iter().find_map(|e| misfit('s', &e.key).or_else(|| misfit('s', &e.value)))
        }
        _ => None,
    }
}

fn type_word(ty: &Ty) -> String {
    match ty {
        Ty::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Ty::Duration => "google.protobuf.Duration".to_owned(),
        Ty::Null => "null_type".to_owned(),
        Ty::List(_) => "list".to_owned(),
        Ty::Map(_) => "map".to_owned(),
        Ty::Type(_) => "type".to_owned(),
        Ty::Optional(_) => "optional_type".to_owned(),
        other => other.to_string(),
    }
}

fn complaint(clause: char, got: impl std::fmt::Display) -> String {
    let rule = match clause {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    };
    format!("{rule}, was given {got}")
}

/// The template with the arguments in their places.
pub(super) fn fill(template: &str, args: &List<'_>) -> Result<String, Fail> {
    let (pieces, broken) = pieces(template);
    let mut out = String::new();
    let mut used = 0;
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause(clause, precision) => {
                if used >= args.len() {
                    return fail(format!("index {used} out of range"));
                }
                let arg = args.get(used)?;
                used += 1;
                out.push_str(&show(clause, precision, &arg)?);
            }
        }
        if out.len() > BUILD_LIMIT {
            return Err(Fail::Cost);
        }
    }
    match broken {
        Some(_) if used >= args.len() => fail(format!("index {used} out of range")),
        Some(message) => fail(message),
        None => Ok(out),
    }
}

fn show(clause: char, precision: usize, arg: &Val<'_>) -> Result<String, Fail> {
    let shown = match (clause, arg) {
        ('s', _) => return plain(arg, false),
        ('d', Val::Int(i)) => i.to_string(),
        ('d', Val::Uint(u)) => u.to_string(),
        ('o', Val::Int(i)) => signed(*i, |m| format!("{m:o}")),
        ('o', Val::Uint(u)) => format!("{u:o}"),
        ('b', Val::Int(i)) => signed(*i, |m| format!("{m:b}")),
        ('b', Val::Uint(u)) => format!("{u:b}"),
        ('b', Val::Bool(b)) => u8::from(*b).to_string(),
        ('x', Val::Int(i)) => signed(*i, |m| format!("{m:x}")),
        ('X', Val::Int(i)) => signed(*i, |m| format!("{m:X}")),
        ('x', Val::Uint(u)) => format!("{u:x}"),
        ('X', Val::Uint(u)) => format!("{u:X}"),
        ('x' | 'X', Val::Str(s)) => hex(s.as_bytes(), clause),
        ('x' | 'X', Val::Bytes(b)) => hex(b, clause),
        ('f', Val::Double(d)) => fixed(*d, precision),
        ('e', Val::Double(d)) => scientific(*d, precision),
        ('f' | 'e', Val::Str(s)) => match &**s {
            "NaN" => "NaN".to_owned(),
            "Infinity" => "∞".to_owned(),
            "-Infinity" => "-∞".to_owned(),
            _ => {
                return fail(format!("error during formatting: {}", complaint(clause, "string")));
            }
        },
        _ => {
            let message = complaint(clause, arg.type_name());
            return fail(format!("error during formatting: {message}"));
        }
    };
    Ok(shown)
}

fn signed(i: i64, digits: fn(u64) -> String) -> String {
    let sign = if i < 0 { "-" } else { "" };
    format!("{sign}{}", digits(i.unsigned_abs()))
}

fn hex(bytes: &[u8], clause: char) -> String {
    let digits = bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    if clause == 'X' { digits.to_uppercase() } else { digits }
}

fn special(d: f64) -> Option<String> {
    if d.is_nan() {
        Some("NaN".to_owned())
    } else if d.is_infinite() {
        Some(if d > 0.0 { "∞" } else { "-∞" }.to_owned())
    } else {
        None
    }
}

/// Fixed point, with thousands set apart.
fn fixed(d: f64, precision: usize) -> String {
    if let Some(special) = special(d) {
        return special;
    }
    let plain = format!("{:.precision$}", d.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut out = String::new();
    if d.is_sign_negative() {
        out.push('-');
    }
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if precision > 0 {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A mantissa times a power of ten; the reference takes the precision for a width.
fn scientific(d: f64, width: usize) -> String {
    if let Some(special) = special(d) {
        return format!("{special:>width$}");
    }
    let plain = format!("{d:.DEFAULT_PRECISION$e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised: String = format!("{digits:0>2}")
        .chars()
        .filter_map(|c| RAISED.get(c.to_digit(10)? as usize).copied())
        .collect();
    format!("{:>width$}", format!("{mantissa}×10{sign}{raised}"))
}

/// A value as text; inside lists and maps, as CEL would write it.
fn plain(v: &Val<'_>, nested: bool) -> Result<String, Fail> {
    match v {
        Val::List(list) => {
            let mut out = String::from("[");
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                out.push_str(&plain(&item?, true)?);
                bounded(&out)?;
            }
            out.push(']');
            Ok(out)
        }
        Val::Map(map) => plain_map(map),
        Val::Null => Ok("null".to_owned()),
        Val::Double(d) if nested => {
            Ok(special(*d)
                .map_or_else(|| format!("{d:.DEFAULT_PRECISION$}"), |s| format!("\"{s}\"")))
        }
        Val::Str(s) if nested => Ok(print::quote(s)),
        Val::Bytes(b) if nested => Ok(format!("b{}", print::quote(&String::from_utf8_lossy(b)))),
        Val::Timestamp(_) if nested => Ok(format!("timestamp(\"{}\")", plain(v, false)?)),
        Val::Duration(_) if nested => Ok(format!("duration(\"{}\")", plain(v, false)?)),
        Val::Ip(_) | Val::Cidr(..) => complain_plain(v),
        other => match text(other)? {
            Some(text) => Ok(text),
            None => complain_plain(other),
        },
    }
}

fn complain_plain(v: &Val<'_>) -> Result<String, Fail> {
    fail(format!("error during formatting: {}", complaint('s', v.type_name())))
}

fn plain_map(map: &Map<'_>) -> Result<String, Fail> {
    let mut entries = Vec::new();
    for (key, value) in map.entries()? {
        let key = match key {
            Val::Str(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_) => plain(&key, true)?,
            other => {
                return fail(format!(
                    "error during formatting: no formatting function for map key of type {}",
                    other.type_name()
                ));
            }
        };
        entries.push((key, plain(&value, true)?));
    }
    entries.sort();
    let mut out = String::from("{");
    for (i, (key, value)) in entries.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(&key);
        out.push(':');
        out.push_str(&value);
        bounded(&out)?;
    }
    out.push('}');
    Ok(out)
}

fn bounded(out: &str) -> Result<(), Fail> {
    if out.len() > BUILD_LIMIT { Err(Fail::Cost) } else { Ok(()) }
}
