//! What the node controller declares, and the words for what it does.

use api::incident::Stage;
use kit::controller::{Alert, Mood, Note, ObjectKey, Wiring};
use plan::deed::Deed;
use plan::node::Act;

/// Rights and alerts.
pub(super) fn declare(wiring: &mut Wiring<ObjectKey>) {
    let fleet = api::GROUP;
    wiring
        .about(
            "Takes sick nodes out of service, has them repaired and proven, and brings them back",
        )
        // A wave is many nodes at once, and each waits for the API most of its time.
        .concurrency(16)
        .may(&["get", "patch"], "", &["nodes"])
        .may(&["patch"], "", &["nodes/status"])
        .may(&["create"], "", &["pods/eviction"])
        .may(&["delete"], "", &["pods"])
        .may(&["get", "patch"], fleet, &["machines"])
        .may(&["create", "get"], fleet, &["incidents"])
        .may(&["patch"], fleet, &["incidents/status", "ledgers/status"])
        .may(&["get"], fleet, &["ledgers"])
        .records_events()
        .alert(Alert {
            name: "SeatrialNodesWaitForBudget",
            expr: "max by (controller) (seatrial_controller_objects{controller=\"node\",\
                   what=\"nodes\",state=\"WaitingForBudget\"}) > 0",
            lasts: "6h",
            severity: "warning",
            summary: "nodes have waited for a disruption budget for 6 hours; `kubectl get \
                      incidents` says for which, the ledger `fleet` sets its limit",
            example: &[(
                "seatrial_controller_objects{controller=\"node\",what=\"nodes\",\
                 state=\"WaitingForBudget\"}",
                "3x400",
            )],
            fires_at: "370m",
            labels: &[],
        })
        .alert(Alert {
            name: "SeatrialNodesNotHandedOver",
            expr: "max by (controller) (seatrial_controller_objects{controller=\"node\",\
                   what=\"incidents\",state=\"HandingOver\"}) > 0",
            lasts: "2h",
            severity: "warning",
            summary: "machines with sick nodes do not leave production; `kubectl get machines` \
                      says what they wait for",
            example: &[(
                "seatrial_controller_objects{controller=\"node\",what=\"incidents\",\
                 state=\"HandingOver\"}",
                "1x200",
            )],
            fires_at: "130m",
            labels: &[],
        })
        .alert(Alert {
            name: "SeatrialNoLedger",
            expr: "max by (controller) (seatrial_controller_objects{controller=\"node\",\
                   what=\"ledger\",state=\"Missing\"}) > 0",
            lasts: "5m",
            severity: "critical",
            summary: "there is no ledger `fleet`, so no node is repaired; create it with the \
                      limits of the fleet",
            example: &[(
                "seatrial_controller_objects{controller=\"node\",what=\"ledger\",\
                 state=\"Missing\"}",
                "1x20",
            )],
            fires_at: "10m",
            labels: &[],
        });
}

/// A stage, as metrics name it.
pub(super) fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Open => "Open",
        Stage::Draining => "Draining",
        Stage::Acting => "Acting",
        Stage::Verifying => "Verifying",
        Stage::HandingOver => "HandingOver",
        Stage::Closed => "Closed",
    }
}

/// The word for an act: the reason of its Event.
pub(super) fn act(act: &Act) -> &'static str {
    match act {
        Act::OpenIncident { .. } => "OpenIncident",
        Act::Cordon { .. } => "Cordon",
        Act::Uncordon { .. } => "Uncordon",
        Act::TakeGrant { .. } => "TakeGrant",
        Act::ReturnGrant { .. } => "ReturnGrant",
        Act::Evict { .. } => "Evict",
        Act::Ask(_) => "Ask",
        Act::Withdraw { .. } => "Withdraw",
        Act::Report(_) => "Report",
        Act::ClearPhase { .. } => "ClearPhase",
        Act::Dress { .. } => "Dress",
    }
}

/// The Event of a deed. What only shows on the node how things stand has none: it says so itself.
pub(super) fn because(deed: &Deed<Act>) -> Option<Note> {
    let what = match &deed.act {
        Act::Report(_) | Act::Dress { .. } => return None,
        Act::OpenIncident { name, .. } => format!("opens incident {name}"),
        Act::Cordon { .. } => "cordons the node".to_owned(),
        Act::Uncordon { .. } => "takes the cordon back".to_owned(),
        Act::TakeGrant { grant } => format!("takes a grant from the ledger ({:?})", grant.kind),
        Act::ReturnGrant { .. } => "gives the grant back to the ledger".to_owned(),
        Act::Evict { namespace, name, now, .. } => {
            format!("{} pod {namespace}/{name}", if *now { "kills" } else { "evicts" })
        }
        Act::Ask(request) => format!("asks the machine for {:?} as {}", request.ask, request.id),
        Act::Withdraw { id } => format!("withdraws request {id}"),
        Act::ClearPhase { condition, .. } => format!("takes {condition} back"),
    };
    let because = &deed.because;
    let mut text = format!("{} {what}: {}", because.who, because.why);
    if !because.origin.is_empty() {
        text.push_str(&format!(" (for {})", because.origin));
    }
    if !because.evidence.is_empty() {
        text.push_str(&format!("; seen: {}", because.evidence.join("; ")));
    }
    let reason = act(&deed.act).to_owned();
    Some(Note { mood: Mood::Normal, action: reason.clone(), reason, text })
}

/// A pod that a disruption budget keeps.
pub(super) fn kept(pod: &str, why: &str) -> Note {
    Note {
        mood: Mood::Warning,
        reason: "PodKept".to_owned(),
        action: "Evict".to_owned(),
        text: format!("a disruption budget keeps pod {pod} on the node: {why}"),
    }
}
