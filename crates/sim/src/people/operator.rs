//! Acknowledges breakers: the operator has looked at what the sick nodes have in common.

use std::sync::Arc;

use api::Breaker;
use jiff::Timestamp;
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::Patch;
use serde_json::json;

use super::{Act, Deed, OPERATOR, People, Todo, later};

/// See the module.
pub struct Operator {
    breakers: Cache<Breaker>,
    people: People,
}

/// A breaker, as the operator sees it.
pub struct Observed {
    breaker: Arc<Breaker>,
    people: People,
    now: Timestamp,
}

/// An acknowledgement of so many openings.
pub struct Acknowledge {
    breaker: Arc<Breaker>,
    openings: u32,
    why: String,
}

impl Controller for Operator {
    type Key = ObjectKey;
    type Settings = People;
    type Observed = Observed;
    type Plan = Todo<Acknowledge>;
    const NAME: &'static str = "operator";

    fn wire(people: People, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Acknowledges open breakers and keeps nodes to itself, as a simulated person")
            .may(&["patch"], "fleet.seatrial.dev", &["breakers", "machines"])
            .may(&["patch"], "", &["nodes"]);
        Self { breakers: wiring.own(Watch::<Breaker>::all()), people }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let now = context.now();
        let observed = |breaker| Observed { breaker, people: self.people.clone(), now };
        Ok(self.breakers.get(key).map(observed))
    }

    fn plan(observed: &Observed) -> Todo<Acknowledge> {
        let breaker = &observed.breaker;
        let Some(status) = breaker.status.as_ref().filter(|_| breaker.is_open()) else {
            return Todo::Nothing;
        };
        let since = status.since.unwrap_or(observed.now);
        let (openings, why) = (status.openings, status.why.clone());
        let what = Acknowledge { breaker: Arc::clone(breaker), openings, why };
        Todo::due(later(since, observed.people.hands.acknowledge), observed.now, what)
    }

    async fn apply(
        &self,
        context: &Context,
        key: &ObjectKey,
        plan: Self::Plan,
    ) -> Result<Wake, Error> {
        let Acknowledge { breaker, openings, why } = match plan {
            Todo::Nothing => return Ok(Wake::Never),
            Todo::Later(at) => return Ok(Wake::At(at)),
            Todo::Now(what) => what,
        };
        // An opening that came since was not looked at.
        let patch = Patch::Merge(json!({
            "metadata": {"uid": breaker.metadata.uid},
            "spec": {"acknowledged": openings, "by": OPERATOR},
        }));
        context.patch::<Breaker>(&breaker.metadata, None, &patch).await?;
        let (at, about) = (context.now(), key.name.clone());
        self.people.acts.add(Act { at, by: OPERATOR, about, what: Deed::Acknowledged, why });
        Ok(Wake::Never)
    }
}
