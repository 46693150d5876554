use kit::ids::Ids;
use store::{MemoryStore, Op, Txn};

use super::*;
use crate::stored::{Index, encode};

const AT: &str = "2026-01-01T00:00:00Z";
const US: &str = "https://us";

struct Fixture {
    issuer: Arc<Issuer>,
    store: Arc<dyn Store>,
    tokens: ServiceAccountTokens,
}

impl Fixture {
    fn new() -> Self {
        let key = TokenKey::draw(&Ids::seeded(7)).unwrap();
        let issuer = Arc::new(Issuer::new(key, US));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let clock = Clock::simulated(AT.parse().unwrap());
        let tokens = ServiceAccountTokens::new(Arc::clone(&issuer), Arc::clone(&store), clock);
        Self { issuer, store, tokens }
    }

    async fn put(&self, plural: &str, namespace: &str, metadata: Value) {
        let name = metadata["name"].as_str().unwrap().to_owned();
        let object = json!({"metadata": metadata});
        let bytes = encode(object.as_object().unwrap(), &Index::default()).unwrap();
        let key = core_key(plural, namespace, &name);
        self.store.commit(Txn::new().then(Op::put(key, bytes))).await.unwrap();
    }

    fn issue(&self, subject: &Subject, audience: &str, seconds_ago: i64) -> String {
        let now: Timestamp = AT.parse().unwrap();
        self.issuer.issue(&Order {
            subject,
            audiences: &[audience.to_owned()],
            now: now - SignedDuration::from_secs(seconds_ago),
            seconds: 600,
            id: "j",
        })
    }

    /// The user's name, nobody, or why the token is refused.
    fn ask(&self, token: &str) -> String {
        match self.tokens.authenticate(token, &[US.to_owned()]) {
            Ok(Some(found)) => found.user.name,
            Ok(None) => "nobody".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

fn bound(name: &str, uid: &str) -> Bound {
    Bound { name: name.to_owned(), uid: uid.to_owned() }
}

fn subject() -> Subject {
    Subject { namespace: "n".to_owned(), serviceaccount: bound("a", "u1"), ..Subject::default() }
}

#[tokio::test(start_paused = true)]
async fn a_token_stands_for_its_account() {
    let fixture = Fixture::new();
    fixture.put("serviceaccounts", "n", json!({"name": "a", "uid": "u1"})).await;
    fixture.put("pods", "n", json!({"name": "p", "uid": "u2"})).await;
    let subject =
        Subject { pod: Some(bound("p", "u2")), node: Some(bound("w", "u3")), ..subject() };
    let token = fixture.issue(&subject, US, 0);
    let found = fixture.tokens.authenticate(&token, &[US.to_owned()]).unwrap().unwrap();
    assert_eq!(found.audiences, Some(vec![US.to_owned()]));
    let user = found.user;
    assert_eq!((&*user.name, &*user.uid), ("system:serviceaccount:n:a", "u1"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:n"]);
    let extra: Vec<String> = user.extra.iter().map(|(k, v)| format!("{k}={}", v[0])).collect();
    let at = "authentication.kubernetes.io/";
    let want = ["credential-id=JTI=j", "node-name=w", "node-uid=u3", "pod-name=p", "pod-uid=u2"];
    assert_eq!(extra, want.map(|text| format!("{at}{text}")));
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_its_time() {
    let fixture = Fixture::new();
    fixture.put("serviceaccounts", "n", json!({"name": "a", "uid": "u1"})).await;
    let check = |seconds_ago, want| {
        assert_eq!(fixture.ask(&fixture.issue(&subject(), US, seconds_ago)), want);
    };
    check(0, "system:serviceaccount:n:a");
    check(660, "system:serviceaccount:n:a");
    check(661, "service account token has expired");
    check(-60, "system:serviceaccount:n:a");
    check(-61, "service account token is not valid yet");
    let token = fixture.issue(&subject(), US, 0);
    tokio::time::advance(std::time::Duration::from_secs(661)).await;
    assert_eq!(fixture.ask(&token), "service account token has expired");
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_what_it_is_bound_to() {
    let fixture = Fixture::new();
    let gone = "service account token has been invalidated";
    let token = fixture.issue(&subject(), US, 0);
    assert_eq!(fixture.ask(&token), "serviceaccounts \"a\" not found");
    fixture.put("serviceaccounts", "n", json!({"name": "a", "uid": "other"})).await;
    assert_eq!(fixture.ask(&token), "service account UID (other) does not match claim (u1)");
    fixture.put("serviceaccounts", "n", json!({"name": "a", "uid": "u1"})).await;
    assert_eq!(fixture.ask(&token), "system:serviceaccount:n:a");

    for (plural, namespace, subject) in [
        ("pods", "n", Subject { pod: Some(bound("x", "u2")), ..subject() }),
        ("secrets", "n", Subject { secret: Some(bound("x", "u2")), ..subject() }),
        ("nodes", "", Subject { node: Some(bound("x", "u2")), ..subject() }),
    ] {
        let token = fixture.issue(&subject, US, 0);
        assert_eq!(fixture.ask(&token), gone, "{plural}");
        fixture.put(plural, namespace, json!({"name": "x", "uid": "u9"})).await;
        assert!(fixture.ask(&token).ends_with("ref claim (u2)"), "{plural}");
        fixture.put(plural, namespace, json!({"name": "x", "uid": "u2"})).await;
        assert_eq!(fixture.ask(&token), "system:serviceaccount:n:a", "{plural}");
        let deleted =
            json!({"name": "x", "uid": "u2", "deletionTimestamp": "2025-12-31T23:00:00Z"});
        fixture.put(plural, namespace, deleted).await;
        assert_eq!(fixture.ask(&token), gone, "{plural}");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_for_others_and_of_others_are_refused() {
    let fixture = Fixture::new();
    fixture.put("serviceaccounts", "n", json!({"name": "a", "uid": "u1"})).await;
    let other = fixture.issue(&subject(), "them", 0);
    let want = "token audiences [\"them\"] is invalid for the target audiences [\"https://us\"]";
    assert_eq!(fixture.ask(&other), want);
    let stranger = Issuer::new(TokenKey::draw(&Ids::seeded(8)).unwrap(), US);
    let order = Order {
        subject: &subject(),
        audiences: &[US.to_owned()],
        now: AT.parse().unwrap(),
        seconds: 600,
        id: "j",
    };
    assert_eq!(fixture.ask(&stranger.issue(&order)), "invalid signature, no keys found");
    let foreign = Issuer::new(TokenKey::draw(&Ids::seeded(7)).unwrap(), "https://elsewhere");
    assert_eq!(fixture.ask(&foreign.issue(&order)), "nobody");
    assert_eq!(fixture.ask("nonsense"), "nobody");
}
