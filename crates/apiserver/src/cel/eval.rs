//! The evaluator: a checked expression, an object, and perhaps the object before.
//!
//! Guarantees: evaluation ends, because every step pays; it does not recurse deeper than the
//! expression; and it builds nothing larger than the limits of [`super::meter`] allow. `&&`, `||`
//! and the quantifiers absorb errors of one side as CEL demands, but never the end of the budget.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use regex::Regex;

use super::admission::Given;
use super::expr::{Access, Call, Entry, Expr, Fold, Item, Kind, OptMap, Select, SortBy, Var, What};
use super::library::{Price, Run};
use super::meter::{Fail, Meter, fail, no_overload};
use super::value::{Entries, Map, Out, Val};
use super::{lists, price};
use crate::schema::pattern;

/// The state of one evaluation.
pub(super) struct Machine<'a> {
    this: Val<'a>,
    old: Option<Val<'a>>,
    pub(super) locals: Vec<Val<'a>>,
    pub(super) meter: Meter,
    /// What an admission expression is given.
    pub(super) given: Given<'a>,
    patterns: HashMap<String, Arc<Regex>>,
}

impl<'a> Machine<'a> {
    /// A machine about to evaluate on these values of `self` and `oldSelf`.
    pub(super) fn new(this: Val<'a>, old: Option<Val<'a>>) -> Self {
        let given = Given::default();
        let (locals, meter, patterns) = (Vec::new(), Meter::default(), HashMap::new());
        Self { this, old, locals, meter, given, patterns }
    }

    /// The value of an expression.
    pub(super) fn eval(&mut self, e: &'a Expr) -> Out<'a> {
        match &e.kind {
            Kind::Literal(literal) => Ok(literal.to_val()),
            Kind::TypeName(name) => Ok(Val::Type(name)),
            Kind::Var(var) => self.var(*var),
            Kind::Select(select) => self.select(select),
            Kind::And(sides) => self.logic(&sides[0], &sides[1], false),
            Kind::Or(sides) => self.logic(&sides[0], &sides[1], true),
            Kind::Conditional(parts) => match self.eval(&parts[0])? {
                Val::Bool(true) => self.eval_within(&parts[1]),
                Val::Bool(false) => self.eval_within(&parts[2]),
                _ => no_overload(),
            },
            Kind::Call(call) => self.call(call),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Fold(fold) => self.fold(fold),
            Kind::OptMap(map) => self.opt_map(map),
            Kind::SortBy(sort) => self.sort_by(sort),
            Kind::Invalid => fail("invalid expression"),
        }
    }

    /// The value of a part of a larger access, whose first step is then not paid for.
    fn eval_within(&mut self, e: &'a Expr) -> Out<'a> {
        let result = self.eval(e);
        if e.is_access() {
            self.meter.refund();
        }
        result
    }

    #[inline(never)]
    fn opt_map(&mut self, map: &'a OptMap) -> Out<'a> {
        let before = self.meter.cost;
        let target = self.eval(&map.target)?;
        let target_cost = self.meter.cost - before;
        // One unit to ask whether there is a value.
        self.meter.charge(1)?;
        match target {
            Val::Optional(None) => {
                self.meter.charge(1)?;
                Ok(Val::Optional(None))
            }
            Val::Optional(Some(value)) => {
                if map.used {
                    self.meter.charge(target_cost.saturating_add(1))?;
                }
                let result = self.with_local((*value).clone(), &map.body)?;
                if map.flat {
                    return Ok(result);
                }
                self.meter.charge(1)?;
                Ok(Val::optional(Some(result)))
            }
            _ => no_overload(),
        }
    }

    #[inline(never)]
    fn sort_by(&mut self, sort: &'a SortBy) -> Out<'a> {
        let Val::List(list) = self.eval(&sort.target)? else { return no_overload() };
        self.meter.charge(3)?;
        let mut keys = Vec::with_capacity(list.len());
        for item in list.iter() {
            self.meter.charge(price::LIST + 2)?;
            keys.push(self.with_local(item?, &sort.key)?);
        }
        let args = [Val::List(list), Val::list(keys)];
        self.meter.charge(price::of(Price::Square(1), &args, None)?)?;
        lists::sort_by_keys(&mut self.meter, &args)
    }

    fn var(&mut self, var: Var) -> Out<'a> {
        self.meter.charge(1)?;
        match var {
            Var::This => Ok(self.this.clone()),
            Var::Old => match &self.old {
                Some(old) => Ok(old.clone()),
                None => fail("no such attribute(s): oldSelf"),
            },
            Var::Input(input) => Ok(self.given.input(input)),
            Var::Composed(place) => {
                // The variable is a step from the map of all.
                self.meter.charge(1)?;
                self.composed(place)
            }
            Var::Variables => self.variables(),
            Var::Local(slot) => match self.locals.get(slot) {
                Some(value) => Ok(value.clone()),
                None => fail("no such attribute(s)"),
            },
        }
    }

    fn with_local(&mut self, value: Val<'a>, body: &'a Expr) -> Out<'a> {
        self.locals.push(value);
        let result = self.eval(body);
        self.locals.pop();
        result
    }

    #[inline(never)]
    fn select(&mut self, select: &'a Select) -> Out<'a> {
        let operand = self.eval(&select.operand)?;
        let steps = u64::from(!select.operand.is_access());
        self.meter.charge(steps + u64::from(select.access == Access::Plain))?;
        let (target, was_optional) = match operand {
            Val::Optional(None) => {
                return Ok(match select.access {
                    Access::Test => Val::Bool(false),
                    _ => Val::Optional(None),
                });
            }
            Val::Optional(Some(inner)) => ((*inner).clone(), true),
            other => (other, false),
        };
        // Only a value of unknown type can be anything but a map; it has no fields then.
        let found = match &target {
            Val::Map(map) => map.field(&select.field).transpose(),
            _ => Ok(None),
        };
        match select.access {
            Access::Test => Ok(Val::Bool(found?.is_some())),
            Access::Optional => {
                let found = found?;
                self.meter.charge(u64::from(found.is_some()))?;
                Ok(Val::optional(found))
            }
            Access::Plain if was_optional => Ok(Val::optional(found?)),
            Access::Plain => match found? {
                Some(value) => Ok(value),
                None => fail(format!("no such key: {}", select.field)),
            },
        }
    }

    /// `&&` (decided by false) or `||` (decided by true).
    fn logic(&mut self, a: &'a Expr, b: &'a Expr, decides: bool) -> Out<'a> {
        let mut error = None;
        for side in [a, b] {
            match self.eval(side) {
                Ok(Val::Bool(v)) if v == decides => return Ok(Val::Bool(decides)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => error = error.or_else(|| no_overload::<()>().err()),
                Err(Fail::Cost) => return Err(Fail::Cost),
                Err(e) => error = error.or(Some(e)),
            }
        }
        match error {
            Some(e) => Err(e),
            None => Ok(Val::Bool(!decides)),
        }
    }

    #[inline(never)]
    fn call(&mut self, call: &'a Call) -> Out<'a> {
        // The alternative of an optional is evaluated only if it is needed.
        if let ("or" | "orValue", [first, second]) = (call.function.name, call.args.as_slice()) {
            return self.or(call.function.name == "or", first, second);
        }
        let is_index = matches!(call.function.name, "_[_]" | "_[?_]");
        let mut args = Vec::with_capacity(call.args.len());
        let mut failed = None;
        for (i, arg) in call.args.iter().enumerate() {
            let value = if is_index && i == 1 { self.eval_within(arg) } else { self.eval(arg) };
            match value {
                Ok(value) => args.push(value),
                Err(Fail::Cost) => return Err(Fail::Cost),
                // Functions of up to two arguments look at both, and are paid for.
                Err(e) if call.args.len() <= 2 => {
                    args.push(Val::Null);
                    failed = failed.or(Some(e));
                }
                Err(e) => return Err(e),
            }
        }
        if let Some(failed) = failed {
            self.meter.charge(price::of(call.function.price, &args, None)?)?;
            return Err(failed);
        }
        if is_index && !call.args.first().is_some_and(Expr::is_access) {
            self.meter.charge(1)?;
        }
        let p = call.function.price;
        for arg in &args {
            if let Val::Str(s) = arg {
                self.meter.work(s.len() as u64 / 64)?;
            }
        }
        let late = price::needs_result(p);
        if !late && !call.free {
            self.meter.charge(price::of(p, &args, None)?)?;
        }
        let result = match call.function.run {
            Run::Plain(run) => run(&mut self.meter, &args),
            Run::Format(format) => Ok(Val::Format(format)),
            Run::Regex(run) => match &call.regex {
                Some(regex) => run(regex, &args),
                None => {
                    let regex = self.pattern(args.get(1), call.function.name)?;
                    run(&regex, &args)
                }
            },
        };
        if let (true, Ok(Val::Optional(None))) = (call.function.name == "_[?_]", &result) {
            self.meter.refund();
        }
        if late && !call.free {
            self.meter.charge(price::of(p, &args, result.as_ref().ok())?)?;
        }
        result
    }

    fn or(&mut self, keep_optional: bool, first: &'a Expr, second: &'a Expr) -> Out<'a> {
        match self.eval(first)? {
            Val::Optional(Some(value)) if keep_optional => Ok(Val::Optional(Some(value))),
            Val::Optional(Some(value)) => Ok((*value).clone()),
            Val::Optional(None) => self.eval(second),
            _ => no_overload(),
        }
    }

    /// The pattern that was computed, kept for the next time.
    fn pattern(&mut self, arg: Option<&Val<'a>>, function: &str) -> Result<Arc<Regex>, Fail> {
        let Some(Val::Str(text)) = arg else { return no_overload() };
        if let Some(known) = self.patterns.get(&**text) {
            return Ok(Arc::clone(known));
        }
        // Compilation takes longer than a pattern's price says.
        self.meter.work(20_000 + 400 * text.len() as u64)?;
        match pattern::compile(text) {
            Ok(regex) => {
                self.patterns.insert(text.to_string(), Arc::clone(&regex));
                Ok(regex)
            }
            Err(e) if function == "matches" => fail(e),
            Err(e) => fail(format!("Illegal regex: {e}")),
        }
    }

    #[inline(never)]
    fn list(&mut self, items: &'a [Item]) -> Out<'a> {
        let mut values = Vec::with_capacity(items.len());
        let mut constant = true;
        for item in items {
            constant &= item.value.is_constant();
            let value = self.eval(&item.value)?;
            match (item.optional, value) {
                (false, value) => values.push(value),
                (true, Val::Optional(None)) => {}
                (true, Val::Optional(Some(value))) => values.push((*value).clone()),
                (true, other) => {
                    return fail(format!(
                        "cannot initialize optional list element from non-optional value {}",
                        other.show()
                    ));
                }
            }
        }
        // A list of constants is made only once, so it is free; but it is work.
        match constant {
            true => self.meter.work(values.len() as u64)?,
            false => self.meter.charge(price::LIST)?,
        }
        Ok(Val::list(values))
    }

    #[inline(never)]
    fn map(&mut self, entries: &'a [Entry]) -> Out<'a> {
        let mut map = Entries::new();
        let mut constant = true;
        for entry in entries {
            constant &= entry.key.is_constant() && entry.value.is_constant();
            let key = self.eval(&entry.key)?;
            let mut value = self.eval(&entry.value)?;
            if entry.optional {
                value = match value {
                    Val::Optional(None) => continue,
                    Val::Optional(Some(value)) => (*value).clone(),
                    other => {
                        return fail(format!(
                            "cannot initialize optional entry '{}' from non-optional value {}",
                            key.show(),
                            other.show()
                        ));
                    }
                };
            }
            let Some(k) = key.key() else {
                return fail(format!("unsupported key type: {}", key.type_name()));
            };
            map.insert(k, (key, value));
        }
        match constant {
            true => self.meter.work(map.len() as u64)?,
            false => self.meter.charge(price::MAP)?,
        }
        Ok(Val::Map(Map::Vals(Rc::new(map))))
    }

    #[inline(never)]
    fn fold(&mut self, fold: &'a Fold) -> Out<'a> {
        let range = match self.eval(&fold.range)? {
            Val::Optional(Some(inner)) => (*inner).clone(),
            other => other,
        };
        let depth = self.locals.len();
        let result = self.fold_over(fold, &range);
        self.locals.truncate(depth);
        result
    }

    fn fold_over(&mut self, fold: &'a Fold, range: &Val<'a>) -> Out<'a> {
        let mut folding = Folding::start(fold.what);
        match range {
            Val::List(list) => {
                for (i, item) in list.iter().enumerate() {
                    let index = fold.two.then_some(Val::Int(i as i64));
                    if !self.step(fold, &mut folding, index, item?)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                for (key, value) in map.entries()? {
                    let (first, second) = match fold.two {
                        true => (Some(key), value),
                        false => (None, key),
                    };
                    if !self.step(fold, &mut folding, first, second)? {
                        break;
                    }
                }
            }
            _ => return no_overload(),
        }
        self.meter.charge(folding.result_price())?;
        folding.finish()
    }

    /// Takes one element in; false once the rest cannot matter.
    fn step(
        &mut self,
        fold: &'a Fold,
        folding: &mut Folding<'a>,
        first: Option<Val<'a>>,
        second: Val<'a>,
    ) -> Result<bool, Fail> {
        let depth = self.locals.len();
        self.locals.extend(first);
        self.locals.push(second);
        let more = self.step_inside(fold, folding);
        self.locals.truncate(depth);
        more
    }

    fn step_inside(&mut self, fold: &'a Fold, folding: &mut Folding<'a>) -> Result<bool, Fail> {
        self.meter.charge(folding.condition_price())?;
        if let Some(filter) = &fold.filter {
            match self.eval(filter)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(true),
                _ => return no_overload(),
            }
        }
        match folding {
            Folding::Quantifier { decides, error } => {
                let Some(body) = &fold.body else { return no_overload() };
                match self.eval(body) {
                    Ok(Val::Bool(v)) if v == *decides => {
                        *error = None;
                        return Ok(false).inspect(|_| folding.decide());
                    }
                    Ok(Val::Bool(_)) => {}
                    Ok(_) => *error = error.take().or_else(|| no_overload::<()>().err()),
                    Err(Fail::Cost) => return Err(Fail::Cost),
                    Err(e) => *error = error.take().or(Some(e)),
                }
                Ok(true)
            }
            Folding::Decided(_) => Ok(false),
            Folding::One(count) => {
                let Some(body) = &fold.body else { return no_overload() };
                match self.eval(body)? {
                    Val::Bool(true) => {
                        *count += 1;
                        self.meter.charge(2)?;
                    }
                    Val::Bool(false) => {}
                    _ => return no_overload(),
                }
                Ok(true)
            }
            Folding::Collect(out) => {
                let value = match &fold.body {
                    Some(body) => self.eval(body)?,
                    None => {
                        self.meter.charge(1)?;
                        self.locals.last().cloned().unwrap_or(Val::Null)
                    }
                };
                self.meter.charge(price::LIST + 2)?;
                out.push(value);
                Ok(true)
            }
            Folding::Insert(out, whole_entries) => {
                let Some(body) = &fold.body else { return no_overload() };
                let value = self.eval(body)?;
                if *whole_entries {
                    self.meter.charge(2)?;
                    let Val::Map(map) = value else { return no_overload() };
                    for (key, value) in map.entries()? {
                        insert(out, key, value)?;
                    }
                } else {
                    self.meter.charge(3)?;
                    let key = self.locals.get(fold.slot).cloned().unwrap_or(Val::Null);
                    insert(out, key, value)?;
                }
                Ok(true)
            }
        }
    }
}

fn insert<'a>(out: &mut Entries<'a>, key: Val<'a>, value: Val<'a>) -> Result<(), Fail> {
    let Some(k) = key.key() else { return no_overload() };
    if out.contains_key(&k) {
        return fail(format!("insert failed: key {} already exists", key.show()));
    }
    out.insert(k, (key, value));
    Ok(())
}

/// What a macro has gathered so far.
enum Folding<'a> {
    /// `all` and `exists`: undecided, perhaps with an error to report if it stays so.
    Quantifier {
        decides: bool,
        error: Option<Fail>,
    },
    Decided(bool),
    One(u64),
    Collect(Vec<Val<'a>>),
    /// A map, from values or from whole entries.
    Insert(Entries<'a>, bool),
}

impl<'a> Folding<'a> {
    fn start(what: What) -> Self {
        match what {
            What::All => Self::Quantifier { decides: false, error: None },
            What::Exists => Self::Quantifier { decides: true, error: None },
            What::ExistsOne => Self::One(0),
            What::List => Self::Collect(Vec::new()),
            What::TransformMap => Self::Insert(Entries::new(), false),
            What::TransformMapEntry => Self::Insert(Entries::new(), true),
        }
    }

    fn decide(&mut self) {
        if let Self::Quantifier { decides, .. } = self {
            *self = Self::Decided(*decides);
        }
    }

    /// What looking at the accumulator costs before each element.
    fn condition_price(&self) -> u64 {
        match self {
            Self::Quantifier { decides: false, .. } => 3,
            Self::Quantifier { decides: true, .. } => 4,
            _ => 0,
        }
    }

    fn result_price(&self) -> u64 {
        match self {
            Self::One(_) => 2,
            _ => 1,
        }
    }

    fn finish(self) -> Out<'a> {
        match self {
            Self::Quantifier { error: Some(e), .. } => Err(e),
            Self::Quantifier { decides, error: None } => Ok(Val::Bool(!decides)),
            Self::Decided(value) => Ok(Val::Bool(value)),
            Self::One(count) => Ok(Val::Bool(count == 1)),
            Self::Collect(items) => Ok(Val::list(items)),
            Self::Insert(entries, _) => Ok(Val::Map(Map::Vals(Rc::new(entries)))),
        }
    }
}
