//! Functions on lists and sets of values.

use std::cmp::Ordering;

use super::meter::{BUILD_LIMIT, Fail, Meter, fail, no_overload};
use super::operators::add;
use super::strings;
use super::value::{List, Out, Val};

fn list<'l, 'a>(args: &'l [Val<'a>]) -> Result<&'l List<'a>, Fail> {
    match args.first() {
        Some(Val::List(list)) => Ok(list),
        _ => no_overload(),
    }
}

pub(super) fn is_sorted<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let mut before: Option<Val<'a>> = None;
    for item in list(args)?.iter() {
        let item = item?;
        if let Some(before) = before {
            match before.compare(&item)? {
                Some(Ordering::Greater) => return Ok(Val::Bool(false)),
                Some(_) => {}
                None => return no_overload(),
            }
        }
        before = Some(item);
    }
    Ok(Val::Bool(true))
}

pub(super) fn sum<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let mut items = list(args)?.iter();
    let Some(first) = items.next() else { return Ok(Val::Int(0)) };
    let mut total = first?;
    for item in items {
        total = add(meter, &[total, item?])?;
    }
    Ok(total)
}

fn extreme<'a>(args: &[Val<'a>], name: &str, better: Ordering) -> Out<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in list(args)?.iter() {
        let item = item?;
        let replace = match &best {
            None => true,
            Some(best) => match item.compare(best)? {
                Some(ordering) => ordering == better,
                None => return no_overload(),
            },
        };
        if replace {
            best = Some(item);
        }
    }
    best.map_or_else(|| fail(format!("{name} called on empty list")), Ok)
}

pub(super) fn max<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    extreme(args, "max", Ordering::Greater)
}

pub(super) fn min<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    extreme(args, "min", Ordering::Less)
}

pub(super) fn index_of<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::List(list), value] = args else { return strings::index_of(args) };
    for (i, item) in list.iter().enumerate() {
        if item?.equals(value, meter)? {
            return Ok(Val::Int(i as i64));
        }
    }
    Ok(Val::Int(-1))
}

pub(super) fn last_index_of<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::List(list), value] = args else { return strings::last_index_of(args) };
    for i in (0..list.len()).rev() {
        if list.get(i)?.equals(value, meter)? {
            return Ok(Val::Int(i as i64));
        }
    }
    Ok(Val::Int(-1))
}

pub(super) fn slice<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let (list, [_, Val::Int(start), Val::Int(end)]) = (list(args)?, args) else {
        return no_overload();
    };
    if *start < 0 || *end < 0 {
        return fail(format!("cannot slice({start}, {end}), negative indexes not supported"));
    }
    if start > end {
        return fail(format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        ));
    }
    if *end as usize > list.len() {
        return fail(format!("cannot slice({start}, {end}), list is length {}", list.len()));
    }
    let items: Result<Vec<_>, _> = (*start as usize..*end as usize).map(|i| list.get(i)).collect();
    Ok(Val::list(items?))
}

pub(super) fn flatten<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let depth = match args.get(1) {
        None => 1,
        Some(Val::Int(depth)) if *depth < 0 => return fail("level must be non-negative"),
        Some(Val::Int(depth)) => *depth,
        Some(_) => return no_overload(),
    };
    let mut out = Vec::new();
    flatten_into(meter, list(args)?, depth, &mut out)?;
    Ok(Val::list(out))
}

/// Lists nest no deeper than expressions and objects do, so neither does this.
fn flatten_into<'a>(
    meter: &mut Meter,
    list: &List<'a>,
    depth: i64,
    out: &mut Vec<Val<'a>>,
) -> Result<(), Fail> {
    for item in list.iter() {
        meter.work(1)?;
        match item? {
            Val::List(inner) if depth > 0 => flatten_into(meter, &inner, depth - 1, out)?,
            other => out.push(other),
        }
    }
    Ok(())
}

pub(super) fn sort<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let list = list(args)?;
    sort_by_keys(meter, &[Val::List(list.clone()), Val::List(list.clone())])
}

pub(super) fn sort_by_keys<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::List(items), Val::List(keys)] = args else { return no_overload() };
    if items.len() != keys.len() {
        return fail(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        ));
    }
    let mut pairs: Vec<(Val<'a>, Val<'a>)> =
        keys.to_vec()?.into_iter().zip(items.to_vec()?).collect();
    let Some((first, _)) = pairs.first() else { return Ok(Val::List(items.clone())) };
    let wanted = first.type_name();
    if first.compare(first)?.is_none() {
        return fail("list elements must be comparable");
    }
    if pairs.iter().any(|(key, _)| key.type_name() != wanted) {
        return fail("list elements must have the same type");
    }
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Val::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

pub(super) fn range<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Int(n)] = args else { return no_overload() };
    // Longer than any budget pays for.
    if *n > BUILD_LIMIT as i64 / 10 {
        return Err(Fail::Cost);
    }
    Ok(Val::list((0..*n).map(Val::Int).collect()))
}

pub(super) fn reverse<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let mut items = list(args)?.to_vec()?;
    items.reverse();
    Ok(Val::list(items))
}

pub(super) fn distinct<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let mut out: Vec<Val<'a>> = Vec::new();
    for item in list(args)?.iter() {
        let item = item?;
        let mut seen = false;
        for known in &out {
            if known.equals(&item, meter)? {
                seen = true;
                break;
            }
        }
        if !seen {
            out.push(item);
        }
    }
    Ok(Val::list(out))
}

pub(super) fn first<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let list = list(args)?;
    Ok(Val::optional((list.len() > 0).then(|| list.get(0)).transpose()?))
}

pub(super) fn last<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let list = list(args)?;
    Ok(Val::optional(list.len().checked_sub(1).map(|i| list.get(i)).transpose()?))
}

/// Whether every item of one is in the other.
fn includes<'a>(whole: &List<'a>, part: &List<'a>, meter: &mut Meter) -> Result<bool, Fail> {
    for item in part.iter() {
        if !whole.contains(&item?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn set_contains<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::List(a), Val::List(b)] = args else { return no_overload() };
    Ok(Val::Bool(includes(a, b, meter)?))
}

pub(super) fn set_equivalent<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::List(a), Val::List(b)] = args else { return no_overload() };
    Ok(Val::Bool(includes(a, b, meter)? && includes(b, a, meter)?))
}

pub(super) fn set_intersects<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::List(a), Val::List(b)] = args else { return no_overload() };
    for item in a.iter() {
        if b.contains(&item?, meter)? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
