//! The operations that a resource has, as both versions of OpenAPI describe them.
//!
//! Made from the resource table alone. Identifiers, tags, parameters and answers are those that a
//! kube-apiserver publishes. Upstream's sentences about operations and parameters are left out.

use super::names;
use crate::resource::{Resource, Table, Version, group_version};

/// A path, and what may be done there.
#[derive(Debug)]
pub(super) struct PathItem {
    pub(super) path: String,
    pub(super) operations: Vec<Operation>,
}

/// One method of a path.
#[derive(Debug)]
pub(super) struct Operation {
    /// In lower case.
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    /// What a resource's operation does, and the kind that it is about.
    pub(super) action: Option<(&'static str, Gvk)>,
    /// Sorted by name.
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    /// Codes and the names of the definitions that are answered.
    pub(super) answers: Vec<(u16, String)>,
    pub(super) produces: Vec<&'static str>,
    /// Media types of bodies, said by version 2 even where there is none.
    pub(super) consumes: &'static [&'static str],
}

/// A request's body.
#[derive(Debug)]
pub(super) struct Body {
    /// The name of its definition.
    pub(super) definition: String,
    pub(super) required: bool,
}

/// A kind by its full name.
#[derive(Debug, Clone)]
pub(super) struct Gvk {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// A parameter in the path or the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) in_path: bool,
    pub(super) type_: &'static str,
}

const fn query(name: &'static str, type_: &'static str) -> Parameter {
    Parameter { name, in_path: false, type_ }
}

const fn path(name: &'static str) -> Parameter {
    Parameter { name, in_path: true, type_: "string" }
}

const PRETTY: Parameter = query("pretty", "string");
const LIST: &[Parameter] = &[
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("timeoutSeconds", "integer"),
];
const WATCH: &[Parameter] = &[query("allowWatchBookmarks", "boolean"), query("watch", "boolean")];
const WRITE: &[Parameter] = &[
    query("dryRun", "string"),
    query("fieldManager", "string"),
    query("fieldValidation", "string"),
];
const FORCE: &[Parameter] = &[query("force", "boolean")];
const DELETE: &[Parameter] = &[
    query("dryRun", "string"),
    query("gracePeriodSeconds", "integer"),
    query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
];
const REVISION: &[Parameter] = &[query("resourceVersion", "string")];

/// The media types that this server writes; those of watches come on top.
pub(super) const PRODUCES: [&str; 2] = ["application/json", "application/yaml"];
const STREAM: &str = "application/json;stream=watch";
const ANY_BODY: &[&str] = &["*/*"];
const CUSTOM_BODY: &[&str] = &PRODUCES;
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const CUSTOM_PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// Built-in resources that answer a deletion with what was deleted.
const RETURNS_DELETED: &[(&str, &str)] = &[
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// A path that answers GET with one document of discovery.
pub(super) fn document(
    path: String,
    id: String,
    tag: String,
    definition: &str,
    produces: &'static [&'static str],
) -> PathItem {
    let operation = Operation {
        method: "get",
        id,
        tag,
        action: None,
        parameters: Vec::new(),
        body: None,
        answers: vec![(200, definition.to_owned())],
        produces: produces.to_vec(),
        consumes: produces,
    };
    PathItem { path, operations: vec![operation] }
}

/// The paths of a group version, by path.
pub(super) fn of_version(table: &Table, group: &str, version: &str) -> Vec<PathItem> {
    let mut items = Vec::new();
    let mut built_in = false;
    for resource in table.iter().filter(|r| r.group == group) {
        let Some(version) = resource.version(version) else { continue };
        built_in |= !resource.is_custom();
        Maker::new(resource, version).paths(&mut items);
    }
    if built_in {
        let (tag, title) = (names::tag(group, Some(version)), names::title(group, Some(version)));
        let path = format!("{}/", names::root(group, version));
        items.push(document(
            path,
            format!("get{title}APIResources"),
            tag,
            &names::meta("APIResourceList"),
            &PRODUCES,
        ));
    }
    items.sort_by(|a, b| a.path.cmp(&b.path));
    items
}

/// What the operations of one resource have in common.
struct Maker<'a> {
    resource: &'a Resource,

    root: String,
    title: String,
    tag: String,
    own: Gvk,
    object: String,
    list: String,
}

impl<'a> Maker<'a> {
    fn new(resource: &'a Resource, version: &'a Version) -> Self {
        let (group, name) = (resource.group.as_str(), version.name.as_str());
        Self {
            resource,
            root: names::root(group, name),
            title: names::title(group, Some(name)),
            tag: names::tag(group, Some(name)),
            own: Gvk {
                group: group.to_owned(),
                version: name.to_owned(),
                kind: resource.kind.clone(),
            },
            object: names::definition(resource, name, &resource.kind),
            list: names::definition(resource, name, &resource.list_kind),
        }
    }

    fn has(&self, verb: &str) -> bool {
        self.resource.verbs.iter().any(|v| v == verb)
    }

    fn scope(&self) -> &'static str {
        if self.resource.namespaced { "Namespaced" } else { "" }
    }

    fn place(&self) -> &'static str {
        if self.resource.namespaced { "/namespaces/{namespace}" } else { "" }
    }

    fn paths(&self, items: &mut Vec<PathItem>) {
        let plural = &self.resource.plural;
        let (root, place) = (&self.root, self.place());
        let mut add = |path: String, operations: Vec<Operation>| {
            if !operations.is_empty() {
                items.push(PathItem { path, operations });
            }
        };
        if self.resource.namespaced && self.has("list") {
            let all = self.list("list", String::new(), "ForAllNamespaces", &[]);
            add(format!("{root}/{plural}"), vec![all]);
        }
        add(format!("{root}{place}/{plural}"), self.collection());
        add(format!("{root}{place}/{plural}/{{name}}"), self.one());
        // A log is text that only a kubelet has; no document promises it here.
        for sub in self.resource.subresources.iter().filter(|sub| sub.name != "log") {
            let path = format!("{root}{place}/{plural}/{{name}}/{}", sub.name);
            add(path, self.subresource(sub));
        }
        // Upstream describes the old watch paths of its own kinds only.
        if self.has("watch") && !self.resource.is_custom() {
            let scope = self.scope();
            if self.resource.namespaced {
                let all = self.list("watchlist", String::new(), "ListForAllNamespaces", &[]);
                add(format!("{root}/watch/{plural}"), vec![all]);
            }
            let many = self.list("watchlist", scope.to_owned(), "List", self.above());
            add(format!("{root}/watch{place}/{plural}"), vec![many]);
            let named = [self.above(), &[path("name")]].concat();
            let one = self.list("watch", scope.to_owned(), "", &named);
            add(format!("{root}/watch{place}/{plural}/{{name}}"), vec![one]);
        }
    }

    /// The parameters of the path to the collection.
    fn above(&self) -> &'static [Parameter] {
        const NAMESPACE: &[Parameter] = &[path("namespace")];
        if self.resource.namespaced { NAMESPACE } else { &[] }
    }

    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        id: String,
        parameters: &[&[Parameter]],
    ) -> Operation {
        let mut parameters = parameters.concat();
        parameters.push(PRETTY);
        parameters.sort_unstable();
        Operation {
            method,
            id,
            tag: self.tag.clone(),
            action: Some((action, self.own.clone())),
            parameters,
            body: None,
            answers: Vec::new(),
            produces: PRODUCES.to_vec(),
            consumes: if self.resource.is_custom() { CUSTOM_BODY } else { ANY_BODY },
        }
    }

    /// A list or a watch; `scope` and `suffix` go around the kind in its identifier.
    fn list(
        &self,
        action: &'static str,
        scope: String,
        suffix: &str,
        above: &[Parameter],
    ) -> Operation {
        let (title, kind) = (&self.title, &self.resource.kind);
        let verb = if action == "list" { "list" } else { "watch" };
        let id = format!("{verb}{title}{scope}{kind}{suffix}");
        let mut operation = self.operation("get", action, id, &[above, LIST, WATCH]);
        let definition = if verb == "list" { self.list.clone() } else { names::meta("WatchEvent") };
        operation.answers.push((200, definition));
        if !self.resource.is_custom() {
            operation.produces.push(STREAM);
        }
        operation
    }

    fn collection(&self) -> Vec<Operation> {
        let (title, kind, scope) = (&self.title, &self.resource.kind, self.scope());
        let custom = self.resource.is_custom();
        let mut operations = Vec::new();
        if self.has("list") {
            operations.push(self.list("list", scope.to_owned(), "", self.above()));
        }
        if self.has("create") {
            let id = format!("create{title}{scope}{kind}");
            let mut create = self.operation("post", "post", id, &[self.above(), WRITE]);
            create.body = Some(Body { definition: self.object.clone(), required: true });
            create.answers = [200, 201, 202].map(|code| (code, self.object.clone())).into();
            operations.push(create);
        }
        if self.has("deletecollection") {
            let id = format!("delete{title}Collection{scope}{kind}");
            let special = if custom { WATCH } else { DELETE };
            let mut delete =
                self.operation("delete", "deletecollection", id, &[self.above(), LIST, special]);
            delete.body = (!custom)
                .then(|| Body { definition: names::meta("DeleteOptions"), required: false });
            delete.answers.push((200, names::meta("Status")));
            operations.push(delete);
        }
        operations
    }

    fn one(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for verb in ["get", "update", "patch"] {
            if self.has(verb) {
                operations.extend(self.on_object(verb, "", &self.own, &self.object));
            }
        }
        if self.has("delete") {
            let (title, kind, scope) = (&self.title, &self.resource.kind, self.scope());
            let id = format!("delete{title}{scope}{kind}");
            let above = [self.above(), &[path("name")]].concat();
            let mut delete = self.operation("delete", "delete", id, &[&above, DELETE]);
            delete.body = Some(Body { definition: names::meta("DeleteOptions"), required: false });
            let name = (self.resource.group.as_str(), self.resource.plural.as_str());
            let returns = !self.resource.is_custom() && RETURNS_DELETED.contains(&name);
            let answer = if returns { self.object.clone() } else { names::meta("Status") };
            delete.answers = [200, 202].map(|code| (code, answer.clone())).into();
            operations.push(delete);
        }
        operations
    }

    fn subresource(&self, sub: &crate::resource::Subresource) -> Vec<Operation> {
        let of_own = sub.kind == self.resource.kind && sub.group == self.resource.group;
        let (about, definition) = if of_own {
            (self.own.clone(), self.object.clone())
        } else {
            let api_version = group_version(&sub.group, &sub.version);
            let Some(definition) = crate::builtin::definition_name(&api_version, &sub.kind) else {
                return Vec::new();
            };
            // Upstream calls a custom resource's scale by the resource's kind.
            let about = if self.resource.is_custom() {
                self.own.clone()
            } else {
                Gvk {
                    group: sub.group.clone(),
                    version: sub.version.clone(),
                    kind: sub.kind.clone(),
                }
            };
            (about, definition)
        };
        let suffix = names::capital(&sub.name);
        (sub.verbs.iter())
            .filter_map(|verb| self.on_object(verb, &suffix, &about, &definition))
            .collect()
    }

    /// Reading, replacing and patching: the same on an object and on a part of it.
    fn on_object(
        &self,
        verb: &str,
        suffix: &str,
        about: &Gvk,
        definition: &str,
    ) -> Option<Operation> {
        let custom = self.resource.is_custom();
        let (title, kind, scope) = (&self.title, &self.resource.kind, self.scope());
        let above = [self.above(), &[path("name")]].concat();
        let id = |word: &str| format!("{word}{title}{scope}{kind}{suffix}");
        let body =
            |definition: &str| Some(Body { definition: definition.to_owned(), required: true });
        let answers = |codes: &[u16]| codes.iter().map(|c| (*c, definition.to_owned())).collect();
        let mut operation = match verb {
            "get" => {
                let special = if custom { REVISION } else { &[] };
                let mut get = self.operation("get", "get", id("read"), &[&above, special]);
                get.answers = answers(&[200]);
                get
            }
            "update" => {
                let mut put = self.operation("put", "put", id("replace"), &[&above, WRITE]);
                put.body = body(definition);
                put.answers = answers(&[200, 201]);
                put
            }
            "patch" => {
                let parameters: &[&[Parameter]] = &[&above, WRITE, FORCE];
                let mut patch = self.operation("patch", "patch", id("patch"), parameters);
                patch.body = body(&names::meta("Patch"));
                patch.consumes = if custom { CUSTOM_PATCHES } else { PATCHES };
                patch.answers = answers(if custom { &[200] } else { &[200, 201] });
                patch
            }
            "create" => {
                let mut post = self.operation("post", "post", id("create"), &[&above, WRITE]);
                post.body = body(definition);
                post.answers = answers(&[200, 201, 202]);
                post
            }
            _ => return None,
        };
        operation.action = operation.action.map(|(action, _)| (action, about.clone()));
        Some(operation)
    }
}
