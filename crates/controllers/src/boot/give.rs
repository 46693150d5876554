//! Gives what was decided: records it, tells it, makes it, in this order.

use std::collections::BTreeMap;

use api::machine::{Enrolment, GivenToken};
use api::{Machine, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kit::clock::rfc3339_seconds;
use kit::controller::{Class, Context, Error, Mood, Note, Parts};
use kit::ids::Ids;
use kube::Api;
use kube::api::PostParams;
use metal::boot::{Enrol, Identity, Join, JoinToken};
use plan::boot;
use serde_json::json;

use super::desk::Answer;
use super::{Deed, KUBE_SYSTEM, Plan};

/// How long an agent's identity is good. A boot asks again before; short enough that one that is lost
/// does not stay good for long, long enough that 10,000 machines ask once in four seconds.
const IDENTITY_LIFE: SignedDuration = SignedDuration::from_hours(12);

pub(super) async fn give(context: &Context, plan: Plan) -> Result<Answer, Error> {
    let Plan { ask, machine, deed } = plan;
    Ok(match deed {
        Deed::Enrol(boot::Enrol::Refuse(why)) => Answer::Enrol(Enrol::Refused(why)),
        Deed::Enrol(decided) => {
            if let boot::Enrol::Begin(enrolment) = decided {
                record(context, &machine, &enrolment).await?;
                let text = format!("boot {} has enrolled: its agent has an identity", ask.boot);
                tell(context, &machine, "Enrolled", text).await?;
            }
            Answer::Enrol(Enrol::Known(identity(context, &machine).await?))
        }
        Deed::Join(boot::Join::Refuse(why), _) => Answer::Join(Join::Refused(why)),
        Deed::Join(boot::Join::Spent { until }, now) => {
            let after = until.map(|until| until.duration_since(now).unsigned_abs());
            Answer::Join(Join::Spent { after })
        }
        Deed::Join(boot::Join::Give { count, expires }, _) => {
            let enrolment = machine.status.as_ref().and_then(|status| status.enrolment.clone());
            let enrolment = enrolment.ok_or_else(|| Error::not_ready("it has not enrolled"))?;
            let id = word(context.ids(), 6)?;
            let given = GivenToken { id: id.clone(), count, expires };
            let enrolment = Enrolment { token: Some(given), ..enrolment };
            record(context, &machine, &enrolment).await?;
            let most = boot::TOKENS;
            let text = format!(
                "boot {} has token {id} to join, {count} of {most}, good until {}",
                ask.boot,
                rfc3339_seconds(expires)
            );
            tell(context, &machine, "JoinTokenGiven", text).await?;
            let token = token(context, &machine, &ask.boot, &id, expires).await?;
            Answer::Join(Join::Token(JoinToken { token, expires }))
        }
    })
}

/// Writes down what is given, where the machine is still the one that was looked at.
async fn record(context: &Context, machine: &Machine, given: &Enrolment) -> Result<(), Error> {
    let status = json!({"enrolment": given});
    context.swap_status(machine, &status, Parts::Only(&["enrolment"])).await
}

/// Nothing is given of which no Event was written.
async fn tell(
    context: &Context,
    machine: &Machine,
    reason: &str,
    text: String,
) -> Result<(), Error> {
    let (reason, action) = (reason.to_owned(), "Boot".to_owned());
    let note = Note { mood: Mood::Normal, reason, action, text };
    context.tell::<Machine>(&(), &machine.metadata, note).await
}

/// A token of the machine's own service account.
async fn identity(context: &Context, machine: &Machine) -> Result<Identity, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(context.client().clone(), names::MACHINES);
    let wanted = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(IDENTITY_LIFE.as_secs()),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let name = machine.name();
    let params = PostParams::default();
    let mut answer = accounts.create_token_request(name, &params, &wanted).await;
    if matches!(&answer, Err(kube::Error::Api(status)) if status.code == 404) {
        make_account(context, machine).await?;
        answer = accounts.create_token_request(name, &params, &wanted).await;
    }
    let answer = answer.map_err(|error| Error::during("ask for a machine's token", error))?;
    let status = answer.status;
    let none = || Error::new(Class::Transient, "the API answered no token");
    let status = status.filter(|status| !status.token.is_empty()).ok_or_else(none)?;
    let (machine, expires) = (name.to_owned(), status.expiration_timestamp.0);
    Ok(Identity { machine, token: status.token, expires })
}

/// It goes with its machine.
async fn make_account(context: &Context, machine: &Machine) -> Result<(), Error> {
    let owner = OwnerReference {
        api_version: <Machine as kube::Resource>::api_version(&()).into_owned(),
        kind: <Machine as kube::Resource>::kind(&()).into_owned(),
        name: machine.name().to_owned(),
        uid: machine.uid().to_owned(),
        ..OwnerReference::default()
    };
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(machine.name().to_owned()),
            namespace: Some(names::MACHINES.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        // Nothing mounts it.
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    };
    match context.create(&account).await {
        Err(error) if error.already_exists() => Ok(()),
        other => other.map(drop),
    }
}

/// Makes the Secret that a token to join is, and gives the token.
async fn token(
    context: &Context,
    machine: &Machine,
    boot: &str,
    id: &str,
    expires: Timestamp,
) -> Result<String, Error> {
    let secret = word(context.ids(), 16)?;
    let name = machine.name();
    let fields = [
        ("description", format!("machine {name}, boot {boot}")),
        ("token-id", id.to_owned()),
        ("token-secret", secret.clone()),
        ("expiration", rfc3339_seconds(expires)),
        ("usage-bootstrap-authentication", "true".to_owned()),
        ("auth-extra-groups", names::JOINING_GROUP.to_owned()),
    ];
    let data = fields.into_iter().map(|(key, value)| (key.to_owned(), value));
    let object = Secret {
        metadata: ObjectMeta {
            name: Some(format!("bootstrap-token-{id}")),
            namespace: Some(KUBE_SYSTEM.to_owned()),
            labels: Some(BTreeMap::from([(names::MACHINE.to_owned(), name.to_owned())])),
            ..ObjectMeta::default()
        },
        type_: Some(plan::tokencleaner::TYPE.to_owned()),
        string_data: Some(data.collect()),
        ..Secret::default()
    };
    let params =
        PostParams { field_manager: Some(context.manager().to_owned()), ..PostParams::default() };
    let secrets: Api<Secret> = Api::namespaced(context.client().clone(), KUBE_SYSTEM);
    let made = secrets.create(&params, &object).await;
    made.map_err(|error| Error::during("make a token to join", error))?;
    Ok(format!("{id}.{secret}"))
}

/// So many characters of a token: small letters and digits.
fn word(ids: &Ids, length: usize) -> Result<String, Error> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = vec![0; length];
    ids.fill(&mut bytes).map_err(|error| Error::bug("draw a token", error))?;
    // 32 divides 256: every letter is as likely.
    let letter = |byte: u8| LETTERS.get(usize::from(byte & 31)).copied().map_or('a', char::from);
    Ok(bytes.into_iter().map(letter).collect())
}
