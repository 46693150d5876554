//! Probes and lifecycle handlers.

use super::super::form;
use super::super::place::{At, Errors};
use super::super::rule::Rule::{NotNegative, On, OneOf, Required, Sub};
use super::super::rule::{self, Context, Rules};

/// The kinds of handlers; a container's lifecycle has no `grpc`, a probe no `sleep`.
const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Signals that Linux has, sorted.
const SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMIN",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

static HTTP: Rules = &[
    Required("path"),
    On("port", |at, _, errors| form::port(at, errors)),
    OneOf("scheme", &["HTTP", "HTTPS"]),
    On("httpHeaders", headers),
];

static PROBE: Rules = &[
    rule::Rule::Own(handler),
    NotNegative("initialDelaySeconds"),
    NotNegative("timeoutSeconds"),
    NotNegative("periodSeconds"),
    NotNegative("successThreshold"),
    NotNegative("failureThreshold"),
    rule::Rule::Between("terminationGracePeriodSeconds", 1, i64::MAX, "must be greater than 0"),
];

fn headers(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    for one in at.items() {
        for why in form::header(one.text("name")) {
            at.invalid_value(errors, one.text("name"), why);
        }
    }
}

/// Exactly one handler, and that one right.
fn handler(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in HANDLERS.iter().filter(|kind| at.has(kind)) {
        let here = at.field(kind);
        if found {
            here.forbidden(errors, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" => rule::check(&[Required("command")], &here, context, errors),
            "httpGet" => rule::check(HTTP, &here, context, errors),
            "sleep" => sleep(&here, context, errors),
            _ => form::port(&here.field("port"), errors),
        }
    }
    if !found {
        at.required(errors, "must specify a handler type");
    }
}

fn sleep(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let seconds = at.int("seconds").unwrap_or(0);
    if let Some(grace) = context.pod.grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let why =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        at.invalid_value(errors, seconds, why);
    }
}

/// A container's three probes.
pub(super) fn probes(container: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if !container.has(name) {
            continue;
        }
        let probe = container.field(name);
        rule::check(PROBE, &probe, context, errors);
        if name == "readinessProbe" {
            if probe.has("terminationGracePeriodSeconds") {
                let why = "must not be set for readinessProbes";
                probe.field("terminationGracePeriodSeconds").invalid(errors, why);
            }
        } else if probe.int("successThreshold") != Some(1) {
            let shown = probe.int("successThreshold").unwrap_or(0);
            probe.field("successThreshold").invalid_value(errors, shown, "must be 1");
        }
    }
}

/// What runs after a container starts and before it stops.
pub(super) fn lifecycle(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    static LIFECYCLE: Rules = &[
        Sub("postStart", &[rule::Rule::Own(handler)]),
        Sub("preStop", &[rule::Rule::Own(handler)]),
    ];
    rule::check(LIFECYCLE, at, context, errors);
    if !at.has("stopSignal") {
        return;
    }
    let signal = at.field("stopSignal");
    match context.pod.os {
        "" => signal.forbidden(errors, "may not be set for containers with empty `spec.os.name`"),
        "windows" if !["SIGKILL", "SIGTERM"].contains(&signal.as_text()) => {
            signal.not_supported(errors, &["SIGKILL", "SIGTERM"]);
        }
        "linux" if !is_signal(signal.as_text()) => {
            signal.not_supported(errors, &signals());
        }
        _ => {}
    }
}

/// Real-time signals go from `SIGRTMIN` up and from `SIGRTMAX` down.
fn is_signal(name: &str) -> bool {
    SIGNALS.contains(&name) || signals().contains(&name)
}

/// Every signal, in the order in which upstream lists them.
fn signals() -> Vec<&'static str> {
    const REAL_TIME: &[&str] = &[
        "SIGRTMAX-1",
        "SIGRTMAX-10",
        "SIGRTMAX-11",
        "SIGRTMAX-12",
        "SIGRTMAX-13",
        "SIGRTMAX-14",
        "SIGRTMAX-2",
        "SIGRTMAX-3",
        "SIGRTMAX-4",
        "SIGRTMAX-5",
        "SIGRTMAX-6",
        "SIGRTMAX-7",
        "SIGRTMAX-8",
        "SIGRTMAX-9",
        "SIGRTMIN+1",
        "SIGRTMIN+10",
        "SIGRTMIN+11",
        "SIGRTMIN+12",
        "SIGRTMIN+13",
        "SIGRTMIN+14",
        "SIGRTMIN+15",
        "SIGRTMIN+2",
        "SIGRTMIN+3",
        "SIGRTMIN+4",
        "SIGRTMIN+5",
        "SIGRTMIN+6",
        "SIGRTMIN+7",
        "SIGRTMIN+8",
        "SIGRTMIN+9",
    ];
    let mut all: Vec<&str> = SIGNALS.iter().chain(REAL_TIME).copied().collect();
    all.sort_unstable();
    all
}
