//! Functions on optional values.

use super::meter::{Meter, fail, no_overload};
use super::value::{Out, Val};

pub(super) fn of<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [v] => Ok(Val::optional(Some(v.clone()))),
        _ => no_overload(),
    }
}

pub(super) fn of_non_zero<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [v] = args else { return no_overload() };
    let zero = match v {
        Val::Null => true,
        Val::Bool(b) => !b,
        Val::Int(i) => *i == 0,
        Val::Uint(u) => *u == 0,
        Val::Double(d) => *d == 0.0,
        Val::Str(s) => s.is_empty(),
        Val::Bytes(b) => b.is_empty(),
        // Pieces of the object do not know their zero there, computed values do.
        Val::List(list) => matches!(list.items, super::value::Items::Vals(_)) && list.len() == 0,
        Val::Map(map) => matches!(map, super::value::Map::Vals(_)) && map.len() == 0,
        Val::Duration(nanos) => *nanos == 0,
        _ => false,
    };
    Ok(Val::optional((!zero).then(|| v.clone())))
}

pub(super) fn none<'a>(_: &mut Meter, _: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Optional(None))
}

pub(super) fn value<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Optional(Some(v))] => Ok((**v).clone()),
        [Val::Optional(None)] => fail("optional.none() dereference"),
        _ => no_overload(),
    }
}

pub(super) fn has_value<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Optional(v)] => Ok(Val::Bool(v.is_some())),
        _ => no_overload(),
    }
}

/// Reached only with both sides evaluated; the evaluator usually decides earlier.
pub(super) fn or<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Optional(None), other] => Ok(other.clone()),
        [first, _] => Ok(first.clone()),
        _ => no_overload(),
    }
}

/// See [`or`].
pub(super) fn or_value<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Optional(None), other] => Ok(other.clone()),
        [first, _] => value(meter, std::slice::from_ref(first)),
        _ => no_overload(),
    }
}

pub(super) fn unwrap<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::List(list)] = args else { return no_overload() };
    let mut out = Vec::with_capacity(list.len());
    for item in list.iter() {
        match item? {
            Val::Optional(Some(v)) => out.push((*v).clone()),
            Val::Optional(None) => {}
            other => return fail(format!("value {} is not optional", other.show())),
        }
    }
    Ok(Val::list(out))
}
