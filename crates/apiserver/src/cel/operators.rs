//! CEL's operators, and the functions that work on any type.
//!
//! Guarantees: integers never wrap; overflow and division by zero are errors with CEL's words.

use std::cmp::Ordering;

use super::meter::{BUILD_LIMIT, Fail, Meter, fail, no_overload};
use super::time;
use super::value::{Out, Val};

pub(super) const INT_OVERFLOW: &str = "integer overflow";
pub(super) const UINT_OVERFLOW: &str = "unsigned integer overflow";
const DIVIDE_BY_ZERO: &str = "division by zero";
const MODULUS_BY_ZERO: &str = "modulus by zero";

pub(super) fn not<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Bool(b)] => Ok(Val::Bool(!b)),
        _ => no_overload(),
    }
}

pub(super) fn negate<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Int(i)] => int(i.checked_neg()),
        [Val::Double(d)] => Ok(Val::Double(-d)),
        _ => no_overload(),
    }
}

pub(super) fn equal<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [a, b] => Ok(Val::Bool(a.equals(b, meter)?)),
        _ => no_overload(),
    }
}

pub(super) fn not_equal<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [a, b] => Ok(Val::Bool(!a.equals(b, meter)?)),
        _ => no_overload(),
    }
}

fn ordered<'a>(args: &[Val<'a>], holds: fn(Ordering) -> bool) -> Out<'a> {
    match args {
        [a, b] => match a.compare(b)? {
            Some(ordering) => Ok(Val::Bool(holds(ordering))),
            None => no_overload(),
        },
        _ => no_overload(),
    }
}

pub(super) fn less<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    ordered(args, Ordering::is_lt)
}

pub(super) fn less_equal<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    ordered(args, Ordering::is_le)
}

pub(super) fn greater<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    ordered(args, Ordering::is_gt)
}

pub(super) fn greater_equal<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    ordered(args, Ordering::is_ge)
}

fn int<'a>(value: Option<i64>) -> Out<'a> {
    value.map_or_else(|| fail(INT_OVERFLOW), |i| Ok(Val::Int(i)))
}

fn uint<'a>(value: Option<u64>) -> Out<'a> {
    value.map_or_else(|| fail(UINT_OVERFLOW), |u| Ok(Val::Uint(u)))
}

pub(super) fn add<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_add(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_add(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::Str(a), Val::Str(b)] => Ok(Val::string([&**a, &**b].concat())),
        [Val::Bytes(a), Val::Bytes(b)] => Ok(Val::Bytes([&**a, &**b].concat().into())),
        [Val::List(a), Val::List(b)] => {
            if a.len() + b.len() > BUILD_LIMIT {
                return Err(Fail::Cost);
            }
            a.concat(b, meter)
        }
        [Val::Duration(a), Val::Duration(b)] => time::duration(a.checked_add(*b)),
        [Val::Timestamp(t), Val::Duration(d)] | [Val::Duration(d), Val::Timestamp(t)] => {
            time::shift(*t, i128::from(*d))
        }
        _ => no_overload(),
    }
}

pub(super) fn subtract<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_sub(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_sub(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Duration(a), Val::Duration(b)] => time::duration(a.checked_sub(*b)),
        [Val::Timestamp(t), Val::Duration(d)] => time::shift(*t, -i128::from(*d)),
        [Val::Timestamp(a), Val::Timestamp(b)] => {
            time::duration(i64::try_from(a.nanos() - b.nanos()).ok())
        }
        _ => no_overload(),
    }
}

pub(super) fn multiply<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_mul(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_mul(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => no_overload(),
    }
}

pub(super) fn divide<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => fail(DIVIDE_BY_ZERO),
        [Val::Int(a), Val::Int(b)] => int(a.checked_div(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_div(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => no_overload(),
    }
}

pub(super) fn modulo<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => fail(MODULUS_BY_ZERO),
        [Val::Int(a), Val::Int(b)] => int(a.checked_rem(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_rem(*b)),
        _ => no_overload(),
    }
}

pub(super) fn contained<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [value, Val::List(list)] => Ok(Val::Bool(list.contains(value, meter)?)),
        [key, Val::Map(map)] => Ok(Val::Bool(map.get(key).transpose()?.is_some())),
        _ => no_overload(),
    }
}

/// The element at an index or under a key, if it is there.
fn element<'a>(container: &Val<'a>, at: &Val<'a>) -> Result<Option<Val<'a>>, Fail> {
    match (container, at) {
        (Val::List(list), at) => {
            let index = match at {
                Val::Int(i) => usize::try_from(*i).ok(),
                Val::Uint(u) => usize::try_from(*u).ok(),
                Val::Double(d) if d.fract() == 0.0 && *d >= 0.0 => Some(*d as usize),
                Val::Double(_) => None,
                other => {
                    return fail(format!("unsupported index type '{}' in list", other.type_name()));
                }
            };
            index.filter(|i| *i < list.len()).map(|i| list.get(i)).transpose()
        }
        (Val::Map(map), key) => map.get(key).transpose(),
        _ => no_overload(),
    }
}

pub(super) fn index<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Optional(None), _] => Ok(Val::Optional(None)),
        [Val::Optional(Some(inner)), at] => Ok(Val::optional(element(inner, at)?)),
        [container, at] => match (element(container, at)?, container) {
            (Some(value), _) => Ok(value),
            (None, Val::List(_)) => fail(format!("index out of bounds: {}", at.show())),
            (None, _) => fail(format!("no such key: {}", at.show())),
        },
        _ => no_overload(),
    }
}

pub(super) fn optional_index<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Optional(None), _] => Ok(Val::Optional(None)),
        [Val::Optional(Some(inner)), at] => Ok(Val::optional(element(inner, at)?)),
        [container, at] => Ok(Val::optional(element(container, at)?)),
        _ => no_overload(),
    }
}

pub(super) fn size<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [v @ (Val::Str(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_))] => {
            Ok(Val::Int(v.size() as i64))
        }
        _ => no_overload(),
    }
}

pub(super) fn type_of<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [v] => Ok(Val::Type(v.type_name())),
        _ => no_overload(),
    }
}

pub(super) fn dynamic<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [v] => Ok(v.clone()),
        _ => no_overload(),
    }
}

/// How two quantities or two semantic versions compare.
fn rank(args: &[Val<'_>]) -> Result<Ordering, Fail> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Ok(a.compare(b)),
        [Val::Semver(a), Val::Semver(b)] => Ok(a.compare(b)),
        _ => no_overload(),
    }
}

pub(super) fn is_greater<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Bool(rank(args)?.is_gt()))
}

pub(super) fn is_less<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Bool(rank(args)?.is_lt()))
}

pub(super) fn compare_to<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Int(rank(args)? as i64))
}
