//! From a stored CRD to a served resource, and back when it goes.
//!
//! Run by whichever request wrote a CRD, one at a time, until there is nothing left to do: so the
//! resource is served once the write is answered, without a controller that could lag behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};

use serde_json::json;

use super::{ApiServer, read, write};
use crate::auth::User;
use crate::crd;
use crate::registry::{Object, is_deleting, meta, strings, text};
use crate::resource::{Origin, Resource};
use crate::status::ApiError;

/// What has been seen of the CRDs: the revision of each when it was last acted on.
#[derive(Default)]
pub(super) struct Definitions {
    seen: tokio::sync::Mutex<BTreeMap<String, String>>,
    /// Those that wait for the last of their objects to go.
    ending: RwLock<BTreeSet<String>>,
}

/// The name under which the server itself changes objects.
fn itself() -> User {
    User { name: "system:apiserver".to_owned(), ..User::default() }
}

impl ApiServer {
    /// Acts on every CRD that changed since the last time.
    pub(super) async fn follow_definitions(&self) -> Result<(), ApiError> {
        let mut seen = self.0.definitions.seen.lock().await;
        let Some(resource) = self.definitions_resource() else { return Ok(()) };
        loop {
            let objects = self.read_all(&resource)?;
            let gone: Vec<String> = (seen.keys())
                .filter(|name| !objects.iter().any(|o| text(meta(o), "name") == *name))
                .cloned()
                .collect();
            for name in gone {
                seen.remove(&name);
                write(&self.0.definitions.ending).remove(&name);
                self.change_table(|table| table.remove_definition(&name));
            }
            let changed = objects.iter().find(|object| {
                let metadata = meta(object);
                seen.get(text(metadata, "name")).map(String::as_str)
                    != Some(text(metadata, "resourceVersion"))
            });
            let Some(object) = changed else { return Ok(()) };
            let metadata = meta(object);
            seen.insert(
                text(metadata, "name").to_owned(),
                text(metadata, "resourceVersion").to_owned(),
            );
            self.follow_definition(&resource, object, &objects).await?;
        }
    }

    async fn follow_definition(
        &self,
        resource: &Arc<Resource>,
        object: &Object,
        all: &[Object],
    ) -> Result<(), ApiError> {
        let name = text(meta(object), "name");
        if is_deleting(object) {
            write(&self.0.definitions.ending).insert(name.to_owned());
            self.serve(object);
            return self.clean_up(resource, object).await;
        }
        write(&self.0.definitions.ending).remove(name);
        let group = |o: &Object| o.get("spec").and_then(|s| s.get("group")).cloned();
        let others: Vec<&Object> = (all.iter())
            .filter(|o| text(meta(o), "name") != name && group(o) == group(object))
            .collect();
        let status = crd::establish(object, &others, &self.now());
        if object.get("status") != Some(&status) {
            let user = itself();
            let mut call = self.own_call(&user, resource, None, Some(name), Some("status"));
            call.merge(json!({"status": status})).await?;
            // The write has a revision of its own and is looked at in the next round.
            return Ok(());
        }
        self.serve(object);
        Ok(())
    }

    fn serve(&self, object: &Object) {
        let name = text(meta(object), "name");
        let served = crd::resource(object);
        self.change_table(|table| {
            table.remove_definition(name);
            if let Some(resource) = served {
                table.insert(resource);
            }
        });
    }

    /// Deletes the objects of a CRD that is being deleted, then lets it go.
    async fn clean_up(&self, resource: &Arc<Resource>, object: &Object) -> Result<(), ApiError> {
        if !strings(meta(object), "finalizers").contains(&crd::CLEANUP) {
            return Ok(());
        }
        let user = itself();
        let name = text(meta(object), "name");
        let mut noted = object.clone();
        crd::Deletion::InProgress.note(&mut noted, &self.now());
        if noted.get("status") != object.get("status") {
            let mut call = self.own_call(&user, resource, None, Some(name), Some("status"));
            // The write has a revision of its own and brings the CRD here again.
            return call.merge(json!({"status": noted.get("status")})).await;
        }
        if let Some(instances) = self.instances(name) {
            let mut call = self.own_call(&user, &instances, None, None, None);
            call.delete_all().await?;
            if !self.read_all(&instances)?.is_empty() {
                // Finalizers hold some back; the write that removes the last one comes here again.
                return Ok(());
            }
        }
        let came_to = match crd::is_established(object) {
            true => crd::Deletion::Completed,
            false => crd::Deletion::NeverEstablished,
        };
        came_to.note(&mut noted, &self.now());
        let finalizers: Vec<&str> = strings(meta(object), "finalizers")
            .into_iter()
            .filter(|f| *f != crd::CLEANUP)
            .collect();
        let mut call = self.own_call(&user, resource, None, Some(name), Some("status"));
        let status = noted.get("status");
        call.merge(json!({"status": status, "metadata": {"finalizers": finalizers}})).await
    }

    /// An object of a custom resource was written; its CRD may be waiting for the last one to go.
    pub(super) async fn follow_instances(&self, resource: &Resource) -> Result<(), ApiError> {
        let Origin::Custom { definition, .. } = &resource.origin else { return Ok(()) };
        if !read(&self.0.definitions.ending).contains(definition) {
            return Ok(());
        }
        let object =
            self.read("apiextensions.k8s.io", "customresourcedefinitions", None, definition)?;
        let Some(object) = object.filter(is_deleting) else { return Ok(()) };
        let Some(definitions) = self.definitions_resource() else { return Ok(()) };
        self.clean_up(&definitions, &object).await?;
        self.follow_definitions().await
    }

    fn definitions_resource(&self) -> Option<Arc<Resource>> {
        self.table().get("apiextensions.k8s.io", "customresourcedefinitions").cloned()
    }

    fn instances(&self, definition: &str) -> Option<Arc<Resource>> {
        let table = self.table();
        let of = |r: &&Arc<Resource>| matches!(&r.origin, Origin::Custom { definition: d, .. } if d == definition);
        table.iter().find(of).cloned()
    }

    fn change_table(&self, change: impl FnOnce(&mut crate::resource::Table)) {
        let mut current = write(&self.0.table);
        let mut table = (**current).clone();
        change(&mut table);
        *current = Arc::new(table);
    }
}
