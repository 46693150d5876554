//! The worst that a rule may cost, judged from the schema alone.
//!
//! Guarantees: the numbers are those that the reference implementation derives, because they decide
//! which custom resource definitions are accepted. Every oddity there (scalars of size zero, the
//! size of the root for lists without a path) is therefore here.

use super::decl::{Decl, Shape};
use super::expr::{Access, Call, Expr, Fold, Kind, Literal, OptMap, Root, SortBy, Var, What};
use super::library::Price;
use super::price::{LIST, MAP, PER_CHAR, PER_PATTERN_CHAR, times};
use super::types::Ty;

const MAX_NAME_FORMAT: f64 = 128.0;
const MAX_FORMAT: u64 = 64;

/// The most that the expression may cost on values of the root declaration.
pub(super) fn worst_cost(e: &Expr, root: Root<'_>) -> u64 {
    let mut estimator = Estimator { root, locals: Vec::new() };
    estimator.visit(e).cost.max
}

/// Between these; serves for sizes and for costs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range {
    min: u64,
    max: u64,
}

const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

impl Range {
    fn fixed(n: u64) -> Self {
        Self { min: n, max: n }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn add(self, n: u64) -> Self {
        self.plus(Self::fixed(n))
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { min: times(self.min, factor), max: times(self.max, factor) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Where in the schema a value stands: nowhere, somewhere unknown, or at a declaration.
#[derive(Debug, Clone, Copy)]
enum Path<'d> {
    None,
    Lost,
    At(&'d Decl),
    /// The key of a declared map; nothing says how long it is, and that counts as nothing.
    Key,
}

/// The sizes of the keys and values of a container.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    list: bool,
    key: Range,
    value: Range,
}

/// What is known about a node.
#[derive(Debug, Clone, Copy)]
struct Estimate<'d> {
    cost: Range,
    path: Path<'d>,
    size: Option<Range>,
    entry: Option<EntrySize>,
}

impl Estimate<'_> {
    fn size_or_unknown(&self) -> Range {
        self.size.unwrap_or(UNKNOWN)
    }
}

#[derive(Debug, Clone, Copy)]
struct Local<'d> {
    path: Path<'d>,
    size: Option<Range>,
    entry: Option<EntrySize>,
}

struct Estimator<'d> {
    root: &'d Decl,
    locals: Vec<Local<'d>>,
}

impl<'d> Estimator<'d> {
    fn visit(&mut self, e: &Expr) -> Estimate<'d> {
        match &e.kind {
            Kind::Literal(literal) => Estimate {
                cost: Range::fixed(0),
                path: Path::None,
                size: Some(Range::fixed(literal.size())),
                entry: None,
            },
            Kind::TypeName(_) | Kind::Var(Var::This | Var::Old) => {
                self.leaf(Range::fixed(1), Path::At(self.root), &e.ty)
            }
            // Admission is bounded as it runs, not beforehand.
            Kind::Var(Var::Input(_) | Var::Composed(_) | Var::Variables) => {
                self.leaf(Range::fixed(1), Path::Lost, &e.ty)
            }
            Kind::Var(Var::Local(slot)) => {
                let Some(local) = self.locals.get(*slot).copied() else {
                    return self.leaf(Range::fixed(1), Path::None, &e.ty);
                };
                let mut estimate = self.leaf(Range::fixed(1), local.path, &e.ty);
                estimate.size = estimate.size.or(local.size);
                estimate.entry = local.entry;
                estimate
            }
            Kind::Select(select) => {
                let operand = self.visit(&select.operand);
                match select.access {
                    Access::Test => self.leaf(operand.cost, Path::None, &e.ty),
                    Access::Optional => self.leaf(operand.cost.add(1), Path::None, &e.ty),
                    Access::Plain => {
                        let priced = matches!(select.operand.ty, Ty::Map(_) | Ty::Object(..));
                        let path = self.descend(operand.path, Step::Field(&select.field));
                        self.leaf(operand.cost.add(u64::from(priced)), path, &e.ty)
                    }
                }
            }
            Kind::And(sides) | Kind::Or(sides) => {
                let (a, b) = (self.visit(&sides[0]).cost, self.visit(&sides[1]).cost);
                let cost = Range { min: a.min, max: a.max.saturating_add(b.max) };
                self.leaf(cost, Path::None, &e.ty)
            }
            Kind::Conditional(parts) => {
                let [condition, yes, no] = [&parts[0], &parts[1], &parts[2]].map(|p| self.visit(p));
                self.choice(condition.cost, yes, no)
            }
            Kind::Call(call) => self.call(e, call),
            Kind::List(items) => {
                let mut cost = Range::fixed(LIST);
                let mut value = Range { min: u64::MAX, max: 0 };
                if items.is_empty() {
                    value.min = 0;
                }
                for item in items {
                    let item = self.visit(&item.value);
                    cost = cost.plus(item.cost);
                    value = value.union(item.size_or_unknown());
                }
                let entry = EntrySize { list: true, key: Range::fixed(1), value };
                let size = Some(Range::fixed(items.len() as u64));
                Estimate { cost, path: Path::None, size, entry: Some(entry) }
            }
            Kind::Map(entries) => {
                let mut cost = Range::fixed(MAP);
                let none = Range { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
                let mut sizes = EntrySize { list: false, key: none, value: none };
                for entry in entries {
                    let (key, value) = (self.visit(&entry.key), self.visit(&entry.value));
                    cost = cost.plus(key.cost).plus(value.cost);
                    sizes.key = sizes.key.union(key.size_or_unknown());
                    sizes.value = sizes.value.union(value.size_or_unknown());
                }
                let size = Some(Range::fixed(entries.len() as u64));
                Estimate { cost, path: Path::None, size, entry: Some(sizes) }
            }
            Kind::Fold(fold) => self.fold(fold),
            Kind::OptMap(map) => self.opt_map(map),
            Kind::SortBy(sort) => self.sort_by(e, sort),
            Kind::Invalid => self.leaf(Range::fixed(0), Path::None, &e.ty),
        }
    }

    /// A node whose size follows from its place in the schema or from its type.
    fn leaf(&self, cost: Range, path: Path<'d>, ty: &Ty) -> Estimate<'d> {
        let by_type = ty.is_scalar().then_some(Range::fixed(1));
        Estimate { cost, path, size: path_size(path).or(by_type), entry: None }
    }

    fn choice(&self, condition: Range, yes: Estimate<'d>, no: Estimate<'d>) -> Estimate<'d> {
        let entry = match (yes.entry, no.entry) {
            (Some(a), Some(b)) => Some(EntrySize {
                list: a.list,
                key: a.key.union(b.key),
                value: a.value.union(b.value),
            }),
            _ => None,
        };
        Estimate {
            cost: condition.plus(yes.cost.union(no.cost)),
            path: Path::None,
            size: Some(yes.size_or_unknown().union(no.size_or_unknown())),
            entry,
        }
    }

    fn descend(&self, path: Path<'d>, step: Step<'_>) -> Path<'d> {
        let decl = match path {
            // A path of one step is the variable itself, and that is the root.
            Path::None => return Path::At(self.root),
            Path::Lost | Path::Key => return Path::Lost,
            Path::At(decl) => decl,
        };
        let found = match (step, &decl.shape) {
            (Step::Elements, Shape::List { items, .. } | Shape::Map(items)) => Some(items),
            (Step::Field(name), Shape::Object(o)) => o.visible_field(name).map(|(_, d)| d),
            _ => None,
        };
        found.map_or(Path::Lost, |d| Path::At(d))
    }

    fn call(&mut self, e: &Expr, call: &Call) -> Estimate<'d> {
        let name = call.function.name;
        if name == "dyn" && call.args.len() == 1 {
            let mut arg = self.visit(&call.args[0]);
            arg.cost = arg.cost.add(1);
            arg.path = Path::None;
            return arg;
        }
        let all: Vec<Estimate<'d>> = call.args.iter().map(|a| self.visit(a)).collect();
        let (target, args) = match call.member {
            true => (all.first(), all.get(1..).unwrap_or_default()),
            false => (None, all.as_slice()),
        };
        let paid = all.iter().fold(Range::fixed(0), |sum, a| sum.plus(a.cost));
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut size: Option<Range> = None;
        let mut path = Path::None;
        for overload in &call.overloads {
            let found = self.overload(call, overload.id, target, args);
            cost = cost.union(found.0);
            size = match (size, found.1) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if matches!(overload.id, "index_list" | "index_map")
                && let Some(container) = args.first()
            {
                size = container.entry.map(|e| e.value);
                path = self.descend(container.path, Step::Elements);
            }
            size = size.or(path_size(path)).or(e.ty.is_scalar().then_some(Range::fixed(1)));
        }
        let mut entry = None;
        if name == "_+_"
            && let [Some(a), Some(b)] = [args.first(), args.get(1)].map(|a| a.and_then(|a| a.entry))
        {
            entry = Some(EntrySize {
                list: a.list,
                key: a.key.union(b.key),
                value: a.value.union(b.value),
            });
        }
        Estimate { cost: cost.plus(paid), path, size, entry }
    }

    /// The cost of an overload without its arguments, and the size of what it returns.
    fn overload(
        &self,
        call: &Call,
        id: &str,
        target: Option<&Estimate<'d>>,
        args: &[Estimate<'d>],
    ) -> (Range, Option<Range>) {
        let size = |e: Option<&Estimate<'d>>| e.map_or(UNKNOWN, Estimate::size_or_unknown);
        let (this, arg, second) = (size(target), size(args.first()), size(args.get(1)));
        let regex = |text: Range, pattern: Range| {
            text.add(1).scaled(PER_CHAR).times(pattern.scaled(PER_PATTERN_CHAR))
        };
        let unit = (Range::fixed(1), None);
        match call.function.name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let Some(target) = target else { return unit };
                let Some(Ty::List(of)) = call.args.first().map(|a| &a.ty) else {
                    return (this.scaled(PER_CHAR), None);
                };
                let mut each = Range::fixed(1);
                if matches!(**of, Ty::String | Ty::Bytes) {
                    each = each.plus(self.element_size(target).scaled(PER_CHAR));
                }
                (this.times(each), None)
            }
            "url" => (arg.scaled(PER_CHAR), Some(arg)),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                (this.scaled(PER_CHAR), Some(this))
            }
            "replace" => (this.scaled(2.0 * PER_CHAR), Some(replaced(this, arg, second))),
            "split" => {
                let max = match call.args.get(2).map(|a| &a.kind) {
                    Some(Kind::Literal(Literal::Int(n))) => *n as u64,
                    _ => this.max,
                };
                (this.scaled(2.0 * PER_CHAR), Some(Range { min: 0, max }))
            }
            "join" => {
                let mut text = Range::fixed(0);
                if let Some(target) = target
                    && matches!(call.args.first().map(|a| &a.ty), Some(Ty::List(_)))
                {
                    text = this.times(self.element_size(target));
                }
                if !args.is_empty() {
                    let separators =
                        Range { min: this.min.saturating_sub(1), max: this.max.saturating_sub(1) };
                    text = text.plus(arg.times(separators));
                }
                (text.scaled(PER_CHAR), Some(text))
            }
            "find" | "findAll" => (regex(this, arg), Some(Range { min: 0, max: this.max })),
            "ip" if id == "cidr_ip" => unit,
            "ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver"
            | "isSemver" => (arg.scaled(PER_CHAR), None),
            "ip.isCanonical" => (arg.scaled(2.0 * PER_CHAR), None),
            "containsIP" | "containsCIDR" => {
                let address = Range { min: 4, max: 16 };
                let mut cost = address.plus(address).scaled(PER_CHAR);
                if call.function.price == Price::ContainsCidr {
                    cost = cost.plus(address.scaled(PER_CHAR)).add(1);
                }
                if matches!(id, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
                    cost = cost.plus(arg.scaled(PER_CHAR));
                }
                (cost, None)
            }
            "validate" => (arg.scaled(PER_CHAR).scaled(MAX_NAME_FORMAT * PER_PATTERN_CHAR), None),
            "_==_" | "_!=_" => {
                let special = match call.args.first().map(|a| &a.ty) {
                    Some(ty)
                        if call.function.name == "_==_"
                            && call.args.get(1).is_some_and(|b| b.ty == *ty) =>
                    {
                        same_type_equality(ty, args)
                    }
                    _ => None,
                };
                (special.unwrap_or_else(|| smaller(arg, second)), None)
            }
            "format" => (this.scaled(PER_CHAR), None),
            "strings.quote" => {
                let doubled = |n: u64| n.saturating_mul(2).saturating_add(2);
                let quoted = Range { min: arg.min.saturating_add(2), max: doubled(arg.max) };
                (arg.scaled(PER_CHAR), Some(quoted))
            }
            "startsWith" | "endsWith" => (arg.scaled(PER_CHAR), None),
            "matches" if call.member => (regex(this, arg), None),
            "contains" => (this.scaled(PER_CHAR).times(arg.scaled(PER_CHAR)), None),
            "slice" => {
                let literal = |i: usize, default: u64| match call.args.get(i).map(|a| &a.kind) {
                    Some(Kind::Literal(Literal::Int(n))) => (*n).max(0) as u64,
                    _ => default,
                };
                let length = literal(2, this.max).wrapping_sub(literal(1, 0));
                list_call(1.0, Range::fixed(length))
            }
            "lists.range" => {
                let length = match call.args.first().map(|a| &a.kind) {
                    Some(Kind::Literal(Literal::Int(n))) => (*n).max(0) as u64,
                    _ => u64::MAX,
                };
                list_call(1.0, Range::fixed(length))
            }
            "reverse" => list_call(1.0, this),
            "flatten" => {
                let depth = match call.args.get(1).map(|a| &a.kind) {
                    None => 1,
                    Some(Kind::Literal(Literal::Int(n))) => (*n).max(0) as u64,
                    Some(_) => u64::MAX,
                };
                list_call(depth as f64, this)
            }
            "distinct" => list_call(2.0, this.times(this)),
            "sort" => sorting(call.args.first().map(|a| &a.ty), this),
            "sets.contains" | "sets.intersects" => (arg.times(second).add(1), None),
            "sets.equivalent" => (arg.times(second).scaled(2.0).add(1), None),
            _ => match id {
                "string_to_bytes" => {
                    let bytes = Range { min: arg.min, max: arg.max.wrapping_mul(4) };
                    (arg.scaled(PER_CHAR), Some(bytes))
                }
                "bytes_to_string" => {
                    (arg.scaled(PER_CHAR), Some(Range { min: arg.min / 4, max: arg.max }))
                }
                "in_list" => (second, None),
                "add_string" | "add_bytes" => {
                    let sum = arg.plus(second);
                    (sum.scaled(PER_CHAR), Some(sum))
                }
                "add_list" => (Range::fixed(1), Some(arg.plus(second))),
                _ if call.function.price == Price::Compare
                    && (id.ends_with("_string") || id.ends_with("_bytes")) =>
                {
                    (smaller(arg, second), None)
                }
                _ => unit,
            },
        }
    }

    /// The size of the elements of a list, by its place in the schema.
    fn element_size(&self, list: &Estimate<'d>) -> Range {
        match list.path {
            Path::None => UNKNOWN,
            path => path_size(self.descend(path, Step::Elements)).unwrap_or(UNKNOWN),
        }
    }

    fn bind_range(&mut self, range: &Estimate<'d>, ty: &Ty, two: bool) {
        let list = range.entry.map_or(matches!(ty, Ty::List(_)), |e| e.list);
        let value = Local {
            path: self.descend(range.path, Step::Elements),
            size: range.entry.map(|e| e.value),
            entry: None,
        };
        let key = Local {
            path: match (range.path, list) {
                (Path::None, _) => Path::At(self.root),
                (Path::At(Decl { shape: Shape::Map(_), .. }), false) => Path::Key,
                _ => Path::Lost,
            },
            size: range.entry.map(|e| e.key),
            entry: None,
        };
        if two {
            self.locals.push(key);
            self.locals.push(value);
        } else {
            self.locals.push(if list { value } else { key });
        }
    }

    fn fold(&mut self, fold: &Fold) -> Estimate<'d> {
        let range = self.visit(&fold.range);
        let depth = self.locals.len();
        self.locals.truncate(fold.slot);
        self.bind_range(&range, &fold.range.ty, fold.two);
        let element = self.locals.get(fold.slot).copied();
        let filter = fold.filter.as_ref().map(|f| self.visit(f));
        let body = match (&fold.body, &fold.range.ty) {
            (Some(body), _) => self.visit(body),
            (None, ty) => {
                // `filter` collects its variable.
                let ty = match ty {
                    Ty::List(of) => (**of).clone(),
                    Ty::Map(kv) => kv.0.clone(),
                    _ => Ty::Dyn,
                };
                let local = element.unwrap_or(Local { path: Path::None, size: None, entry: None });
                let mut e = self.leaf(Range::fixed(1), local.path, &ty);
                e.size = e.size.or(local.size);
                e
            }
        };
        self.locals.truncate(depth.min(fold.slot));
        let count = range.size_or_unknown();
        let collected = |size: Range| EntrySize {
            list: true,
            key: Range::fixed(1),
            value: Range::fixed(0).union(size),
        };
        // The terms follow from the comprehension that each macro stands for.
        let (init, condition, step, result, entry) = match fold.what {
            What::All | What::Exists => {
                let step = Range { min: 1, max: body.cost.max.saturating_add(1) };
                (0, if fold.what == What::All { 2 } else { 3 }, step, 1, None)
            }
            What::ExistsOne => (0, 0, body.cost.plus(Range { min: 1, max: 2 }), 2, None),
            What::List => {
                let push = body.cost.add(LIST + 2);
                (LIST, 0, push, 1, Some(collected(body.size_or_unknown())))
            }
            What::TransformMap => (MAP, 0, body.cost.add(3), 1, None),
            What::TransformMapEntry => (MAP, 0, body.cost.add(2), 1, None),
        };
        let step = match &filter {
            Some(filter) => filter.cost.plus(step.union(Range::fixed(1))),
            None => step,
        };
        let cost = range.cost.add(init).add(result).plus(count.times(step.add(condition)));
        let size = match fold.what {
            What::All | What::Exists | What::ExistsOne => Range::fixed(1),
            _ => count,
        };
        Estimate { cost, path: Path::None, size: Some(size), entry }
    }

    fn opt_map(&mut self, map: &OptMap) -> Estimate<'d> {
        let target = self.visit(&map.target);
        let inner = match &map.target.ty {
            Ty::Optional(inner) => inner.is_scalar(),
            _ => false,
        };
        let size = inner.then_some(Range::fixed(1));
        self.locals.truncate(map.slot);
        self.locals.push(Local { path: Path::None, size, entry: None });
        let body = self.visit(&map.body);
        self.locals.truncate(map.slot);
        // A presence test, then a binding of the value, then perhaps a new optional.
        let bound = target.cost.add(1).add(LIST).plus(body.cost);
        let yes = Estimate {
            cost: if map.flat { bound } else { bound.add(1) },
            path: Path::None,
            size: if map.flat { body.size } else { None },
            entry: if map.flat { body.entry } else { None },
        };
        let no = Estimate { cost: Range::fixed(1), path: Path::None, size: None, entry: None };
        self.choice(target.cost.add(1), yes, no)
    }

    fn sort_by(&mut self, e: &Expr, sort: &SortBy) -> Estimate<'d> {
        let target = self.visit(&sort.target);
        self.locals.truncate(sort.slot);
        self.bind_range(&target, &sort.target.ty, false);
        let key = self.visit(&sort.key);
        self.locals.truncate(sort.slot);
        let count = target.size_or_unknown();
        // A binding of the list, a list of keys made from it, and the sorting itself.
        let keys = Range::fixed(1 + LIST + 1).plus(count.times(key.cost.add(LIST + 2)));
        let key_list = Ty::list(sort.key.ty.clone());
        let (sorting, size) = sorting(Some(&key_list), count);
        let cost = target.cost.add(LIST).add(1).plus(keys).plus(sorting);
        Estimate { cost, size, ..self.leaf(cost, Path::None, &e.ty) }
    }
}

enum Step<'s> {
    Field(&'s str),
    Elements,
}

fn path_size(path: Path<'_>) -> Option<Range> {
    match path {
        Path::At(decl) => Some(Range { min: 0, max: decl.max_elements }),
        Path::Key => Some(Range::fixed(0)),
        Path::None | Path::Lost => None,
    }
}

/// The cost of a function that makes a list of a size.
fn list_call(factor: f64, size: Range) -> (Range, Option<Range>) {
    (size.scaled(factor).add(1 + LIST), Some(size))
}

fn sorting(list: Option<&Ty>, size: Range) -> (Range, Option<Range>) {
    let textual = matches!(list, Some(Ty::List(of)) if matches!(**of, Ty::String | Ty::Bytes));
    list_call(if textual { 2.0 + PER_CHAR } else { 2.0 }, size.times(size))
}

/// The cost of comparing two things of these sizes.
fn smaller(a: Range, b: Range) -> Range {
    let max = a.max.min(b.max);
    Range { min: u64::from(max > 0), max }.scaled(PER_CHAR)
}

fn same_type_equality(ty: &Ty, args: &[Estimate<'_>]) -> Option<Range> {
    match ty {
        Ty::Abstract("net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver") => {
            Some(Range::fixed(1))
        }
        Ty::Abstract("kubernetes.NamedFormat") => {
            Some(Range { min: 1, max: MAX_FORMAT }.scaled(PER_CHAR))
        }
        Ty::Abstract("kubernetes.URL") => {
            let max = args.get(1).and_then(|a| a.size).map_or(1, |s| s.max);
            Some(Range { min: 1, max }.scaled(PER_CHAR))
        }
        _ => None,
    }
}

/// The size of a text after replacement.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let per = |n: u64, d: u64| (n as f64 / d as f64).ceil() as u64;
    let (max_count, max_kept) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (per(text.max, old.min), 0)
    };
    let (min_count, min_kept) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (per(text.min, old.max), 0)
    };
    Range { min: min_count, max: max_count }.times(new).plus(Range { min: min_kept, max: max_kept })
}

impl Literal {
    fn size(&self) -> u64 {
        match self {
            Self::String(s) => s.chars().count() as u64,
            Self::Bytes(b) => b.len() as u64,
            _ => 1,
        }
    }
}
