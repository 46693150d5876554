//! The garbage collector: objects go when their last owner is gone.
//!
//! It follows the metadata of every kind that discovery lists, and keeps who owns whom in a graph.
//! A change of an object brings those that care about it to the queue. Every write names the UID and
//! the revision that the decision was made of, so a graph that is behind can only be refused, and
//! that an owner is absent is believed only when the API itself says so.

mod apply;
mod observe;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::controller::{
    Adder, AnyMeta, Cache, Context, Controller, Error, Opener, Wake, Watch, Wiring,
};
use plan::gc::{Graph, Kind};

use crate::kinds::Served;

/// What the collector works on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Which kinds there are.
    Kinds,
    /// The object with this UID.
    Object(String),
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kinds => out.write_str("kinds"),
            Self::Object(uid) => out.write_str(uid),
        }
    }
}

/// See the module.
pub struct GarbageCollector {
    graph: Arc<Mutex<Graph>>,
    kinds: Mutex<BTreeMap<Kind, Followed>>,
    definitions: Cache<CustomResourceDefinition>,
    opener: Opener,
    adder: Adder<Key>,
}

/// A kind whose objects are in the graph.
struct Followed {
    served: Served,
    cache: Cache<AnyMeta>,
}

/// What was observed of a key.
pub enum Observed {
    /// The kinds that there are, if all that should be there are.
    Kinds(Vec<Served>),
    /// An object and its relatives.
    Object(Box<plan::gc::Observed>),
}

/// What shall be done.
pub enum Plan {
    /// Follow exactly these kinds.
    Follow(Vec<Served>),
    /// Treat an object.
    Treat(plan::gc::Plan),
}

impl Controller for GarbageCollector {
    type Key = Key;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "gc";

    fn wire((): (), wiring: &mut Wiring<Key>) -> Self {
        wiring
            .about("Deletes objects whose owners are gone")
            .concurrency(20)
            .may(&["get", "list", "watch", "patch", "delete"], "*", &["*"])
            .records_events()
            .at_start(Key::Kinds);
        let definitions = Watch::<CustomResourceDefinition>::all().pruned(|definition| {
            definition.spec.versions.iter_mut().for_each(|version| version.schema = None);
        });
        let definitions = wiring.watch(definitions, |_| [Key::Kinds]);
        Self {
            graph: Arc::default(),
            kinds: Mutex::default(),
            definitions,
            opener: wiring.opener(),
            adder: wiring.adder(),
        }
    }

    async fn observe(&self, context: &Context, key: &Key) -> Result<Option<Observed>, Error> {
        match key {
            Key::Kinds => {
                self.observe_kinds(context).await.map(|kinds| Some(Observed::Kinds(kinds)))
            }
            Key::Object(uid) => {
                let object = self.observe_object(context, uid).await?;
                Ok(object.map(|object| Observed::Object(Box::new(object))))
            }
        }
    }

    fn plan(observed: &Observed) -> Plan {
        match observed {
            Observed::Kinds(kinds) => Plan::Follow(kinds.clone()),
            Observed::Object(object) => Plan::Treat(plan::gc::plan(object)),
        }
    }

    async fn apply(&self, context: &Context, key: &Key, plan: Plan) -> Result<Wake, Error> {
        match plan {
            Plan::Follow(kinds) => self.follow(kinds),
            Plan::Treat(plan) => self.treat(context, key, plan).await?,
        }
        Ok(Wake::Never)
    }
}

impl GarbageCollector {
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<Kind, Followed>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
