//! Expressions of admission: what policies and webhooks say about a request.
//!
//! An [`Environment`] says which variables there are; it compiles [`Expression`]s and collects the
//! variables that a policy composes of them. [`Environment::run`] evaluates a list of expressions on
//! the [`Facts`] of one request. Guarantees: every expression is held to the cost limit of one
//! evaluation and all of a list to their common budget; a composed variable is evaluated at most once
//! for a list, and only if something reads it; an object is never converted as a whole.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::authority::{Authority, Question, Resource, Whose};
use super::check::{self, Scope};
use super::decl::{Decl, MAX_REQUEST_BYTES, Merge, Object, Shape};
use super::eval::Machine;
use super::expr::{Input, Program, Var};
use super::meter::{Fail, Meter, fail};
use super::types::Ty;
use super::value::{Entries, Key, Map, Out, Val};
use super::with_deep_stack;
use crate::auth::User;

/// What the expressions of one list may cost together.
pub(crate) const BUDGET: u64 = 10_000_000;

/// What the match conditions of one policy or webhook may cost together.
pub(crate) const MATCH_BUDGET: u64 = 2_500_000;

/// Says that a list has cost too much.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What an expression may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Bool,
    Text,
    /// A text, or null for none.
    TextOrNull,
    #[cfg(test)]
    Anything,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    source: String,
    program: Program,
}

/// A variable that a policy composes, by name.
#[derive(Debug)]
pub(super) struct Composed {
    name: String,
    program: Result<Program, String>,
    ty: Ty,
}

/// The variables that expressions see.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    params: bool,
    composes: bool,
    composed: Vec<Composed>,
}

impl Environment {
    /// With the parameters of a policy or without, and with variables that it composes or without.
    pub(crate) fn new(params: bool, composes: bool) -> Self {
        Self { params, composes, composed: Vec::new() }
    }

    /// Adds a composed variable, which sees those before it. One that does not compile is there all
    /// the same, and fails whatever reads it.
    pub(crate) fn compose(&mut self, name: &str, source: &str) -> Result<(), String> {
        let program = check::compile(source, &self.scope(true));
        let ty = program.as_ref().map_or(Ty::Dyn, |program| declared(&program.root.ty));
        let complaint = program.as_ref().map(drop).map_err(Clone::clone);
        self.composed.retain(|known| known.name != name);
        self.composed.push(Composed { name: name.to_owned(), program, ty });
        complaint
    }

    /// Compiles an expression; one that only words a message does not see the authorizer.
    pub(crate) fn compile(
        &self,
        source: &str,
        gives: Gives,
        authorizer: bool,
    ) -> Result<Expression, String> {
        let program = check::compile(source, &self.scope(authorizer))?;
        let ty = &program.root.ty;
        let found = go_name(ty);
        match (gives, ty) {
            #[cfg(test)]
            (Gives::Anything, _) => Ok(Expression { source: source.to_owned(), program }),
            (Gives::Bool, Ty::Bool)
            | (Gives::Text | Gives::TextOrNull, Ty::String)
            | (Gives::TextOrNull, Ty::Null) => {
                Ok(Expression { source: source.to_owned(), program })
            }
            (Gives::Bool, _) => Err(format!("must evaluate to bool but got {found}")),
            (Gives::Text, _) => Err(format!("must evaluate to string but got {found}")),
            (Gives::TextOrNull, _) => {
                Err(format!("must evaluate to one of [string null_type] but got {found}"))
            }
        }
    }

    fn scope(&self, authorizer: bool) -> Scope {
        let of = |name: &str, input, ty| (name.to_owned(), Var::Input(input), ty);
        let object = |name: &'static str, decl: &Arc<Decl>| Ty::of_decl(decl, name);
        let mut vars = vec![
            of("object", Input::Object, Ty::Dyn),
            of("oldObject", Input::OldObject, Ty::Dyn),
            of("request", Input::Request, object("kubernetes.AdmissionRequest", &REQUEST)),
            of("namespaceObject", Input::Namespace, object("kubernetes.Namespace", &NAMESPACE)),
        ];
        if self.params {
            vars.push(of("params", Input::Params, Ty::Dyn));
        }
        if authorizer {
            let ty = |name| Ty::Abstract(name);
            let (whole, resource) = (
                ty("kubernetes.authorization.Authorizer"),
                ty("kubernetes.authorization.ResourceCheck"),
            );
            vars.push(of("authorizer", Input::Authorizer, whole));
            vars.push(of("authorizer.requestResource", Input::RequestResource, resource));
        }
        if self.composes {
            let names = self.composed.iter().map(|one| (one.name.as_str(), any()));
            let decl = Arc::new(object_of(names.collect()));
            let ty = Ty::Object(Arc::from("kubernetes.variables"), decl);
            vars.push(("variables".to_owned(), Var::Variables, ty));
            for (place, one) in self.composed.iter().enumerate() {
                vars.push((
                    format!("variables.{}", one.name),
                    Var::Composed(place),
                    one.ty.clone(),
                ));
            }
        }
        Scope::of(vars)
    }

    /// Evaluates expressions in order; those that are not there give nothing. The budget says what
    /// all of them may cost, and afterwards what is left of it.
    pub(crate) fn run(
        &self,
        expressions: &[Option<&Expression>],
        facts: &Facts<'_>,
        budget: &mut u64,
    ) -> Result<Vec<Option<Outcome>>, OutOfBudget> {
        let composed = self.composed.iter().filter_map(|one| one.program.as_ref().ok());
        let deep = expressions.iter().flatten().any(|expression| expression.program.deep)
            || composed.into_iter().any(|program| program.deep);
        match deep {
            false => self.run_here(expressions, facts, budget),
            true => with_deep_stack(|| self.run_here(expressions, facts, budget))
                .unwrap_or(Err(OutOfBudget)),
        }
    }

    fn run_here(
        &self,
        expressions: &[Option<&Expression>],
        facts: &Facts<'_>,
        budget: &mut u64,
    ) -> Result<Vec<Option<Outcome>>, OutOfBudget> {
        let mut machine = Machine::new(Val::Null, None);
        machine.given = Given::of(facts, &self.composed);
        let mut outcomes = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let Some(expression) = expression else {
                outcomes.push(None);
                continue;
            };
            machine.meter = Meter::default();
            let value = machine.eval(&expression.program.root);
            let cost = machine.meter.cost.saturating_add(std::mem::take(&mut machine.given.cost));
            *budget = budget.checked_sub(cost).ok_or(OutOfBudget)?;
            outcomes.push(Some(outcome(expression, value)));
        }
        Ok(outcomes)
    }
}

/// A list has cost too much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutOfBudget;

/// What came of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Bool(bool),
    Text(String),
    Null,
    /// A value of another type, by the type's name.
    Other(&'static str),
    /// No value, and why.
    Failed(String),
}

fn outcome(expression: &Expression, value: Out<'_>) -> Outcome {
    let failed = |why: &str| {
        Outcome::Failed(format!("expression '{}' resulted in error: {why}", expression.source))
    };
    match value {
        Ok(Val::Bool(b)) => Outcome::Bool(b),
        Ok(Val::Str(text)) => Outcome::Text(text.to_string()),
        Ok(Val::Null) => Outcome::Null,
        Ok(other) => Outcome::Other(other.type_name()),
        Err(Fail::Error(why)) => failed(&why),
        Err(Fail::Cost) => failed("operation cancelled: actual cost limit exceeded"),
    }
}

/// What a request is about, as expressions see it; null stands for nothing.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) object: &'a Value,
    pub(crate) old_object: &'a Value,
    pub(crate) params: &'a Value,
    pub(crate) request: &'a Value,
    pub(crate) namespace: &'a Value,
    pub(crate) user: &'a User,
    pub(crate) authority: &'a dyn Authority,
}

/// What a machine is given besides a value: the facts, and the variables composed of them.
#[derive(Default)]
pub(super) struct Given<'a> {
    facts: Option<&'a Facts<'a>>,
    composed: &'a [Composed],
    known: Vec<Option<Out<'a>>>,
    /// What evaluating variables has cost.
    cost: u64,
}

impl<'a> Given<'a> {
    fn of(facts: &'a Facts<'a>, composed: &'a [Composed]) -> Self {
        let known = composed.iter().map(|_| None).collect();
        Self { facts: Some(facts), composed, known, cost: 0 }
    }

    /// The value of an input.
    pub(super) fn input(&self, input: Input) -> Val<'a> {
        let Some(facts) = self.facts else { return Val::Null };
        let whose = || Whose { authority: facts.authority, user: Rc::new(facts.user.clone()) };
        match input {
            Input::Object => Val::of_data(facts.object),
            Input::OldObject => Val::of_data(facts.old_object),
            Input::Params => Val::of_data(facts.params),
            Input::Request => Val::of_data(facts.request),
            Input::Namespace => Val::of_data(facts.namespace),
            Input::Authorizer => Val::Question(Question::Authorizer(whose())),
            Input::RequestResource => {
                let of = |pointer| {
                    facts.request.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
                };
                let resource = Resource {
                    group: of("/requestResource/group").to_owned(),
                    resource: of("/requestResource/resource").to_owned(),
                    subresource: of("/subResource").to_owned(),
                    namespace: of("/namespace").to_owned(),
                    name: of("/name").to_owned(),
                    field_selector: String::new(),
                };
                Val::Question(Question::Resource(whose(), Rc::new(resource)))
            }
        }
    }
}

impl<'a> Machine<'a> {
    /// The value of a composed variable.
    pub(super) fn composed(&mut self, place: usize) -> Out<'a> {
        if let Some(Some(known)) = self.given.known.get(place) {
            return known.clone();
        }
        let composed: &'a [Composed] = self.given.composed;
        let Some(one) = composed.get(place) else { return fail("no such attribute(s)") };
        let value = match &one.program {
            Err(complaint) => {
                fail(format!("composited variable {:?} fails to compile: {complaint}", one.name))
            }
            Ok(program) => {
                let outside = (std::mem::take(&mut self.meter), std::mem::take(&mut self.locals));
                let value = self.eval(&program.root);
                let cost = self.meter.cost;
                (self.meter, self.locals) = outside;
                self.given.cost = self.given.cost.saturating_add(cost);
                value.map_err(|why| match why {
                    Fail::Error(why) => Fail::Error(format!(
                        "composited variable {:?} fails to evaluate: {why}",
                        one.name
                    )),
                    Fail::Cost => Fail::Cost,
                })
            }
        };
        if let Some(slot) = self.given.known.get_mut(place) {
            *slot = Some(value.clone());
        }
        value
    }

    /// All composed variables, for an expression that wants the map itself.
    pub(super) fn variables(&mut self) -> Out<'a> {
        let mut entries = Entries::new();
        let composed: &'a [Composed] = self.given.composed;
        for (place, one) in composed.iter().enumerate() {
            let value = self.composed(place)?;
            entries.insert(Key::Str(one.name.as_str().into()), (Val::string(&*one.name), value));
        }
        Ok(Val::Map(Map::Vals(Rc::new(entries))))
    }
}

/// The type by which a variable is known to others: what Kubernetes can declare, or `dyn`.
fn declared(ty: &Ty) -> Ty {
    match ty {
        Ty::Bool
        | Ty::Bytes
        | Ty::Double
        | Ty::Duration
        | Ty::Int
        | Ty::Null
        | Ty::String
        | Ty::Timestamp
        | Ty::Uint => ty.clone(),
        Ty::List(of) => Ty::list(declared(of)),
        Ty::Map(kv) => Ty::map(declared(&kv.0), declared(&kv.1)),
        _ => Ty::Dyn,
    }
}

/// A type as the reference's Go code prints it outside of the checker.
fn go_name(ty: &Ty) -> String {
    match ty {
        Ty::Null => "null_type".to_owned(),
        Ty::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Ty::Duration => "google.protobuf.Duration".to_owned(),
        Ty::List(of) => format!("list({})", go_name(of)),
        Ty::Map(kv) => format!("map({}, {})", go_name(&kv.0), go_name(&kv.1)),
        other => other.to_string(),
    }
}

fn of_shape(shape: Shape) -> Decl {
    Decl { shape, nullable: false, max_elements: MAX_REQUEST_BYTES, min_size: 2 }
}

fn any() -> Decl {
    of_shape(Shape::Any)
}

fn text() -> Decl {
    of_shape(Shape::String)
}

fn texts() -> Decl {
    list(text())
}

fn list(items: Decl) -> Decl {
    of_shape(Shape::List { items: Arc::new(items), merge: Merge::Atomic })
}

fn map(values: Decl) -> Decl {
    of_shape(Shape::Map(Arc::new(values)))
}

fn object_of(fields: Vec<(&str, Decl)>) -> Decl {
    let mut object = Object::default();
    for (name, decl) in fields {
        object.fields.insert(name.to_owned(), Arc::new(decl));
        object.visible.insert(name.to_owned(), name.to_owned());
    }
    of_shape(Shape::Object(object))
}

/// The type of `request`.
static REQUEST: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let kind = || object_of(vec![("group", text()), ("version", text()), ("kind", text())]);
    let resource = || object_of(vec![("group", text()), ("version", text()), ("resource", text())]);
    let user = object_of(vec![
        ("username", text()),
        ("uid", text()),
        ("groups", texts()),
        ("extra", map(texts())),
    ]);
    Arc::new(object_of(vec![
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", text()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", user),
        ("dryRun", of_shape(Shape::Bool)),
        ("options", any()),
    ]))
});

/// The type of `namespaceObject`; `UID` is spelled so there.
static NAMESPACE: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let time = || of_shape(Shape::DateTime);
    let number = || of_shape(Shape::Int);
    let condition = object_of(vec![
        ("status", text()),
        ("type", text()),
        ("lastTransitionTime", time()),
        ("message", text()),
        ("reason", text()),
    ]);
    let metadata = object_of(vec![
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", map(text())),
        ("annotations", map(text())),
        ("UID", text()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("deletionTimestamp", time()),
        ("generation", number()),
        ("resourceVersion", text()),
        ("finalizers", texts()),
    ]);
    Arc::new(object_of(vec![
        ("metadata", metadata),
        ("spec", object_of(vec![("finalizers", texts())])),
        ("status", object_of(vec![("conditions", list(condition)), ("phase", text())])),
    ]))
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::authz::{Attributes, Decision};
    use crate::selector::FieldSelector;

    struct Nobody;

    impl Authority for Nobody {
        fn judge(&self, _: &User, what: &Attributes<'_>, _: Option<&FieldSelector>) -> Decision {
            let reason = "because".to_owned();
            if what.verb == "get" {
                Decision::Allow { reason }
            } else {
                Decision::NoOpinion { reason }
            }
        }
    }

    fn run(environment: &Environment, sources: &[&str]) -> Result<Vec<Outcome>, String> {
        let compiled: Result<Vec<Expression>, String> =
            sources.iter().map(|s| environment.compile(s, Gives::Anything, true)).collect();
        let compiled = compiled?;
        let expressions: Vec<Option<&Expression>> = compiled.iter().map(Some).collect();
        let object = json!({"metadata": {"name": "a", "namespace": "n"}, "list": [1, 2.5, "x"]});
        let request = json!({"operation": "CREATE", "requestResource": {"resource": "pods"}});
        let facts = Facts {
            object: &object,
            old_object: &Value::Null,
            params: &Value::Null,
            request: &request,
            namespace: &Value::Null,
            user: &User::default(),
            authority: &Nobody,
        };
        let outcomes = environment.run(&expressions, &facts, &mut BUDGET.clone());
        Ok(outcomes.map_err(|_| OUT_OF_BUDGET.to_owned())?.into_iter().flatten().collect())
    }

    #[test]
    fn expressions_see_the_request() {
        let mut environment = Environment::new(true, true);
        environment.compose("size", "object.list.size()").unwrap();
        environment.compose("twice", "variables.size * 2").unwrap();
        environment.compose("broken", "object.nothing").unwrap();
        let sources = [
            "object.metadata.namespace + '/' + object.metadata.name",
            "oldObject == null && params == null && namespaceObject == null",
            "variables.twice == 6 && has(object.list) && !has(object.other)",
            "request.operation",
            "authorizer.requestResource.check('get').allowed()",
            "authorizer.group('apps').resource('deployments').check('list').reason()",
            "variables.broken",
            "object.list.map(x, type(x) == int)[0]",
        ];
        let outcomes = run(&environment, &sources).unwrap();
        let broken = "expression 'variables.broken' resulted in error: composited variable \"broken\" fails to evaluate: no such key: nothing";
        assert_eq!(
            outcomes,
            [
                Outcome::Text("n/a".to_owned()),
                Outcome::Bool(true),
                Outcome::Bool(true),
                Outcome::Text("CREATE".to_owned()),
                Outcome::Bool(true),
                Outcome::Text("because".to_owned()),
                Outcome::Failed(broken.to_owned()),
                Outcome::Bool(true),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        let environment = Environment::new(false, false);
        let complaint = |source| environment.compile(source, Gives::Bool, false).unwrap_err();
        assert_eq!(complaint("1"), "must evaluate to bool but got int");
        assert_eq!(complaint("object.x"), "must evaluate to bool but got dyn");
        assert!(complaint("params.x").contains("undeclared reference to 'params'"));
        assert!(complaint("authorizer.path('/')").contains("undeclared reference to 'authorizer'"));
        assert!(complaint("request.nothing").contains("undefined field 'nothing'"));
    }

    #[test]
    fn a_list_is_held_to_its_budget() {
        let environment = Environment::new(false, false);
        // Each asks as much as one evaluation may.
        let ask = "authorizer.path('/a').check('get').allowed() && authorizer.path('/b').check('get').allowed()";
        assert_eq!(run(&environment, &[ask; 14]).unwrap().len(), 14);
        assert_eq!(run(&environment, &[ask; 15]).unwrap_err(), OUT_OF_BUDGET);
        let thrice = format!("{ask} && authorizer.path('/c').check('get').allowed()");
        let failed = run(&environment, &[&thrice]).unwrap();
        assert!(
            matches!(&failed[0], Outcome::Failed(why) if why.ends_with("actual cost limit exceeded"))
        );
    }
}
