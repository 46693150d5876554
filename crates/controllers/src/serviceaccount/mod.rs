//! Every namespace has a service account `default`, without which no pod is admitted to it.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use plan::serviceaccount::{NAME, Observed};

/// See the module.
pub struct ServiceAccounts {
    namespaces: Cache<Namespace>,
    accounts: Cache<ServiceAccount>,
}

impl Controller for ServiceAccounts {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = bool;
    const NAME: &'static str = "serviceaccount";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Keeps the service account `default` in every namespace").may(
            &["create"],
            "",
            &["serviceaccounts"],
        );
        let namespaces = wiring.own(Watch::<Namespace>::all());
        let defaults = Watch::<ServiceAccount>::all().fields(format!("metadata.name={NAME}"));
        let accounts = wiring
            .watch(defaults, |account| account.metadata.namespace.as_ref().map(ObjectKey::cluster));
        Self { namespaces, accounts }
    }

    async fn observe(&self, _: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(None) };
        Ok(Some(Observed {
            active: namespace.metadata.deletion_timestamp.is_none(),
            present: self.accounts.get(&ObjectKey::new(&key.name, NAME)).is_some(),
        }))
    }

    fn plan(observed: &Observed) -> bool {
        plan::serviceaccount::plan(*observed)
    }

    async fn apply(&self, context: &Context, key: &ObjectKey, create: bool) -> Result<Wake, Error> {
        if create {
            let mut account = ServiceAccount::default();
            account.metadata.name = Some(NAME.to_owned());
            account.metadata.namespace = Some(key.name.clone());
            match context.create(&account).await {
                // Our cache is behind, or the namespace has gone meanwhile.
                Err(error) if error.already_exists() || error.is_not_found() => {}
                other => drop(other?),
            }
        }
        Ok(Wake::Never)
    }
}
