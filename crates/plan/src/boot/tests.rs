use super::*;
use api::machine::{Agent, GivenToken, MachineSpec, MachineStatus};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// In production, running boot `b1`, which has enrolled with the digest `p1`.
fn machine() -> Machine {
    let mut machine = Machine::new("r1-s01", MachineSpec::default());
    let agent = Agent { boot: "b1".to_owned(), image: "i".to_owned(), kernel: None, since: at(0) };
    machine.status = Some(MachineStatus {
        state: State::Production,
        agent: Some(agent),
        enrolment: Some(Enrolment {
            boot: "b1".to_owned(),
            proof: "p1".to_owned(),
            since: at(0),
            token: None,
        }),
        ..MachineStatus::default()
    });
    machine
}

fn with(change: impl FnOnce(&mut MachineStatus)) -> Machine {
    let mut machine = machine();
    change(machine.status.as_mut().unwrap());
    machine
}

fn token(count: u32, expires: i64) -> Option<GivenToken> {
    Some(GivenToken { id: format!("token{count}"), count, expires: at(expires) })
}

fn given(count: u32, expires: i64) -> Machine {
    with(|status| status.enrolment.as_mut().unwrap().token = token(count, expires))
}

#[test]
fn the_first_to_ask_is_the_boot_and_another_boot_takes_over() {
    assert_eq!(enrol(&machine(), "b1", "p1", at(9)), Enrol::Known);
    assert!(matches!(enrol(&machine(), "b1", "p2", at(9)), Enrol::Refuse(_)));
    let fresh =
        Enrolment { boot: "b2".to_owned(), proof: "p2".to_owned(), since: at(9), token: None };
    assert_eq!(enrol(&given(3, 99), "b2", "p2", at(9)), Enrol::Begin(fresh.clone()));
    let new = Machine::new("new", MachineSpec::default());
    assert_eq!(enrol(&new, "b2", "p2", at(9)), Enrol::Begin(fresh));
}

#[test]
fn a_boot_in_production_has_one_good_token_at_a_time_and_three_in_all() {
    let give = |count, now: i64| Join::Give { count, expires: at(now + 180) };
    assert_eq!(join(&machine(), "b1", "p1", at(10)), give(1, 10));
    assert_eq!(join(&given(1, 190), "b1", "p1", at(189)), Join::Spent { until: Some(at(190)) });
    assert_eq!(join(&given(1, 190), "b1", "p1", at(190)), give(2, 190), "the answer was lost");
    let mut spent = given(1, 190);
    let admission = Admission { token: "token1".to_owned(), request: "u1".to_owned() };
    spent.status.as_mut().unwrap().admission = Some(admission);
    assert_eq!(join(&spent, "b1", "p1", at(20)), give(2, 20), "it lost its certificate");
    assert_eq!(join(&given(3, 190), "b1", "p1", at(500)), Join::Spent { until: None });
}

#[test]
fn who_may_not_join_is_told_why() {
    let refused = |machine: &Machine, boot, proof, says: &str| {
        let Join::Refuse(why) = join(machine, boot, proof, at(1)) else { panic!("{says}") };
        assert!(why.contains(says), "{why}");
    };
    refused(&machine(), "b1", "p2", "another secret");
    refused(&machine(), "b2", "p1", "has not enrolled");
    refused(&with(|status| status.enrolment = None), "b1", "p1", "has not enrolled");
    refused(&with(|status| status.state = State::Test), "b1", "p1", "not in Production");
    refused(&with(|status| status.agent = None), "b1", "p1", "does not run this boot");
    let rebooted = with(|status| status.agent.as_mut().unwrap().boot = "b2".to_owned());
    refused(&rebooted, "b1", "p1", "does not run this boot");
}

fn asked() -> Asked {
    Asked {
        signer: KUBELET.to_owned(),
        user: "system:bootstrap:token1".to_owned(),
        common_name: "system:node:r1-s01".to_owned(),
        organizations: vec!["system:nodes".to_owned()],
        usages: vec!["digital signature".to_owned(), "client auth".to_owned()],
        ..Asked::default()
    }
}

#[test]
fn a_token_is_good_for_one_certificate_of_its_own_node() {
    let mut machine = given(1, 190);
    let Admit::Spend(admission) = admit(&asked(), "u1", Some(&machine)) else { panic!() };
    assert_eq!((&*admission.token, &*admission.request), ("token1", "u1"));
    machine.status.as_mut().unwrap().admission = Some(admission);
    assert_eq!(admit(&asked(), "u1", Some(&machine)), Admit::Approve, "it crashed in between");
    let denied = |asked: &Asked, machine: Option<&Machine>, says: &str| {
        let Admit::Deny(why) = admit(asked, "u2", machine) else { panic!("{says}") };
        assert!(why.contains(says), "{why}");
    };
    denied(&asked(), Some(&machine), "spent on another");
    denied(&asked(), None, "there is no Machine");
    let other = Asked { common_name: "system:node:r1-s02".to_owned(), ..asked() };
    denied(&other, Some(&machine), "there is no Machine \"r1-s02\"");
    let signer = "kubernetes.io/kube-apiserver-client".to_owned();
    denied(&Asked { signer, ..asked() }, Some(&machine), "good for the signer");
    let admin = Asked { organizations: vec!["system:masters".to_owned()], ..asked() };
    denied(&admin, Some(&machine), "organization");
    denied(&asked(), Some(&given(2, 400)), "another has been since");
    let mut triage = given(1, 190);
    triage.status.as_mut().unwrap().state = State::Triage;
    denied(&asked(), Some(&triage), "not in Production");
}

#[test]
fn only_tokens_of_ours_are_decided_upon() {
    let ours = [names::JOINING_GROUP.to_owned()];
    assert!(is_ours("system:bootstrap:abcdef", &ours));
    assert!(!is_ours("system:bootstrap:abcdef", &["system:bootstrappers".to_owned()]));
    assert!(!is_ours("admin", &ours));
}
