//! Which Jobs are made when, and that every look is safe to be repeated.

use serde_json::{Value, json};

use super::*;

const BORN: &str = "2026-01-01T00:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A CronJob that looked, and acts on what it decides.
struct Small {
    observed: Observed,
    uids: usize,
}

impl Small {
    fn new(spec: Value) -> Self {
        let mut cron_job = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "cron", "creationTimestamp": BORN},
            "spec": {"schedule": "*/10 * * * *", "jobTemplate": {
                "metadata": {"labels": {"app": "c"}},
                "spec": {"template": {"spec": {"restartPolicy": "Never"}}},
            }},
        });
        for (field, value) in spec.as_object().unwrap() {
            cron_job["spec"][field] = value.clone();
        }
        let observed = Observed {
            cron_job: serde_json::from_value(cron_job).unwrap(),
            jobs: Vec::new(),
            missing: BTreeSet::new(),
            zone: Ok(TimeZone::UTC),
            now: at(BORN),
        };
        Self { observed, uids: 0 }
    }

    /// One look at a time; returns the reasons of what is told and the names of what is made.
    fn look(&mut self, now: &str) -> (Vec<String>, Option<String>) {
        self.observed.now = at(now);
        let mut plan = plan(&self.observed);
        self.observed.jobs.retain(|job| !plan.delete.contains(job));
        let mut made = None;
        if let Some((mut job, time)) = plan.create.take() {
            self.uids += 1;
            job.metadata.uid = Some(format!("job-{}", self.uids));
            made.clone_from(&job.metadata.name);
            plan.started(&job, time);
            self.observed.jobs.push(Arc::from(job));
        }
        self.observed.cron_job.status = Some(plan.status);
        (plan.events.into_iter().map(|event| event.reason).collect(), made)
    }

    fn end(&mut self, job: usize, type_: &str, time: &str) {
        let mut ended = (*self.observed.jobs[job]).clone();
        let condition = json!({"type": type_, "status": "True"});
        let status = json!({"startTime": BORN, "completionTime": time, "conditions": [condition]});
        ended.status = Some(serde_json::from_value(status).unwrap());
        self.observed.jobs[job] = Arc::new(ended);
    }

    fn active(&self) -> usize {
        self.observed.cron_job.status.as_ref().unwrap().active.as_ref().map_or(0, Vec::len)
    }
}

/// The name of the Job of a time.
fn job(time: &str) -> Option<String> {
    Some(format!("c-{}", at(time).as_second() / 60))
}

#[test]
fn a_job_is_made_once_for_its_time_and_forgotten_when_it_ends() {
    let mut small = Small::new(json!({}));
    assert_eq!(small.look("2026-01-01T00:09:59Z"), (vec![], None));
    assert_eq!(plan(&small.observed).wake, Some(at("2026-01-01T00:10:00.1Z")));
    assert_eq!(small.look("2026-01-01T00:10:01Z").1, job("2026-01-01T00:10:00Z"));
    let made = &small.observed.jobs[0].metadata;
    assert_eq!(made.annotations.as_ref().unwrap()[SCHEDULED], "2026-01-01T00:10:00Z");
    assert_eq!(made.labels.as_ref().unwrap()["app"], "c");
    assert_eq!(made.owner_references.as_ref().unwrap()[0].uid, "cron");
    assert_eq!(small.look("2026-01-01T00:10:02Z"), (vec![], None));
    small.end(0, "Complete", "2026-01-01T00:12:00Z");
    assert_eq!(small.look("2026-01-01T00:12:01Z"), (vec!["SawCompletedJob".to_owned()], None));
    assert_eq!(small.active(), 0);
    let status = small.observed.cron_job.status.as_ref().unwrap();
    assert_eq!(status.last_successful_time.as_ref().unwrap().0, at("2026-01-01T00:12:00Z"));
    assert_eq!(small.look("2026-01-01T00:12:02Z"), (vec![], None));
}

#[test]
fn of_missed_times_the_latest_is_made_up_for() {
    let mut small = Small::new(json!({}));
    assert_eq!(small.look("2026-01-01T05:55:00Z"), (vec![], job("2026-01-01T05:50:00Z")));
    let mut small = Small::new(json!({}));
    let many = vec!["TooManyMissedTimes".to_owned()];
    assert_eq!(small.look("2026-01-03T05:55:00Z"), (many, job("2026-01-03T05:50:00Z")));
    // Looked at for the first time too late for anything.
    let mut small = Small::new(json!({"startingDeadlineSeconds": 60}));
    assert_eq!(small.look("2026-01-01T05:55:00Z"), (vec![], None));
    assert_eq!(plan(&small.observed).wake, Some(at("2026-01-01T06:00:00.1Z")));
    assert_eq!(small.look("2026-01-01T06:00:59Z").1, job("2026-01-01T06:00:00Z"));
}

#[test]
fn jobs_run_beside_each_other_as_the_policy_says() {
    for (policy, told, jobs) in
        [("Allow", None, 2), ("Forbid", Some("JobAlreadyActive"), 1), ("Replace", None, 1)]
    {
        let mut small = Small::new(json!({"concurrencyPolicy": policy}));
        small.look("2026-01-01T00:10:00Z");
        let (events, made) = small.look("2026-01-01T00:20:00Z");
        assert_eq!(events.first().map(String::as_str), told, "{policy}");
        assert_eq!(made.is_some(), policy != "Forbid");
        assert_eq!((small.observed.jobs.len(), small.active()), (jobs, jobs), "{policy}");
    }
}

#[test]
fn only_so_many_ended_jobs_stay() {
    let mut small =
        Small::new(json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 0}));
    for n in 1..=5 {
        small.look(&format!("2026-01-01T00:{n}0:00Z"));
        let type_ = if n == 2 { "Failed" } else { "Complete" };
        let last = small.observed.jobs.len() - 1;
        small.end(last, type_, &format!("2026-01-01T00:{n}5:00Z"));
        small.look(&format!("2026-01-01T00:{n}6:00Z"));
    }
    let names: Vec<_> = small.observed.jobs.iter().map(|job| job.metadata.name.clone()).collect();
    assert_eq!(names, [job("2026-01-01T00:40:00Z"), job("2026-01-01T00:50:00Z")]);
}

#[test]
fn what_is_strange_is_said() {
    let said = |spec: Value| Small::new(spec).look("2026-01-01T01:00:00Z");
    assert_eq!(said(json!({"suspend": true})), (vec![], None));
    let broken = vec!["UnparseableSchedule".to_owned()];
    assert_eq!(said(json!({"schedule": "often"})), (broken, None));
    let mut small = Small::new(json!({}));
    small.observed.zone = Err("unknown time zone Atlantis".to_owned());
    assert_eq!(small.look("2026-01-01T01:00:00Z"), (vec!["UnknownTimeZone".to_owned()], None));

    let mut small = Small::new(json!({}));
    small.look("2026-01-01T00:10:00Z");
    small.observed.jobs.clear();
    small.observed.missing.insert("job-1".to_owned());
    assert_eq!(small.look("2026-01-01T00:11:00Z"), (vec!["MissingJob".to_owned()], None));
    assert_eq!(small.active(), 0);

    small.look("2026-01-01T00:20:00Z");
    small.observed.cron_job.status.as_mut().unwrap().active = None;
    assert!(has_strangers(&small.observed.cron_job, &small.observed.jobs));
    assert_eq!(small.look("2026-01-01T00:21:00Z"), (vec!["UnexpectedJob".to_owned()], None));
}

#[test]
fn the_zone_decides() {
    let mut small = Small::new(json!({"schedule": "0 3 * * *", "timeZone": "Asia/Tokyo"}));
    small.observed.zone = Ok(TimeZone::get("Asia/Tokyo").unwrap());
    assert_eq!(small.look("2026-01-01T18:00:00Z").1, job("2026-01-01T18:00:00Z"));
    let annotations = small.observed.jobs[0].metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[SCHEDULED], "2026-01-02T03:00:00+09:00");
}
