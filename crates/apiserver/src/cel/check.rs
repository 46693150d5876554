//! The type checker: from the parser's tree to a checked [`Expr`], or a list of complaints.
//!
//! Guarantees: what passes names only declared fields, functions and variables, and calls every
//! function with arguments that may fit; values of type `dyn` are left to run time. Messages and
//! the places they point at are the reference implementation's. Macros are understood here, so an
//! error inside one is reported where the user wrote it.

use cel::common::ast::{
    EntryExpr, Expr as Node, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue, SourceInfo,
};

use super::eval::Machine;
use super::expr::{
    Access, Call, Entry, Expr, Fold, Item, Kind, Literal, OptMap, Program, Select, SortBy, Var,
    What,
};
use super::library::{self, Function, Overload, Run};
use super::meter::{Fail, Meter};
use super::parse::{Issue, layout, parse};
use super::types::{Bindings, Ty, most_general};
use super::value::Val;
use super::{template, time};
use crate::schema::pattern;

/// The variables an expression sees.
pub(super) struct Scope {
    vars: Vec<(String, Var, Ty)>,
}

impl Scope {
    /// What a rule of a schema sees.
    pub(super) fn rule(this: Ty, old: Ty) -> Self {
        let of = |name: &str, var, ty| (name.to_owned(), var, ty);
        Self { vars: vec![of("self", Var::This, this), of("oldSelf", Var::Old, old)] }
    }

    /// These; a name may be qualified.
    pub(super) fn of(vars: Vec<(String, Var, Ty)>) -> Self {
        Self { vars }
    }

    fn find(&self, name: &str) -> Option<(Var, Ty)> {
        let found = self.vars.iter().find(|(known, ..)| known == name);
        found.map(|(_, var, ty)| (*var, ty.clone()))
    }
}

/// The checked expression, or why there is none.
pub(super) fn compile(source: &str, scope: &Scope) -> Result<Program, String> {
    let refused = |issues: String| format!("compilation failed: {issues}");
    let parsed = parse(source).map_err(refused)?;
    let mut checker = Checker {
        info: &parsed.info,
        source,
        scope,
        bindings: Bindings::default(),
        locals: Vec::new(),
        typing: Vec::new(),
        macros: Vec::new(),
        uses_old: false,
    };
    let mut root = checker.check(&parsed.root);
    checker.resolve(&mut root);
    let mut issues = checker.macros;
    if issues.is_empty() {
        issues = checker.typing;
    }
    if issues.is_empty() {
        let mut literals = Vec::new();
        check_literals(&mut root, false, &mut literals);
        issues = literals.into_iter().map(|(at, m)| Issue::at(source, at, m)).collect();
    }
    if !issues.is_empty() {
        return Err(refused(layout(source, issues)));
    }
    prepare(&mut root).map_err(|e| format!("program instantiation failed: {e}"))?;
    let deep = root.depth() > SHALLOW;
    Ok(Program { root, uses_old: checker.uses_old, deep })
}

/// The deepest nesting that is evaluated on the caller's own stack.
const SHALLOW: usize = 40;

/// Finds the constants, which are free, and those that are errors.
fn prepare(e: &mut Expr) -> Result<(), String> {
    let mut failed = None;
    e.each_child(&mut |child| {
        if failed.is_none() {
            failed = prepare(child).err();
        }
    });
    if let Some(failed) = failed {
        return Err(failed);
    }
    let constant = e.is_constant();
    let Kind::Call(call) = &mut e.kind else { return Ok(()) };
    let set = matches!(call.args.get(1), Some(Expr { kind: Kind::List(_), .. }));
    call.free = constant
        || call.function.name == "@in" && set && call.args.get(1).is_some_and(Expr::is_constant);
    if let (Run::Regex(_), Some(Kind::Literal(Literal::String(text)))) =
        (call.function.run, call.args.get(1).map(|a| &a.kind))
    {
        call.regex = Some(pattern::compile(text)?);
    }
    if constant && let Err(Fail::Error(error)) = Machine::new(Val::Null, None).eval(e) {
        return Err(error);
    }
    Ok(())
}

struct Checker<'s> {
    info: &'s SourceInfo,
    source: &'s str,
    scope: &'s Scope,
    bindings: Bindings,
    locals: Vec<(String, Ty)>,
    typing: Vec<Issue>,
    /// Complaints about the form of macros, which hide all others.
    macros: Vec<Issue>,
    uses_old: bool,
}

impl Checker<'_> {
    /// Where a node stands, in characters.
    fn at(&self, id: u64) -> usize {
        let bytes = self.info.offset_for(id).map_or(0, |(start, _)| start as usize);
        match self.source.is_ascii() {
            true => bytes,
            false => self.source.char_indices().take_while(|(at, _)| *at < bytes).count(),
        }
    }

    fn complain(&mut self, at: usize, message: String) {
        self.typing.push(Issue::at(self.source, at, message));
    }

    fn complain_form(&mut self, at: usize, message: &str) {
        self.macros.push(Issue::at(self.source, at, message.to_owned()));
    }

    fn resolved(&self, t: &Ty) -> Ty {
        self.bindings.resolve(t, false)
    }

    fn check(&mut self, node: &IdedExpr) -> Expr {
        let at = self.at(node.id);
        let (kind, ty) = match &node.expr {
            Node::Literal(value) => self.literal(value),
            Node::Ident(name) => self.ident(at, name),
            Node::Select(select) => {
                if !select.test
                    && let Some(name) = qualified_name(node)
                    && let Some(found) = self.qualified(&name)
                {
                    found
                } else {
                    self.select(at, &select.operand, &select.field, Access::Plain)
                }
            }
            Node::Call(call) => match &call.target {
                None => self.global_call(at, &call.func_name, &call.args),
                Some(target) => self.member_call(at, target, &call.func_name, &call.args),
            },
            Node::List(list) => self.list(list),
            Node::Map(map) => self.map(&map.entries),
            Node::Struct(message) => {
                let name = message.type_name.as_str();
                let problem = match (self.scope.find(name), type_name(name)) {
                    (Some((_, ty)), _) => format!("'{ty}' is not a type"),
                    (_, Some(_)) => format!("'{name}' is not a message type"),
                    (_, None) => undeclared(name),
                };
                self.complain(at, problem);
                (Kind::Invalid, Ty::Error)
            }
            Node::Comprehension(_) | Node::Unspecified => {
                self.complain(at, "unexpected unspecified type: ".to_owned());
                (Kind::Invalid, Ty::Error)
            }
        };
        Expr { kind, ty, at }
    }

    fn literal(&self, value: &LiteralValue) -> (Kind, Ty) {
        let (literal, ty) = match value {
            LiteralValue::Null => (Literal::Null, Ty::Null),
            LiteralValue::Boolean(b) => (Literal::Bool(*b.inner()), Ty::Bool),
            LiteralValue::Int(i) => (Literal::Int(*i.inner()), Ty::Int),
            LiteralValue::UInt(u) => (Literal::Uint(*u.inner()), Ty::Uint),
            LiteralValue::Double(d) => (Literal::Double(*d.inner()), Ty::Double),
            LiteralValue::String(s) => (Literal::String(s.inner().to_owned()), Ty::String),
            LiteralValue::Bytes(b) => (Literal::Bytes(b.inner().to_vec()), Ty::Bytes),
        };
        (Kind::Literal(literal), ty)
    }

    fn ident(&mut self, at: usize, name: &str) -> (Kind, Ty) {
        if let Some(slot) = self.locals.iter().rposition(|(n, _)| n == name) {
            let ty = self.locals[slot].1.clone();
            return (Kind::Var(Var::Local(slot)), ty);
        }
        let bare = name.strip_prefix('.').unwrap_or(name);
        if let Some((var, ty)) = self.scope.find(bare) {
            self.uses_old |= var == Var::Old;
            return (Kind::Var(var), ty);
        }
        match type_name(bare) {
            Some(found) => found,
            None => {
                self.complain(at, undeclared(name));
                (Kind::Invalid, Ty::Error)
            }
        }
    }

    /// What a qualified name stands for as a whole, unless a macro's variable hides it.
    fn qualified(&self, name: &str) -> Option<(Kind, Ty)> {
        let first = name.split('.').next().unwrap_or_default();
        let hidden = self.locals.iter().any(|(local, _)| local == first);
        let var = self.scope.find(name).filter(|_| !hidden);
        var.map(|(var, ty)| (Kind::Var(var), ty)).or_else(|| type_name(name))
    }

    fn select(&mut self, at: usize, operand: &IdedExpr, field: &str, access: Access) -> (Kind, Ty) {
        // A variable of a policy is there, whether or not it has a value.
        if access == Access::Test
            && let Some(name) = qualified_name(operand)
            && let Some((Kind::Var(Var::Composed(_)), _)) =
                self.qualified(&format!("{name}.{field}"))
        {
            return (Kind::Literal(Literal::Bool(true)), Ty::Bool);
        }
        let operand = self.check(operand);
        let (target, was_optional) = self.resolved(&operand.ty).unwrap_optional();
        let mut ty = match &target {
            Ty::Map(kv) => kv.1.clone(),
            Ty::Object(name, decl) => {
                let found = match &decl.shape {
                    super::decl::Shape::Object(o) => o.visible_field(field),
                    _ => None,
                };
                match found {
                    Some((_, decl)) => Ty::of_decl(decl, &format!("{name}.{field}")),
                    None => {
                        self.complain(at, format!("undefined field '{field}'"));
                        Ty::Error
                    }
                }
            }
            Ty::Param(_) => {
                self.bindings.assignable(&Ty::Dyn, &target);
                Ty::Dyn
            }
            Ty::Dyn | Ty::Error => Ty::Dyn,
            // The fields of Kubernetes' own types are reached by functions alone.
            Ty::Abstract(name) if !name.starts_with("net.") => {
                self.complain(at, format!("unexpected failed resolution of '{name}'"));
                Ty::Error
            }
            other => {
                self.complain(at, format!("type '{other}' does not support field selection"));
                Ty::Dyn
            }
        };
        if was_optional || access == Access::Optional {
            ty = Ty::optional(ty);
        }
        if access == Access::Test {
            ty = Ty::Bool;
        }
        let ty = self.resolved(&ty);
        (Kind::Select(Box::new(Select { operand, field: field.to_owned(), access })), ty)
    }

    fn global_call(&mut self, at: usize, name: &str, args: &[IdedExpr]) -> (Kind, Ty) {
        match (name, args) {
            ("has", [arg]) => return self.has(at, arg),
            ("_&&_" | "_||_", [a, b]) => {
                let sides = Box::new([self.check(a), self.check(b)]);
                let mut sound = true;
                for side in sides.iter() {
                    sound &= self.demand_bool(side);
                }
                let ty = if sound { Ty::Bool } else { Ty::Error };
                return match name {
                    "_&&_" => (Kind::And(sides), ty),
                    _ => (Kind::Or(sides), ty),
                };
            }
            ("_?:_" | "_?_:_", [condition, yes, no]) => {
                let parts = Box::new([self.check(condition), self.check(yes), self.check(no)]);
                let ty = self.conditional(at, &parts[0].ty, &parts[1].ty, &parts[2].ty);
                return (Kind::Conditional(parts), ty);
            }
            ("_?._", [operand, field]) => {
                if let Node::Literal(LiteralValue::String(field)) = &field.expr {
                    return self.select(at, operand, field.inner(), Access::Optional);
                }
            }
            _ => {}
        }
        let args: Vec<Expr> = args.iter().map(|a| self.check(a)).collect();
        match library::find(name.strip_prefix('.').unwrap_or(name)) {
            Some(function) => self.call(at, function, args, false),
            None => {
                self.complain(at, undeclared(name));
                (Kind::Invalid, Ty::Error)
            }
        }
    }

    fn member_call(
        &mut self,
        at: usize,
        target: &IdedExpr,
        name: &str,
        args: &[IdedExpr],
    ) -> (Kind, Ty) {
        if let Some(expanded) = self.expand(at, target, name, args) {
            return expanded;
        }
        let mut args: Vec<Expr> = args.iter().map(|a| self.check(a)).collect();
        let namespaced = qualified_name(target).map(|prefix| format!("{prefix}.{name}"));
        if let Some(function) = namespaced.and_then(|n| library::find(&n)) {
            return self.call(at, function, args, false);
        }
        let target = self.check(target);
        match library::find(name) {
            Some(function) => {
                args.insert(0, target);
                self.call(at, function, args, true)
            }
            None => {
                self.complain(at, undeclared(name));
                (Kind::Invalid, Ty::Error)
            }
        }
    }

    fn call(
        &mut self,
        at: usize,
        function: &'static Function,
        args: Vec<Expr>,
        member: bool,
    ) -> (Kind, Ty) {
        let types: Vec<Ty> = args.iter().map(|a| a.ty.clone()).collect();
        let Some((overloads, ty)) = self.overloads(function, &types, member) else {
            self.no_overload(at, function.name, &types, member);
            return (Kind::Invalid, Ty::Error);
        };
        (
            Kind::Call(Box::new(Call {
                function,
                overloads,
                member,
                args,
                regex: None,
                free: false,
            })),
            ty,
        )
    }

    fn overloads(
        &mut self,
        function: &'static Function,
        types: &[Ty],
        member: bool,
    ) -> Option<(Vec<&'static Overload>, Ty)> {
        let mut found: Option<(Vec<&'static Overload>, Ty)> = None;
        for overload in function.overloads.iter().filter(|o| o.member == member) {
            let signature = self.bindings.instantiate(&overload.signature);
            let (result, wanted) = signature.split_first()?;
            if !self.bindings.assignable_all(types, wanted) {
                continue;
            }
            let result = self.resolved(result);
            match &mut found {
                None => found = Some((vec![overload], result)),
                Some((overloads, ty)) => {
                    overloads.push(overload);
                    if *ty != Ty::Dyn && *ty != result {
                        *ty = Ty::Dyn;
                    }
                }
            }
        }
        found
    }

    fn no_overload(&mut self, at: usize, name: &str, types: &[Ty], member: bool) {
        let shown: Vec<String> =
            types.iter().map(|t| self.bindings.resolve(t, true).to_string()).collect();
        let signature = match (member, shown.split_first()) {
            (true, Some((target, args))) => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.complain(
            at,
            format!("found no matching overload for '{name}' applied to '{signature}'"),
        );
    }

    fn demand_bool(&mut self, e: &Expr) -> bool {
        let sound = self.bindings.assignable(&e.ty, &Ty::Bool);
        if !sound {
            let found = self.resolved(&e.ty);
            self.complain(e.at, format!("expected type 'bool' but found '{found}'"));
        }
        sound
    }

    fn conditional(&mut self, at: usize, condition: &Ty, yes: &Ty, no: &Ty) -> Ty {
        let types = [condition.clone(), yes.clone(), no.clone()];
        let wanted = self.bindings.instantiate(&[Ty::Bool, Ty::Param(0), Ty::Param(0)]);
        if self.bindings.assignable_all(&types, &wanted) {
            return self.resolved(&wanted[1]);
        }
        self.no_overload(at, "_?_:_", &types, false);
        Ty::Error
    }

    /// The type of two neighbours in a literal.
    fn join(&mut self, before: Option<Ty>, next: Ty) -> Ty {
        match before {
            None => next,
            Some(before) if self.bindings.assignable(&before, &next) => most_general(before, next),
            // Most mixtures are refused later, when it is known which are allowed.
            Some(_) => Ty::Dyn,
        }
    }

    fn unwrap_entry(&mut self, value: &Expr, optional: bool) -> Ty {
        if !optional {
            return value.ty.clone();
        }
        let (inner, was_optional) = self.resolved(&value.ty).unwrap_optional();
        if !was_optional && inner != Ty::Dyn {
            self.complain(
                value.at,
                format!("expected type 'optional_type({inner})' but found '{inner}'"),
            );
        }
        inner
    }

    fn list(&mut self, list: &ListExpr) -> (Kind, Ty) {
        let mut of = None;
        let mut items = Vec::with_capacity(list.elements.len());
        for (i, node) in list.elements.iter().enumerate() {
            let value = self.check(node);
            let optional = list.optional_indices.contains(&i);
            let ty = self.unwrap_entry(&value, optional);
            of = Some(self.join(of, ty));
            items.push(Item { value, optional });
        }
        let of = of.unwrap_or_else(|| self.bindings.fresh());
        (Kind::List(items), Ty::list(of))
    }

    fn map(&mut self, nodes: &[IdedEntryExpr]) -> (Kind, Ty) {
        let (mut keys, mut values) = (None, None);
        let mut entries = Vec::with_capacity(nodes.len());
        for node in nodes {
            let EntryExpr::MapEntry(entry) = &node.expr else { continue };
            let key = self.check(&entry.key);
            keys = Some(self.join(keys, key.ty.clone()));
            let value = self.check(&entry.value);
            let ty = self.unwrap_entry(&value, entry.optional);
            values = Some(self.join(values, ty));
            entries.push(Entry { key, value, optional: entry.optional });
        }
        let key = keys.unwrap_or_else(|| self.bindings.fresh());
        let value = values.unwrap_or_else(|| self.bindings.fresh());
        (Kind::Map(entries), Ty::map(key, value))
    }

    fn has(&mut self, at: usize, arg: &IdedExpr) -> (Kind, Ty) {
        match &arg.expr {
            Node::Select(select) => self.select(at, &select.operand, &select.field, Access::Test),
            _ => {
                let at = self.at(arg.id);
                self.complain_form(at, "invalid argument to has() macro");
                (Kind::Invalid, Ty::Error)
            }
        }
    }

    /// The macro that the call is, if it is one.
    fn expand(
        &mut self,
        at: usize,
        target: &IdedExpr,
        name: &str,
        args: &[IdedExpr],
    ) -> Option<(Kind, Ty)> {
        let fold = |what, two, filter, body| Some((what, two, filter, body));
        let shape = match (name, args) {
            ("all", [_, p]) => fold(What::All, false, None, Some(p)),
            ("exists", [_, p]) => fold(What::Exists, false, None, Some(p)),
            ("exists_one" | "existsOne", [_, p]) => fold(What::ExistsOne, false, None, Some(p)),
            ("filter", [_, p]) => fold(What::List, false, Some(p), None),
            ("map", [_, t]) => fold(What::List, false, None, Some(t)),
            ("map", [_, p, t]) => fold(What::List, false, Some(p), Some(t)),
            ("all", [_, _, p]) => fold(What::All, true, None, Some(p)),
            ("exists", [_, _, p]) => fold(What::Exists, true, None, Some(p)),
            ("exists_one" | "existsOne", [_, _, p]) => fold(What::ExistsOne, true, None, Some(p)),
            ("transformList", [_, _, t]) => fold(What::List, true, None, Some(t)),
            ("transformList", [_, _, p, t]) => fold(What::List, true, Some(p), Some(t)),
            ("transformMap", [_, _, t]) => fold(What::TransformMap, true, None, Some(t)),
            ("transformMap", [_, _, p, t]) => fold(What::TransformMap, true, Some(p), Some(t)),
            ("transformMapEntry", [_, _, t]) => fold(What::TransformMapEntry, true, None, Some(t)),
            ("transformMapEntry", [_, _, p, t]) => {
                fold(What::TransformMapEntry, true, Some(p), Some(t))
            }
            ("optMap" | "optFlatMap", [var, body]) => {
                return Some(self.opt_map(at, target, name, var, body));
            }
            ("sortBy", [var, key]) => return Some(self.sort_by(at, target, var, key)),
            _ => None,
        };
        let (what, two, filter, body) = shape?;
        let mut names = Vec::new();
        for arg in &args[..if two { 2 } else { 1 }] {
            let at = self.at(arg.id);
            match &arg.expr {
                Node::Ident(name) if !name.starts_with('.') => {
                    if names.contains(name) {
                        self.complain_form(at, &format!("duplicate variable name: {name}"));
                    }
                    names.push(name.clone());
                }
                _ if two || what != What::List => {
                    self.complain_form(at, "argument must be a simple name");
                }
                _ => self.complain_form(at, "argument is not an identifier"),
            }
        }
        if names.len() < if two { 2 } else { 1 } {
            return Some((Kind::Invalid, Ty::Error));
        }
        Some(self.fold(at, target, what, names, filter, body))
    }

    fn fold(
        &mut self,
        at: usize,
        target: &IdedExpr,
        what: What,
        names: Vec<String>,
        filter: Option<&IdedExpr>,
        body: Option<&IdedExpr>,
    ) -> (Kind, Ty) {
        let range = self.check(target);
        let two = names.len() == 2;
        let (first, second) = self.range_types(&range, two);
        let slot = self.locals.len();
        for (name, ty) in names.into_iter().zip([first.clone(), second]) {
            self.locals.push((name, ty));
        }
        let filter = filter.map(|f| self.check(f));
        let body = body.map(|b| self.check(b));
        let ty = match what {
            What::All | What::Exists => {
                if let Some(body) = &body {
                    self.demand_bool(body);
                }
                Ty::Bool
            }
            What::ExistsOne => {
                if let Some(body) = &body {
                    self.conditional(at, &body.ty, &Ty::Int, &Ty::Int);
                }
                Ty::Bool
            }
            What::List => Ty::list(body.as_ref().map_or(first, |b| b.ty.clone())),
            What::TransformMap => Ty::map(first, body.as_ref().map_or(Ty::Dyn, |b| b.ty.clone())),
            What::TransformMapEntry => self.entry_map(at, body.as_ref()),
        };
        let ty = self.resolved(&ty);
        if let Some(filter) = &filter {
            self.conditional(at, &filter.ty, &ty, &ty);
        }
        self.locals.truncate(slot);
        (Kind::Fold(Box::new(Fold { what, range, slot, two, filter, body })), ty)
    }

    fn entry_map(&mut self, at: usize, body: Option<&Expr>) -> Ty {
        let entry = body.map_or(Ty::Dyn, |b| b.ty.clone());
        let wanted = self.bindings.instantiate(&[Ty::map(Ty::Param(0), Ty::Param(1))]);
        if self.bindings.assignable_all(std::slice::from_ref(&entry), &wanted) {
            return wanted[0].clone();
        }
        let accumulated = wanted[0].clone();
        self.no_overload(at, "cel.@mapInsert", &[accumulated, entry], false);
        Ty::Error
    }

    /// The types of the variables that run over a list or map.
    fn range_types(&mut self, range: &Expr, two: bool) -> (Ty, Ty) {
        let ty = self.resolved(&range.ty);
        match &ty {
            Ty::List(of) if two => (Ty::Int, (**of).clone()),
            Ty::List(of) => ((**of).clone(), Ty::Error),
            Ty::Map(kv) => (kv.0.clone(), kv.1.clone()),
            Ty::Dyn | Ty::Error => (Ty::Dyn, Ty::Dyn),
            Ty::Param(_) => {
                self.bindings.assignable(&Ty::Dyn, &ty);
                (Ty::Dyn, Ty::Dyn)
            }
            other => {
                self.complain(
                    range.at,
                    format!(
                        "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                    ),
                );
                (Ty::Error, Ty::Error)
            }
        }
    }

    fn opt_map(
        &mut self,
        at: usize,
        target: &IdedExpr,
        name: &str,
        var: &IdedExpr,
        body: &IdedExpr,
    ) -> (Kind, Ty) {
        let Node::Ident(var) = &var.expr else {
            let at = self.at(var.id);
            self.complain_form(at, &format!("{name}() variable name must be a simple identifier"));
            return (Kind::Invalid, Ty::Error);
        };
        let target = self.check(target);
        let inner = match self.resolved(&target.ty) {
            Ty::Optional(inner) => (*inner).clone(),
            Ty::Dyn | Ty::Error | Ty::Param(_) => Ty::Dyn,
            other => {
                self.no_overload(at, "hasValue", std::slice::from_ref(&other), true);
                self.no_overload(at, "value", std::slice::from_ref(&other), true);
                Ty::Error
            }
        };
        let slot = self.locals.len();
        self.locals.push((var.clone(), inner));
        let mut body = self.check(body);
        self.locals.truncate(slot);
        let flat = name == "optFlatMap";
        let yes = if flat { body.ty.clone() } else { Ty::optional(body.ty.clone()) };
        let none = Ty::optional(self.bindings.fresh());
        let ty = self.conditional(at, &Ty::Bool, &yes, &none);
        let used = body.mentions(slot);
        (Kind::OptMap(Box::new(OptMap { target, slot, body, flat, used })), ty)
    }

    fn sort_by(
        &mut self,
        at: usize,
        target: &IdedExpr,
        var: &IdedExpr,
        key: &IdedExpr,
    ) -> (Kind, Ty) {
        let Node::Ident(var) = &var.expr else {
            let at = self.at(var.id);
            self.complain_form(at, "argument is not an identifier");
            return (Kind::Invalid, Ty::Error);
        };
        let target = self.check(target);
        let (first, _) = self.range_types(&target, false);
        let slot = self.locals.len();
        self.locals.push((var.clone(), first));
        let key = self.check(key);
        self.locals.truncate(slot);
        let types = [target.ty.clone(), Ty::list(key.ty.clone())];
        let name = "@sortByAssociatedKeys";
        match library::find(name).and_then(|f| self.overloads(f, &types, true)) {
            Some((_, ty)) => (Kind::SortBy(Box::new(SortBy { target, slot, key })), ty),
            None => {
                self.no_overload(at, name, &types, true);
                (Kind::Invalid, Ty::Error)
            }
        }
    }

    /// Replaces the type variables of a whole tree by what they turned out to be.
    fn resolve(&self, e: &mut Expr) {
        e.ty = self.bindings.resolve(&e.ty, true);
        e.each_child(&mut |child| self.resolve(child));
    }
}

impl Expr {
    fn depth(&mut self) -> usize {
        let mut deepest = 0;
        self.each_child(&mut |child| deepest = deepest.max(child.depth()));
        deepest + 1
    }

    /// Whether the variable in a slot is read.
    fn mentions(&mut self, slot: usize) -> bool {
        let mut found = matches!(self.kind, Kind::Var(Var::Local(s)) if s == slot);
        self.each_child(&mut |child| found = found || child.mentions(slot));
        found
    }

    /// The parts of a node.
    fn each_child(&mut self, visit: &mut dyn FnMut(&mut Self)) {
        match &mut self.kind {
            Kind::Literal(_) | Kind::Var(_) | Kind::TypeName(_) | Kind::Invalid => {}
            Kind::Select(s) => visit(&mut s.operand),
            Kind::And(sides) | Kind::Or(sides) => sides.iter_mut().for_each(visit),
            Kind::Conditional(parts) => parts.iter_mut().for_each(visit),
            Kind::Call(call) => call.args.iter_mut().for_each(visit),
            Kind::List(items) => items.iter_mut().for_each(|i| visit(&mut i.value)),
            Kind::Map(entries) => entries.iter_mut().for_each(|e| {
                visit(&mut e.key);
                visit(&mut e.value);
            }),
            Kind::Fold(fold) => {
                visit(&mut fold.range);
                fold.filter.iter_mut().for_each(&mut *visit);
                fold.body.iter_mut().for_each(visit);
            }
            Kind::OptMap(map) => {
                visit(&mut map.target);
                visit(&mut map.body);
            }
            Kind::SortBy(sort) => {
                visit(&mut sort.target);
                visit(&mut sort.key);
            }
        }
    }
}

/// Complains about literals that can never work, and compiles literal patterns.
fn check_literals(e: &mut Expr, in_format: bool, issues: &mut Vec<(usize, String)>) {
    let formatting =
        in_format || matches!(&e.kind, Kind::Call(call) if call.function.name == "format");
    e.each_child(&mut |child| check_literals(child, formatting, issues));
    match &mut e.kind {
        Kind::Call(call) => check_literal_args(e.at, call, issues),
        Kind::List(items) if !in_format => {
            let of = |i: &Item| i.value.ty.unwrap_entry(i.optional);
            let Some(first) = items.first().map(of) else { return };
            if let Some(odd) = items.iter().find(|i| of(i) != first) {
                let message = format!("expected type '{first}' but found '{}'", of(odd));
                issues.push((odd.value.at, message));
            }
        }
        Kind::Map(entries) if !in_format => {
            let of = |e: &Entry| (e.key.ty.clone(), e.value.ty.unwrap_entry(e.optional));
            let Some((key, value)) = entries.first().map(of) else { return };
            for entry in entries.iter() {
                let (k, v) = of(entry);
                for (at, expected, found) in
                    [(entry.key.at, &key, &k), (entry.value.at, &value, &v)]
                {
                    if expected != found {
                        issues
                            .push((at, format!("expected type '{expected}' but found '{found}'")));
                    }
                }
            }
        }
        _ => {}
    }
}

impl Ty {
    fn unwrap_entry(&self, optional: bool) -> Self {
        if optional { self.unwrap_optional().0 } else { self.clone() }
    }
}

fn check_literal_args(at: usize, call: &Call, issues: &mut Vec<(usize, String)>) {
    let name = call.function.name;
    if name == "matches" && call.member {
        // The reference finds other bad patterns only when it builds the program.
        let Some(arg) = call.args.get(1) else { return };
        if let Kind::Literal(Literal::String(text)) = &arg.kind
            && pattern::compile(text).is_err()
        {
            issues.push((arg.at, "invalid matches argument".to_owned()));
        }
        return;
    }
    let Some(arg) = call.args.first() else { return };
    match (name, &arg.kind) {
        ("duration" | "timestamp", Kind::Literal(literal)) => {
            let run = if name == "duration" { time::to_duration } else { time::to_timestamp };
            if run(&mut Meter::default(), &[literal.to_val()]).is_err() {
                issues.push((arg.at, format!("invalid {name} argument")));
            }
        }
        ("format", Kind::Literal(Literal::String(text))) => {
            if let Some(Kind::List(items)) = call.args.get(1).map(|a| &a.kind) {
                let values: Vec<&Expr> = items.iter().map(|i| &i.value).collect();
                if let Err((place, message)) = template::check(text, &values) {
                    issues.push((place.unwrap_or(at), message));
                }
            }
        }
        _ => {}
    }
}

impl Literal {
    /// The constant as a value.
    pub(super) fn to_val(&self) -> Val<'_> {
        match self {
            Self::Null => Val::Null,
            Self::Bool(b) => Val::Bool(*b),
            Self::Int(i) => Val::Int(*i),
            Self::Uint(u) => Val::Uint(*u),
            Self::Double(d) => Val::Double(*d),
            Self::String(s) => Val::Str(super::value::Str::Borrowed(s)),
            Self::Bytes(b) => Val::Bytes(b.as_slice().into()),
        }
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

/// `a.b.c` as one name, if the node is nothing but that.
fn qualified_name(node: &IdedExpr) -> Option<String> {
    match &node.expr {
        Node::Ident(name) => Some(name.strip_prefix('.').unwrap_or(name).to_owned()),
        Node::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified_name(&select.operand)?, select.field))
        }
        _ => None,
    }
}

/// The type that a name denotes.
fn type_name(name: &str) -> Option<(Kind, Ty)> {
    let (name, ty) = match name {
        "bool" => ("bool", Ty::Bool),
        "int" => ("int", Ty::Int),
        "uint" => ("uint", Ty::Uint),
        "double" => ("double", Ty::Double),
        "string" => ("string", Ty::String),
        "bytes" => ("bytes", Ty::Bytes),
        "list" => ("list", Ty::list(Ty::Dyn)),
        "map" => ("map", Ty::map(Ty::Dyn, Ty::Dyn)),
        "null_type" => ("null_type", Ty::Null),
        "type" => ("type", Ty::Type(std::sync::Arc::new(Ty::Dyn))),
        "optional_type" => ("optional_type", Ty::optional(Ty::Dyn)),
        "google.protobuf.Timestamp" => ("google.protobuf.Timestamp", Ty::Timestamp),
        "google.protobuf.Duration" => ("google.protobuf.Duration", Ty::Duration),
        "net.IP" => ("net.IP", Ty::Abstract("net.IP")),
        "net.CIDR" => ("net.CIDR", Ty::Abstract("net.CIDR")),
        _ => return None,
    };
    Some((Kind::TypeName(name), Ty::Type(std::sync::Arc::new(ty))))
}
