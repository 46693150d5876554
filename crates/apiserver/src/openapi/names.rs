//! Names in OpenAPI documents: of definitions, operations and tags.

use crate::builtin;
use crate::resource::{Resource, group_version};

/// The definition of a kind of `meta.v1`.
pub(super) fn meta(kind: &str) -> String {
    format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")
}

/// The definition of a resource's kind, or of its list's.
pub(super) fn definition(resource: &Resource, version: &str, kind: &str) -> String {
    let api_version = group_version(&resource.group, version);
    let built_in = || builtin::definition_name(&api_version, kind);
    match resource.is_custom() {
        false => built_in(),
        true => None,
    }
    .unwrap_or_else(|| custom(&resource.group, version, kind))
}

/// The definition of a custom kind: its group backwards, as packages are named.
fn custom(group: &str, version: &str, kind: &str) -> String {
    let parts: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", parts.join("."))
}

/// The path under which a group version's resources lie.
pub(super) fn root(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// A group and its version as a part of operation identifiers, such as `BatchV1`.
pub(super) fn title(group: &str, version: Option<&str>) -> String {
    let version = version.map(|v| identifier(v, true)).unwrap_or_default();
    identifier(short(group), true) + &version
}

/// A group and its version as a tag, such as `batch_v1`.
pub(super) fn tag(group: &str, version: Option<&str>) -> String {
    let group = identifier(short(group), false);
    match version {
        Some(version) => format!("{group}_{}", identifier(version, false)),
        None => group,
    }
}

fn short(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.trim_end_matches(".k8s.io") }
}

/// A word with a capital letter.
pub(super) fn capital(word: &str) -> String {
    identifier(word, true)
}

/// Letters and digits only; what follows anything else becomes a capital.
fn identifier(text: &str, mut capitalise: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, c) in text.char_indices() {
        if c.is_alphabetic() || c == '_' || (i != 0 && c.is_numeric()) {
            if capitalise {
                out.extend(c.to_uppercase());
            } else {
                out.push(c);
            }
            capitalise = false;
        } else {
            capitalise = true;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_as_upstream_names_them() {
        for (group, version, want) in [
            ("", "v1", ("CoreV1", "core_v1", "/api/v1")),
            ("batch", "v1", ("BatchV1", "batch_v1", "/apis/batch/v1")),
            (
                "rbac.authorization.k8s.io",
                "v1",
                (
                    "RbacAuthorizationV1",
                    "rbacAuthorization_v1",
                    "/apis/rbac.authorization.k8s.io/v1",
                ),
            ),
            (
                "oa-x.test",
                "v1beta1",
                ("OaXTestV1beta1", "oaXTest_v1beta1", "/apis/oa-x.test/v1beta1"),
            ),
        ] {
            let (title, tag, root) =
                (title(group, Some(version)), tag(group, Some(version)), root(group, version));
            assert_eq!((title.as_str(), tag.as_str(), root.as_str()), want);
        }
        assert_eq!(custom("a.example.com", "v1", "Thing"), "com.example.a.v1.Thing");
    }
}
