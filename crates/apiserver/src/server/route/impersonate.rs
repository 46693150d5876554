//! Requests in somebody else's name: the `Impersonate-*` headers.
//!
//! Each thing that the headers claim (the user, every group, every extra value, the UID) needs the
//! right to impersonate it. Whoever may not is refused; the headers are never just dropped.

use std::fmt;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use super::allow;
use crate::auth::authz::{Attributes, Target};
use crate::auth::rbac::RbacIndex;
use crate::auth::{
    ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, UNAUTHENTICATED, User, service_account_groups,
};
use crate::sabotage::Sabotage;
use crate::status::ApiError;

pub(super) const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// Something that a request claims to be.
enum Claim {
    User(String),
    ServiceAccount { namespace: String, name: String },
    Group(String),
    Extra { key: String, value: String },
    Uid(String),
}

/// Who a request acts as: the user that its headers name, if they name one and `user` may.
pub(super) fn acting(
    rules: impl FnOnce() -> Arc<RbacIndex>,
    user: User,
    headers: &mut HeaderMap,
) -> Result<User, ApiError> {
    let claims = claims(headers);
    if claims.is_empty() {
        return Ok(user);
    }
    if !claims.iter().any(|c| matches!(c, Claim::User(_) | Claim::ServiceAccount { .. })) {
        let claims: Vec<String> = claims.iter().map(ToString::to_string).collect();
        let claims = claims.join(" ");
        return Err(ApiError::bad_request(format!(
            "requested [{claims}] without impersonating a user"
        ))
        .echoing());
    }
    let rbac = rules();
    for claim in claims.iter().filter(|_| !Sabotage::FreeImpersonation.is_planted()) {
        allow(&rbac, &user, &Attributes { verb: "impersonate", target: claim.target() })?;
    }
    let claimed = [USER, GROUP, UID];
    let names: Vec<_> = headers.keys().cloned().collect();
    for name in names {
        if claimed.contains(&name.as_str()) || name.as_str().starts_with(EXTRA) {
            headers.remove(name);
        }
    }
    Ok(claimed_user(claims))
}

fn claims(headers: &HeaderMap) -> Vec<Claim> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name| headers.get(name).map(text).filter(|text| !text.is_empty());
    let user = first(USER).map(|user| match service_account(&user) {
        Some((namespace, name)) => Claim::ServiceAccount { namespace, name },
        None => Claim::User(user),
    });
    let groups = headers.get_all(GROUP).iter().map(text).map(Claim::Group);
    let extra = headers.iter().filter_map(|(name, value)| {
        let key = name.as_str().strip_prefix(EXTRA)?;
        let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
        Some(Claim::Extra { key, value: text(value) })
    });
    let uid = first(UID).map(Claim::Uid);
    user.into_iter().chain(groups).chain(extra).chain(uid).collect()
}

/// Namespace and name of a service account, by its user name.
fn service_account(user: &str) -> Option<(String, String)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let whole = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    whole.then(|| (namespace.to_owned(), name.to_owned()))
}

fn claimed_user(claims: Vec<Claim>) -> User {
    let mut user = User::default();
    let mut implied = Vec::new();
    for claim in claims {
        match claim {
            Claim::User(name) => user.name = name,
            Claim::ServiceAccount { namespace, name } => {
                user.name = format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}");
                implied = service_account_groups(&namespace);
            }
            Claim::Group(group) => user.groups.push(group),
            Claim::Extra { key, value } => user.extra.entry(key).or_default().push(value),
            Claim::Uid(uid) => user.uid = uid,
        }
    }
    if user.groups.is_empty() {
        user.groups = implied;
    }
    // Whoever names either group decides it; otherwise it follows from the name.
    let (group, settled) = if user.name == ANONYMOUS {
        (UNAUTHENTICATED, user.is_in(UNAUTHENTICATED))
    } else {
        (AUTHENTICATED, user.is_in(AUTHENTICATED) || user.is_in(UNAUTHENTICATED))
    };
    if !settled {
        user.groups.push(group.to_owned());
    }
    user
}

impl Claim {
    /// What one must be allowed to impersonate.
    fn target(&self) -> Target<'_> {
        const AUTHENTICATION: &str = "authentication.k8s.io";
        let (group, resource, subresource, namespace, name) = match self {
            Self::User(name) => ("", "users", "", "", name),
            Self::ServiceAccount { namespace, name } => {
                ("", "serviceaccounts", "", namespace.as_str(), name)
            }
            Self::Group(name) => ("", "groups", "", "", name),
            Self::Extra { key, value } => (AUTHENTICATION, "userextras", key.as_str(), "", value),
            Self::Uid(uid) => (AUTHENTICATION, "uids", "", "", uid),
        };
        Target::Resource { group, resource, subresource, namespace, name }
    }
}

/// As upstream prints an object reference: seven fields, most of them empty.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const V1: &str = "authentication.k8s.io/v1";
        match self {
            Self::User(name) => write!(f, "{{User  {name}    }}"),
            Self::ServiceAccount { namespace, name } => {
                write!(f, "{{ServiceAccount {namespace} {name}    }}")
            }
            Self::Group(name) => write!(f, "{{Group  {name}    }}"),
            Self::Extra { key, value } => write!(f, "{{UserExtra  {value}  {V1}  {key}}}"),
            Self::Uid(uid) => write!(f, "{{UID  {uid}  {V1}  }}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::MASTERS;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &'static str)], name: &str, groups: &[&str]) {
        let admin =
            User { name: "root".to_owned(), groups: vec![MASTERS.to_owned()], ..User::default() };
        let mut headers = headers(pairs);
        let user = acting(Arc::default, admin, &mut headers).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups),
            (name, groups.iter().map(|g| (*g).to_owned()).collect())
        );
        assert!(headers.is_empty(), "{headers:?}");
    }

    #[test]
    fn groups_follow_from_the_name_unless_they_are_given() {
        check(&[(USER, "zoe")], "zoe", &[AUTHENTICATED]);
        check(&[(USER, "zoe"), (GROUP, "devs")], "zoe", &["devs", AUTHENTICATED]);
        check(&[(USER, "zoe"), (GROUP, UNAUTHENTICATED)], "zoe", &[UNAUTHENTICATED]);
        check(&[(USER, ANONYMOUS)], ANONYMOUS, &[UNAUTHENTICATED]);
        check(
            &[(USER, "system:serviceaccount:a:b")],
            "system:serviceaccount:a:b",
            &["system:serviceaccounts", "system:serviceaccounts:a", AUTHENTICATED],
        );
    }

    #[test]
    fn extra_keys_are_decoded() {
        let pairs = [(USER, "zoe"), ("impersonate-extra-a%2fb", "c"), (UID, "7")];
        let user = claimed_user(claims(&headers(&pairs)));
        assert_eq!(user.extra.get("a/b"), Some(&vec!["c".to_owned()]));
        assert_eq!(user.uid, "7");
    }

    #[test]
    fn claims_without_a_right_or_a_user_are_refused() {
        let nobody = || User { name: "alice".to_owned(), ..User::default() };
        let refuse = |pairs: &[(&'static str, &'static str)]| {
            acting(Arc::default, nobody(), &mut headers(pairs)).unwrap_err()
        };
        assert_eq!(
            refuse(&[(USER, "zoe")]).message,
            "users \"zoe\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        );
        assert_eq!(
            refuse(&[(GROUP, "devs")]).message,
            "requested [{Group  devs    }] without impersonating a user"
        );
    }
}
