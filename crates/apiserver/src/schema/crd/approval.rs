//! Approval of CRDs in the Kubernetes community's own groups, by annotation.

use serde_json::Value;

use super::super::field::{FieldError, FieldPath};
use super::super::raw::Raw;
use super::super::{format, print};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What the annotation of a CRD in a protected group says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Approval<'a> {
    state: State,
    given: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    Given,
    Invalid,
    Bypassed,
}

/// The approval that a CRD's `metadata` gives; `None` where the group in its `spec` needs none.
pub(crate) fn of<'a>(spec: Option<&Value>, metadata: Option<&'a Value>) -> Option<Approval<'a>> {
    let group = spec.map(|spec| Raw(spec).text("group")).unwrap_or_default();
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|suffix| {
        let before = group.strip_suffix(suffix);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    let given = annotations.map(|all| Raw(all).text(ANNOTATION)).unwrap_or_default();
    let is_url = || {
        let host = given.split_once("://").map_or("", |(_, rest)| rest);
        !host.is_empty()
            && !host.starts_with('/')
            && format::check("uri").is_some_and(|check| check(given))
    };
    let state = match given {
        "" => State::Missing,
        given if given.starts_with("unapproved") => State::Bypassed,
        _ if is_url() => State::Given,
        _ => State::Invalid,
    };
    protected.then_some(Approval { state, given })
}

impl Approval<'_> {
    /// Whether the CRD's condition holds, and its reason.
    pub(crate) fn condition(self) -> (bool, &'static str) {
        match self.state {
            State::Missing => (false, "MissingAnnotation"),
            State::Given => (true, "ApprovedAnnotation"),
            State::Invalid => (false, "InvalidAnnotation"),
            State::Bypassed => (false, "UnapprovedAnnotation"),
        }
    }

    /// What is to be said about it.
    pub(crate) fn words(self) -> String {
        let must = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
        match self.state {
            State::Missing => format!("{must}, {SEE}"),
            State::Given => format!("approved in {}", self.given),
            State::Invalid => {
                format!("{must} with either a URL or a reason starting with \"unapproved\", {SEE}")
            }
            State::Bypassed => format!("not approved: {}", print::quote(self.given)),
        }
    }
}

/// What is wrong with a CRD's approval, unless it was so before.
pub(super) fn validate(crd: Raw<'_>, old: Option<Raw<'_>>) -> Option<FieldError> {
    let now = of(crd.get("spec"), crd.get("metadata"))?;
    let before = old.and_then(|old| of(old.get("spec"), old.get("metadata")));
    if before.is_some_and(|before| before.state == now.state) {
        return None;
    }
    let at = FieldPath::root().child("metadata").child("annotations").key(ANNOTATION);
    match now.state {
        State::Missing => Some(FieldError::required(at, now.words())),
        State::Invalid => Some(FieldError::invalid(at, now.given, now.words())),
        State::Given | State::Bypassed => None,
    }
}
