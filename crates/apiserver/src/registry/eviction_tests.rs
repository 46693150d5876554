use super::*;

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap()
}

fn pod(ready: bool) -> Object {
    let status = if ready { "True" } else { "False" };
    object(json!({
        "metadata": {"name": "p"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    }))
}

fn budget(policy: &str, status: Value) -> Object {
    object(json!({
        "metadata": {"name": "b", "generation": 2},
        "spec": {"unhealthyPodEvictionPolicy": policy},
        "status": status,
    }))
}

#[test]
fn a_budget_is_charged_until_it_is_spent() {
    let status = |allowed: i64| {
        json!({"observedGeneration": 2, "disruptionsAllowed": allowed,
            "currentHealthy": 3, "desiredHealthy": 2})
    };
    let two = judge(&budget("", status(2)), &pod(true), "now").unwrap();
    let charged = json!({"disruptionsAllowed": 1, "disruptedPods": {"p": "now"}});
    assert_eq!(two, Verdict::Charge(charged));
    let Verdict::Charge(last) = judge(&budget("", status(1)), &pod(true), "now").unwrap() else {
        panic!("not charged")
    };
    assert_eq!(last["conditions"][0]["status"], "False");
    let none = judge(&budget("", status(0)), &pod(true), "now").unwrap_err();
    assert_eq!((none.code.as_u16(), none.retry_after()), (429, None));
    let cause = &none.to_value()["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    assert_eq!(judge(&budget("", status(-1)), &pod(true), "now").unwrap_err().code.as_u16(), 403);
}

#[test]
fn a_budget_that_is_not_up_to_date_asks_for_patience() {
    let stale = json!({"observedGeneration": 1, "disruptionsAllowed": 5});
    let error = judge(&budget("", stale), &pod(true), "now").unwrap_err();
    assert_eq!((error.code.as_u16(), error.retry_after()), (429, Some(10)));
}

#[test]
fn unhealthy_pods_go_as_the_budget_says() {
    let status = |healthy: i64| {
        json!({"observedGeneration": 2, "disruptionsAllowed": 0,
            "currentHealthy": healthy, "desiredHealthy": 2})
    };
    let check = |policy: &str, healthy: i64, free: bool| {
        let verdict = judge(&budget(policy, status(healthy)), &pod(false), "now");
        assert_eq!(verdict.ok() == Some(Verdict::Free), free, "{policy} {healthy}");
    };
    check("AlwaysAllow", 0, true);
    check("IfHealthyBudget", 2, true);
    check("IfHealthyBudget", 1, false);
    check("", 2, true);
    check("", 1, false);
}

#[test]
fn a_refusal_says_what_is_missing() {
    let check = |status: Value, healthy, desired, want: &str| {
        assert_eq!(no_allowance("b", &status, healthy, desired), want);
    };
    check(json!({}), 1, 2, "The disruption budget b needs 2 healthy pods and has 1 currently");
    check(json!({}), 3, 2, "The disruption budget b does not allow evicting pods currently");
    let condition = |reason: &str| json!({"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "m"}]});
    check(
        condition("SyncFailed"),
        1,
        2,
        "The disruption budget b does not allow evicting pods currently because it failed sync: m",
    );
    check(
        condition("Odd"),
        3,
        2,
        "The disruption budget b does not allow evicting pods currently (Odd): m",
    );
}
