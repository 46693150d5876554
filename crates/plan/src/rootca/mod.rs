//! What the ConfigMap of the cluster's authority says in a namespace.

use std::collections::BTreeMap;

/// The ConfigMap that every pod's service account volume is made of.
pub const NAME: &str = "kube-root-ca.crt";

/// The key under which it holds the certificate.
pub const KEY: &str = "ca.crt";

/// All that the decision rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The namespace does not end.
    pub active: bool,
    /// The ConfigMap's data; `None` if there is no such ConfigMap.
    pub present: Option<BTreeMap<String, String>>,
    /// The authority's certificate, PEM.
    pub certificate: String,
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It is as it shall be, or the namespace ends.
    Nothing,
    /// Create it with this data.
    Create(BTreeMap<String, String>),
    /// Set what has a value, remove what has none.
    Set(BTreeMap<String, Option<String>>),
}

/// Decides: the ConfigMap holds the certificate and nothing else, whoever edits or deletes it.
pub fn plan(observed: &Observed) -> Plan {
    let wanted = BTreeMap::from([(KEY.to_owned(), observed.certificate.clone())]);
    match &observed.present {
        _ if !observed.active => Plan::Nothing,
        None => Plan::Create(wanted),
        Some(data) if *data == wanted => Plan::Nothing,
        Some(data) => {
            let removed = data.keys().map(|key| (key.clone(), None));
            let set = wanted.into_iter().map(|(key, value)| (key, Some(value)));
            Plan::Set(removed.chain(set).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_holds_the_certificate_and_nothing_else() {
        let observed = |active, present: Option<&[(&str, &str)]>| Observed {
            active,
            present: present
                .map(|data| data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            certificate: "pem".to_owned(),
        };
        let wanted = BTreeMap::from([(KEY.to_owned(), "pem".to_owned())]);
        assert_eq!(plan(&observed(true, None)), Plan::Create(wanted));
        assert_eq!(plan(&observed(false, None)), Plan::Nothing);
        assert_eq!(plan(&observed(true, Some(&[(KEY, "pem")]))), Plan::Nothing);
        let healed =
            BTreeMap::from([(KEY.to_owned(), Some("pem".to_owned())), ("more".to_owned(), None)]);
        assert_eq!(
            plan(&observed(true, Some(&[(KEY, "other"), ("more", "x")]))),
            Plan::Set(healed)
        );
    }
}
