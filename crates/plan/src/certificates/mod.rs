//! Which certificate requests are approved, signed and forgotten.
//!
//! The signers, their demands, messages and terms are kube-controller-manager's. The signer for
//! anything at all, `kubernetes.io/legacy-unknown`, is left to others.

use jiff::{SignedDuration, Timestamp};

/// Signs for whoever speaks to the API.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// Signs for nodes that speak to the API.
pub const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Signs for nodes that are spoken to.
pub const SERVING: &str = "kubernetes.io/kubelet-serving";

/// The longest term of a certificate.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The shortest term; a shorter one that is asked for is not heeded.
pub const SHORTEST: SignedDuration = SignedDuration::from_mins(10);

const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";

/// What a request asks for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The signer.
    pub signer: String,
    /// Who asks.
    pub user: String,
    /// The subject's common name.
    pub common_name: String,
    /// The subject's organizations.
    pub organizations: Vec<String>,
    /// How many DNS names.
    pub dns: usize,
    /// How many IP addresses.
    pub addresses: usize,
    /// How many e-mail addresses.
    pub emails: usize,
    /// How many URIs.
    pub uris: usize,
    /// The usages, as the API spells them.
    pub usages: Vec<String>,
}

/// Whether a signer of ours signs this; `None` if the signer is none of ours, `Err` says why not.
pub fn judge(asked: &Asked) -> Option<Result<(), String>> {
    match asked.signer.as_str() {
        CLIENT => Some(client(asked)),
        KUBELET => Some(
            node(asked).and_then(|()| nameless(asked)).and_then(|()| usages(asked, "client auth")),
        ),
        SERVING => Some(
            node(asked).and_then(|()| served(asked)).and_then(|()| usages(asked, "server auth")),
        ),
        _ => None,
    }
}

fn no(text: &str) -> Result<(), String> {
    Err(text.to_owned())
}

/// The subject is a node.
fn node(asked: &Asked) -> Result<(), String> {
    if asked.organizations != [NODES] {
        return no("subject organization is not system:nodes");
    }
    match asked.common_name.strip_prefix(NODE) {
        Some(name) if !name.is_empty() => Ok(()),
        _ => no("subject common name does not begin with system:node: "),
    }
}

fn nameless(asked: &Asked) -> Result<(), String> {
    match asked {
        Asked { dns: 1.., .. } => no("DNS subjectAltNames are not allowed"),
        Asked { emails: 1.., .. } => no("Email subjectAltNames are not allowed"),
        Asked { addresses: 1.., .. } => no("IP subjectAltNames are not allowed"),
        Asked { uris: 1.., .. } => no("URI subjectAltNames are not allowed"),
        _ => Ok(()),
    }
}

fn served(asked: &Asked) -> Result<(), String> {
    match asked {
        Asked { dns: 0, addresses: 0, .. } => no("DNS or IP subjectAltName is required"),
        Asked { emails: 1.., .. } => no("Email subjectAltNames are not allowed"),
        Asked { uris: 1.., .. } => no("URI subjectAltNames are not allowed"),
        _ => Ok(()),
    }
}

/// Exactly this usage and signatures; encipherment may be.
fn usages(asked: &Asked, needed: &str) -> Result<(), String> {
    let has = |usage: &str| asked.usages.iter().any(|known| known == usage);
    let known = |usage: &String| {
        usage == needed || usage == "digital signature" || usage == "key encipherment"
    };
    match has(needed) && has("digital signature") && asked.usages.iter().all(known) {
        true => Ok(()),
        false => Err(format!("usages did not match [digital signature {needed}]")),
    }
}

fn client(asked: &Asked) -> Result<(), String> {
    let mut wanted = false;
    for usage in &asked.usages {
        match usage.as_str() {
            "digital signature" | "key encipherment" => {}
            "client auth" => wanted = true,
            other => return Err(format!("invalid usage for client certificate: {other}")),
        }
    }
    if wanted { Ok(()) } else { no("missing required usage for client certificate: client auth") }
}

/// The term of a certificate, of which so many seconds are asked for.
pub fn term(seconds: Option<i32>) -> SignedDuration {
    let asked = seconds.map(|seconds| SignedDuration::from_secs(seconds.into()));
    asked.map_or(LONGEST, |asked| asked.clamp(SHORTEST, LONGEST))
}

/// The right that lets a request be approved by itself, and what is then said: the subresource of
/// `certificatesigningrequests` that the asking user must be allowed to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// `nodeclient`
    pub subresource: &'static str,
    /// A sentence.
    pub message: &'static str,
}

/// By which rights a request may be approved by itself, in the order in which they are asked for.
pub fn rights(asked: &Asked) -> Vec<Right> {
    if asked.signer != KUBELET || !matches!(judge(asked), Some(Ok(()))) {
        return Vec::new();
    }
    let renewal = Right {
        subresource: "selfnodeclient",
        message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
    };
    let first = Right {
        subresource: "nodeclient",
        message: "Auto approving kubelet client certificate after SubjectAccessReview.",
    };
    let own = asked.user == asked.common_name;
    own.then_some(renewal).into_iter().chain([first]).collect()
}

/// What became of a request so far.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// When it was made.
    pub created: Timestamp,
    /// When it was approved, and has its certificate.
    pub issued: Option<Timestamp>,
    /// When it was denied, or when signing it failed.
    pub refused: Option<Timestamp>,
    /// Nobody has said anything about it.
    pub pending: bool,
    /// When its certificate runs out.
    pub expires: Option<Timestamp>,
}

/// When a request is forgotten: an hour after its end, a day if nobody has looked at it, and when
/// its certificate runs out.
pub fn forgotten(fate: &Fate) -> Option<Timestamp> {
    let later = |from: Timestamp, hours| {
        from.checked_add(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::MAX)
    };
    let ended = fate.issued.into_iter().chain(fate.refused).map(|end| later(end, 1));
    let pending = fate.pending.then(|| later(fate.created, 24));
    ended.chain(pending).chain(fate.expires).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn kubelet() -> Asked {
        Asked {
            signer: KUBELET.to_owned(),
            user: "system:bootstrap:abcdef".to_owned(),
            common_name: "system:node:n1".to_owned(),
            organizations: texts(&[NODES]),
            usages: texts(&["digital signature", "client auth"]),
            ..Asked::default()
        }
    }

    #[test]
    fn a_nodes_client_certificate_says_a_node_and_nothing_else() {
        assert_eq!(judge(&kubelet()), Some(Ok(())));
        let wrong = [
            Asked { organizations: texts(&[NODES, "system:masters"]), ..kubelet() },
            Asked { organizations: Vec::new(), ..kubelet() },
            Asked { common_name: "admin".to_owned(), ..kubelet() },
            Asked { common_name: NODE.to_owned(), ..kubelet() },
            Asked { dns: 1, ..kubelet() },
            Asked { addresses: 1, ..kubelet() },
            Asked { emails: 1, ..kubelet() },
            Asked { uris: 1, ..kubelet() },
            Asked { usages: texts(&["client auth"]), ..kubelet() },
            Asked { usages: texts(&["digital signature", "server auth"]), ..kubelet() },
        ];
        for asked in wrong {
            assert!(matches!(judge(&asked), Some(Err(_))), "{asked:?}");
            assert_eq!(rights(&asked), []);
        }
    }

    #[test]
    fn a_renewal_may_use_the_nodes_own_right() {
        let names = |asked: &Asked| -> Vec<_> {
            rights(asked).iter().map(|right| right.subresource).collect()
        };
        assert_eq!(names(&kubelet()), ["nodeclient"]);
        let own = Asked { user: "system:node:n1".to_owned(), ..kubelet() };
        assert_eq!(names(&own), ["selfnodeclient", "nodeclient"]);
    }

    #[test]
    fn serving_certificates_need_a_name_and_clients_their_usage() {
        let usages = texts(&["digital signature", "server auth"]);
        let serving = Asked { signer: SERVING.to_owned(), dns: 1, usages, ..kubelet() };
        assert_eq!(judge(&serving), Some(Ok(())));
        assert!(matches!(judge(&Asked { dns: 0, ..serving }), Some(Err(_))));
        let client = Asked { signer: CLIENT.to_owned(), ..kubelet() };
        assert_eq!(judge(&client), Some(Ok(())));
        let usages = texts(&["server auth"]);
        assert!(matches!(judge(&Asked { usages, ..client }), Some(Err(_))));
        assert_eq!(judge(&Asked { signer: "example.com/mine".to_owned(), ..kubelet() }), None);
    }

    #[test]
    fn terms_have_bounds() {
        assert_eq!(term(None), LONGEST);
        assert_eq!(term(Some(3600)), SignedDuration::from_hours(1));
        assert_eq!((term(Some(-5)), term(Some(i32::MAX))), (SHORTEST, LONGEST));
    }

    #[test]
    fn requests_are_forgotten() {
        let at = |hour: i64| Timestamp::from_second(hour * 3600).unwrap();
        let pending = Fate { created: at(0), pending: true, ..Fate::default() };
        assert_eq!(forgotten(&pending), Some(at(24)));
        let issued = Fate { issued: Some(at(2)), expires: Some(at(100)), ..Fate::default() };
        assert_eq!(forgotten(&issued), Some(at(3)));
        assert_eq!(forgotten(&Fate { refused: Some(at(5)), ..Fate::default() }), Some(at(6)));
        assert_eq!(forgotten(&Fate::default()), None);
    }
}
