//! The conditions in a CRD's status.

use serde_json::{Value, json};

use crate::registry::Object;

/// What a condition says, but for its times.
pub(super) struct Condition<'a> {
    pub(super) name: &'static str,
    pub(super) holds: bool,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl Condition<'_> {
    /// Puts the condition in its place; the time of its last transition moves only with its status.
    pub(super) fn set(&self, conditions: &mut Vec<Value>, now: &str) {
        let status = if self.holds { "True" } else { "False" };
        let before = conditions.iter_mut().find(|one| one["type"] == self.name);
        let since = match &before {
            Some(old) if old["status"] == status => old["lastTransitionTime"].clone(),
            _ => now.into(),
        };
        let condition = json!({
            "type": self.name, "status": status, "lastTransitionTime": since,
            "reason": self.reason, "message": self.message,
        });
        match before {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
    }
}

/// How far the deletion of a CRD's objects has come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deletion {
    Pending,
    InProgress,
    Completed,
    /// There never could be objects.
    NeverEstablished,
}

impl Deletion {
    /// Says so in the CRD's status.
    pub(crate) fn note(self, object: &mut Object, now: &str) {
        let (holds, reason, message) = match self {
            Self::Pending => (
                true,
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin \
                 soon",
            ),
            Self::InProgress => {
                (true, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
            }
            Self::Completed => (false, "InstanceDeletionCompleted", "removed all instances"),
            Self::NeverEstablished => (false, "NeverEstablished", "resource was never established"),
        };
        let mut conditions = of(object).to_vec();
        Condition { name: "Terminating", holds, reason, message }.set(&mut conditions, now);
        if let Value::Object(status) = object.entry("status").or_insert_with(|| json!({})) {
            status.insert("conditions".to_owned(), conditions.into());
        }
    }
}

/// The conditions of a CRD.
pub(super) fn of(object: &Object) -> &[Value] {
    let conditions = object.get("status").and_then(|status| status.get("conditions"));
    conditions.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether a condition is there and `True`.
pub(super) fn is_true(conditions: &[Value], name: &str) -> bool {
    conditions.iter().any(|one| one["type"] == name && one["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        for (holds, reason, now, since) in
            [(true, "A", "1", "1"), (true, "B", "2", "1"), (false, "B", "3", "3")]
        {
            Condition { name: "Established", holds, reason, message: "" }.set(&mut conditions, now);
            assert_eq!(conditions.len(), 1);
            assert_eq!(conditions[0]["reason"], reason);
            assert_eq!(conditions[0]["lastTransitionTime"], since);
            assert_eq!(is_true(&conditions, "Established"), holds);
        }
    }
}
