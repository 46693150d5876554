//! Objects between the versions of their resource and the store.
//!
//! Most objects are shown as they are stored. Not so those of another version than the stored one,
//! nor any once their CRD has been changed: what was stored before may not fit the schemas of now.

use serde_json::Value;

use crate::resource::{Origin, Resource, Version, group_version};
use crate::sabotage::Sabotage;
use crate::schema::convert;

impl Resource {
    /// Whether a version shows objects just as they are stored.
    pub(crate) fn shows_as_stored(&self, version: usize) -> bool {
        version == self.storage
            && self.alias.is_none()
            && !matches!(self.origin, Origin::Custom { revised: true, .. })
    }

    /// Gives a stored object, which says in which version it was stored, the form in which a version
    /// shows it.
    pub(crate) fn show(&self, version: usize, object: &mut Value) {
        let Some(shown) = self.versions.get(version) else { return };
        let shown =
            if Sabotage::StoredVersionShown.is_planted() { self.storage_version() } else { shown };
        if let Some(alias) = self.alias {
            let api_version = group_version(&self.group, &shown.name);
            return alias.show(&api_version, &self.kind, object);
        }
        if self.is_custom() && !self.shows_as_stored(version) {
            let stored = self.version_of(object).unwrap_or_else(|| self.storage_version());
            if let (Some(from), Some(to)) = (&*stored.schema, &*shown.schema) {
                match stored.name == shown.name {
                    true => convert::to_storage(from, object),
                    false => convert::from_storage(from, to, object),
                }
            }
        }
        self.set_version(shown, object);
    }

    /// Gives an object, in whatever version, the form in which it is stored.
    pub(crate) fn store(&self, object: &mut Value) {
        if let Some(alias) = self.alias {
            return alias.store(&self.kind, object);
        }
        let stored = self.storage_version();
        let is_stored = self.version_of(object).is_some_and(|sent| sent.name == stored.name);
        if self.is_custom()
            && !is_stored
            && let Some(storage) = &*stored.schema
        {
            convert::to_storage(storage, object);
        }
        self.set_version(stored, object);
    }

    /// The version that an object says it is in.
    fn version_of(&self, object: &Value) -> Option<&Version> {
        let said = object.get("apiVersion")?.as_str()?;
        self.versions.iter().find(|one| group_version(&self.group, &one.name) == said)
    }

    fn set_version(&self, version: &Version, object: &mut Value) {
        if let Value::Object(object) = object {
            let version = group_version(&self.group, &version.name);
            object.insert("apiVersion".to_owned(), version.into());
        }
    }
}
