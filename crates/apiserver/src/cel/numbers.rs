//! Conversions between numbers, booleans and their texts, with Go's idea of both.

use super::meter::{Meter, fail, no_overload};
use super::operators::{INT_OVERFLOW, UINT_OVERFLOW};
use super::value::{Out, Val};

/// The first double beyond the integers; twice that, beyond the unsigned ones.
const INT_END: f64 = (1u64 << 63) as f64;

/// A value of one type has no counterpart in another.
pub(super) fn no_conversion<'a>(from: &str, to: &str) -> Out<'a> {
    fail(format!("type conversion error from '{from}' to '{to}'"))
}

pub(super) fn to_bool<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Bool(b)] => Ok(Val::Bool(*b)),
        [Val::Str(s)] => match &**s {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => no_conversion("string", "bool"),
        },
        _ => no_overload(),
    }
}

pub(super) fn to_int<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Int(i)] => Ok(Val::Int(*i)),
        [Val::Uint(u)] => {
            i64::try_from(*u).map_or_else(|_| fail(INT_OVERFLOW), |i| Ok(Val::Int(i)))
        }
        // The ends of the range are excluded: no double is exactly the greatest integer.
        [Val::Double(d)] if *d > -INT_END && *d < INT_END => Ok(Val::Int(*d as i64)),
        [Val::Double(_)] => fail(INT_OVERFLOW),
        [Val::Duration(nanos)] => Ok(Val::Int(*nanos)),
        [Val::Timestamp(t)] => Ok(Val::Int(t.seconds())),
        [Val::Str(s)] => match s.parse::<i64>() {
            Ok(i) => Ok(Val::Int(i)),
            Err(_) => no_conversion("string", "int"),
        },
        _ => no_overload(),
    }
}

pub(super) fn to_uint<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Uint(u)] => Ok(Val::Uint(*u)),
        [Val::Int(i)] => {
            u64::try_from(*i).map_or_else(|_| fail(UINT_OVERFLOW), |u| Ok(Val::Uint(u)))
        }
        [Val::Double(d)] if *d >= 0.0 && *d < 2.0 * INT_END => Ok(Val::Uint(*d as u64)),
        [Val::Double(_)] => fail(UINT_OVERFLOW),
        [Val::Str(s)] => match s.parse::<u64>() {
            Ok(u) if !s.starts_with('+') => Ok(Val::Uint(u)),
            _ => no_conversion("string", "uint"),
        },
        _ => no_overload(),
    }
}

pub(super) fn to_double<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Double(d)] => Ok(Val::Double(*d)),
        [Val::Int(i)] => Ok(Val::Double(*i as f64)),
        [Val::Uint(u)] => Ok(Val::Double(*u as f64)),
        [Val::Str(s)] => match s.parse::<f64>() {
            // An infinity must be spelt; a number too large is an error.
            Ok(d) if d.is_infinite() && s.contains(|c: char| c.is_ascii_digit()) => {
                no_conversion("string", "double")
            }
            Ok(d) => Ok(Val::Double(d)),
            Err(_) => no_conversion("string", "double"),
        },
        _ => no_overload(),
    }
}
