//! The `authorizer` of admission expressions: questions about rights, built up call by call.
//!
//! Guarantees: a question is answered by whoever authorizes requests here, and each answer has
//! Kubernetes' high price, so that no expression asks more than twice. Of selectors only a field
//! selector narrows a question, as in the server's own judgement.

use std::fmt;
use std::rc::Rc;

use super::meter::{Meter, fail, no_overload};
use super::value::{Out, Val};
use crate::auth::authz::{Attributes, Decision, Target};
use crate::auth::{SERVICE_ACCOUNT_PREFIX, User, service_account_groups};
use crate::schema::names;
use crate::selector::FieldSelector;

/// Who judges whether somebody may do something.
pub(crate) trait Authority: Sync {
    /// Judges one attempt; a selector narrows one on a whole collection.
    fn judge(
        &self,
        user: &User,
        attributes: &Attributes<'_>,
        selector: Option<&FieldSelector>,
    ) -> Decision;
}

/// A step of a question about rights.
#[derive(Clone)]
pub(super) enum Question<'a> {
    /// About somebody.
    Authorizer(Whose<'a>),
    /// About a path.
    Path(Whose<'a>, Rc<str>),
    /// About an API group.
    Group(Whose<'a>, Rc<str>),
    /// About a resource.
    Resource(Whose<'a>, Rc<Resource>),
    /// What was answered.
    Answer(Rc<Decision>),
}

/// Whose rights, and who judges.
#[derive(Clone)]
pub(super) struct Whose<'a> {
    pub(super) authority: &'a dyn Authority,
    pub(super) user: Rc<User>,
}

/// The resource of a question.
#[derive(Clone, Default)]
pub(super) struct Resource {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) field_selector: String,
}

impl fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

impl Question<'_> {
    /// The name of the type of the step.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Path(..) => "kubernetes.authorization.PathCheck",
            Self::Group(..) => "kubernetes.authorization.GroupCheck",
            Self::Resource(..) => "kubernetes.authorization.ResourceCheck",
            Self::Answer(_) => "kubernetes.authorization.Decision",
        }
    }
}

fn ask(question: Question<'_>) -> Out<'_> {
    Ok(Val::Question(question))
}

/// `authorizer.path(path)`.
pub(super) fn path<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Question(Question::Authorizer(whose)), Val::Str(path)] = args else {
        return no_overload();
    };
    if path.trim().is_empty() {
        return fail("path must not be empty");
    }
    ask(Question::Path(whose.clone(), (&**path).into()))
}

/// `authorizer.group(group)`.
pub(super) fn group<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Question(Question::Authorizer(whose)), Val::Str(group)] = args else {
        return no_overload();
    };
    ask(Question::Group(whose.clone(), (&**group).into()))
}

/// `authorizer.serviceAccount(namespace, name)`.
pub(super) fn service_account<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Question(Question::Authorizer(whose)), Val::Str(namespace), Val::Str(name)] = args
    else {
        return no_overload();
    };
    if !names::subdomain(name).is_empty() {
        return fail("Invalid service account name");
    }
    if !names::label(namespace).is_empty() {
        return fail("Invalid service account namespace");
    }
    let user = User {
        name: format!("{SERVICE_ACCOUNT_PREFIX}{}:{}", &**namespace, &**name),
        groups: service_account_groups(namespace),
        ..User::default()
    };
    ask(Question::Authorizer(Whose { authority: whose.authority, user: Rc::new(user) }))
}

/// `group.resource(resource)`.
pub(super) fn resource<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Question(Question::Group(whose, group)), Val::Str(resource)] = args else {
        return no_overload();
    };
    if resource.trim().is_empty() {
        return fail("resource must not be empty");
    }
    let (group, resource) = (group.to_string(), resource.to_string());
    let resource = Resource { group, resource, ..Resource::default() };
    ask(Question::Resource(whose.clone(), Rc::new(resource)))
}

fn refined<'a>(args: &[Val<'a>], set: fn(&mut Resource, String)) -> Out<'a> {
    let [Val::Question(Question::Resource(whose, resource)), Val::Str(text)] = args else {
        return no_overload();
    };
    let mut resource = (**resource).clone();
    set(&mut resource, text.to_string());
    ask(Question::Resource(whose.clone(), Rc::new(resource)))
}

/// `resource.subresource(subresource)`.
pub(super) fn subresource<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    refined(args, |resource, text| resource.subresource = text)
}

/// `resource.namespace(namespace)`.
pub(super) fn namespace<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    refined(args, |resource, text| resource.namespace = text)
}

/// `resource.name(name)`.
pub(super) fn name<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    refined(args, |resource, text| resource.name = text)
}

/// `resource.fieldSelector(selector)`.
pub(super) fn field_selector<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    refined(args, |resource, text| resource.field_selector = text)
}

/// `resource.labelSelector(selector)`: nobody here judges by labels.
pub(super) fn label_selector<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    refined(args, |_, _| {})
}

/// `path.check(verb)` and `resource.check(verb)`.
pub(super) fn check<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let decision = match args {
        [Val::Question(Question::Path(whose, path)), Val::Str(verb)] => {
            let attributes = Attributes { verb, target: Target::Path(path) };
            whose.authority.judge(&whose.user, &attributes, None)
        }
        [Val::Question(Question::Resource(whose, resource)), Val::Str(verb)] => {
            let target = Target::Resource {
                group: &resource.group,
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
            };
            let selector = FieldSelector::parse(&resource.field_selector).ok();
            let selector = selector.filter(|selector| !selector.is_empty());
            let attributes = Attributes { verb, target };
            whose.authority.judge(&whose.user, &attributes, selector.as_ref())
        }
        _ => return no_overload(),
    };
    ask(Question::Answer(Rc::new(decision)))
}

fn answer<'v, 'a>(args: &'v [Val<'a>]) -> Option<&'v Decision> {
    match args {
        [Val::Question(Question::Answer(decision))] => Some(decision),
        _ => None,
    }
}

/// `decision.allowed()`.
pub(super) fn allowed<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let Some(decision) = answer(args) else { return no_overload() };
    Ok(Val::Bool(matches!(decision, Decision::Allow { .. })))
}

/// `decision.reason()`.
pub(super) fn reason<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match answer(args) {
        Some(Decision::Allow { reason } | Decision::NoOpinion { reason }) => {
            Ok(Val::string(reason.as_str()))
        }
        None => no_overload(),
    }
}

/// `decision.errored()`: judging cannot fail here.
pub(super) fn errored<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    if answer(args).is_some() { Ok(Val::Bool(false)) } else { no_overload() }
}

/// `decision.error()`, which is always empty.
pub(super) fn error<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    if answer(args).is_some() { Ok(Val::string("")) } else { no_overload() }
}
