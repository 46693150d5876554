//! Where objects lie in the store: `/GROUP/PLURAL/[NAMESPACE/]NAME`, the core group as `core`.
//!
//! Neither names nor namespaces may hold a slash, so that keys never clash, and a list in key order
//! is a list by namespace and name.

use bytes::Bytes;
use store::KeyRange;

use crate::resource::Resource;

pub(crate) fn object(resource: &Resource, namespace: Option<&str>, name: &str) -> Bytes {
    let mut key = prefix(resource, namespace);
    key.push_str(name);
    key.into()
}

/// Where an object of a core resource lies; an empty namespace for one that has none.
pub(crate) fn core(plural: &str, namespace: &str, name: &str) -> Bytes {
    let separator = if namespace.is_empty() { "" } else { "/" };
    format!("/core/{plural}/{namespace}{separator}{name}").into()
}

/// All objects of a resource, or those in one namespace.
pub(super) fn range(resource: &Resource, namespace: Option<&str>) -> KeyRange {
    KeyRange::prefix(prefix(resource, namespace))
}

pub(crate) fn prefix(resource: &Resource, namespace: Option<&str>) -> String {
    let group = resource.storage_group();
    let group = if group.is_empty() { "core" } else { group };
    let mut key = format!("/{group}/{}/", resource.plural);
    if let Some(namespace) = namespace.filter(|_| resource.namespaced) {
        key.push_str(namespace);
        key.push('/');
    }
    key
}

/// Namespace and name, read back from a key.
pub(super) fn names<'a>(resource: &Resource, key: &'a [u8]) -> (&'a str, &'a str) {
    let key = std::str::from_utf8(key).unwrap_or_default();
    let rest = key.get(prefix(resource, None).len()..).unwrap_or_default();
    if resource.namespaced { rest.split_once('/').unwrap_or(("", rest)) } else { ("", rest) }
}
