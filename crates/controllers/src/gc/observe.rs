//! What there is to know: which kinds are served, and who an object's relatives are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kit::controller::{AnyMeta, Context, Error};
use plan::gc::{FOREGROUND, Item, Kind, Observed, Owner};

use super::GarbageCollector;
use crate::kinds::{Served, discover};

impl GarbageCollector {
    /// The kinds that are served. One whose definition is established and that discovery does not
    /// list yet will be there in a moment.
    pub(super) async fn observe_kinds(&self, context: &Context) -> Result<Vec<Served>, Error> {
        let served = discover(context.client()).await?;
        for definition in self.definitions.list() {
            let conditions = definition.status.iter().flat_map(|s| s.conditions.iter().flatten());
            let mut of = conditions.filter(|c| c.type_ == "Established" && c.status == "True");
            let names = (definition.spec.group.clone(), definition.spec.names.plural.clone());
            let deleting = definition.metadata.deletion_timestamp.is_some();
            if of.next().is_some() && !deleting && !served.contains_key(&names) {
                return Err(Error::not_ready(format!("{}.{} is not served yet", names.1, names.0)));
            }
        }
        Ok(served.into_values().filter(|kind| kind.watched && !kind.is_event()).collect())
    }

    pub(super) async fn observe_object(
        &self,
        context: &Context,
        uid: &str,
    ) -> Result<Option<Observed>, Error> {
        let Some(item) = self.graph().get(uid).cloned() else { return Ok(None) };
        // Who waits for dependents or frees them must know them all.
        if item.deleting {
            let behind = self.kinds().values().find(|kind| !kind.cache.is_synced()).map(|kind| {
                Error::not_ready(format!("{} are not listed yet", kind.served.resource.plural))
            });
            if let Some(error) = behind {
                return Err(error);
            }
        }
        let dependents = self.graph().dependents(&item);
        let (mut owners, mut misplaced) = (Vec::new(), Vec::new());
        if !item.deleting {
            for reference in &item.owners {
                let (owner, elsewhere) = self.owner(context, &item, reference).await?;
                owners.push((reference.clone(), owner));
                misplaced.extend(elsewhere.then(|| reference.clone()));
            }
        }
        Ok(Some(Observed { item, owners, misplaced, dependents }))
    }

    /// What is known of an owner, and whether it is in a namespace where it cannot own the object.
    async fn owner(
        &self,
        context: &Context,
        item: &Item,
        reference: &OwnerReference,
    ) -> Result<(Owner, bool), Error> {
        let seen = self.graph().get(&reference.uid).cloned();
        let elsewhere = seen.as_ref().is_some_and(|owner| {
            !owner.place.namespace.is_empty() && owner.place.namespace != item.place.namespace
        });
        let kind = Kind::of(reference);
        let wanted = self.kinds().get(&kind).map(|followed| followed.served.clone());
        let Some(served) = wanted else { return Ok((Owner::Unknown, elsewhere)) };
        if let Some(owner) = seen
            .filter(|owner| !elsewhere && owner.kind == kind && owner.place.name == reference.name)
        {
            return Ok((state(owner.deleting, owner.has(FOREGROUND)), false));
        }
        if served.namespaced && item.place.namespace.is_empty() {
            // Where it would have to be, nobody can say.
            return Ok((Owner::Unknown, true));
        }
        let place = ObjectMeta {
            name: Some(reference.name.clone()),
            namespace: served.namespaced.then(|| item.place.namespace.clone()),
            ..ObjectMeta::default()
        };
        let live = context.get::<AnyMeta>(&served.resource, &place).await?;
        Ok(match live.filter(|live| live.metadata.uid.as_deref() == Some(&reference.uid)) {
            None => (Owner::Absent, elsewhere),
            Some(live) => {
                let finalizers = live.metadata.finalizers.iter().flatten();
                let foreground = finalizers.into_iter().any(|finalizer| finalizer == FOREGROUND);
                (state(live.metadata.deletion_timestamp.is_some(), foreground), elsewhere)
            }
        })
    }
}

fn state(deleting: bool, foreground: bool) -> Owner {
    if deleting && foreground { Owner::Waiting } else { Owner::Solid }
}
