//! The end of namespaces: their content is deleted in order, then they go.
//!
//! What is left is known from the same metadata watches that the garbage collector keeps, so nothing
//! is polled: the deletion of the last object is what wakes the controller. Before a namespace goes,
//! every kind in it is listed once more, since a watch may be behind.

mod apply;
mod observe;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Namespace;
use kit::controller::{
    Adder, AnyMeta, Cache, Context, Controller, Error, ObjectKey, Opener, Wake, Watch, Wiring,
};

use crate::kinds::Served;

/// See the module.
pub struct Namespaces {
    namespaces: Cache<Namespace>,
    /// The caches that already wake this controller, by group and plural.
    followed: Mutex<BTreeMap<(String, String), Cache<AnyMeta>>>,
    opener: Opener,
    adder: Adder<ObjectKey>,
}

/// A namespace that ends, and what is left in it.
pub struct Observed {
    namespace: Arc<Namespace>,
    kinds: Vec<Served>,
    content: plan::namespace::Observed,
}

/// What shall be done about it.
pub struct Plan {
    namespace: Arc<Namespace>,
    kinds: Vec<Served>,
    end: plan::namespace::Plan,
}

impl Controller for Namespaces {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "namespace";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Empties namespaces that are deleted, and lets them go")
            .may(&["list", "watch", "delete", "deletecollection"], "*", &["*"])
            .may(&["patch"], "", &["namespaces/status"])
            .may(&["update"], "", &["namespaces/finalize"]);
        let namespaces = wiring.own(Watch::<Namespace>::all());
        Self {
            namespaces,
            followed: Mutex::default(),
            opener: wiring.opener(),
            adder: wiring.adder(),
        }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        self.observe_end(context, key).await
    }

    fn plan(observed: &Observed) -> Plan {
        Plan {
            namespace: Arc::clone(&observed.namespace),
            kinds: observed.kinds.clone(),
            end: plan::namespace::plan(&observed.content),
        }
    }

    async fn apply(&self, context: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        self.end(context, &plan).await
    }
}
