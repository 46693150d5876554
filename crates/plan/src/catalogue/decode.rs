//! Reads a row or a policy from its fields.

use std::time::Duration;

use serde_json::Value;

use super::fields::Fields;
use super::part::PartKind;
use super::policy::{Policy, Repeat, Rung};
use super::row::{Correlation, Row, RowId, Source, Then};
use super::signal::{Limit, Nvlink5, PartRule, Rule, Signal};

/// The fields of a policy.
pub(super) const POLICY: &[&str] = &["about", "drain", "ladder", "name", "only_repeats", "repeats"];
/// The fields of a row.
pub(super) const ROW: &[&str] = &[
    "beside",
    "condition",
    "cured_by",
    "driver",
    "meaning",
    "policy",
    "products",
    "reason",
    "repeats",
    "scope",
    "seen",
    "severity",
    "source",
];
const RUNG: &[&str] = &["step", "tries", "within", "passed", "service"];
const REPEAT: &[&str] = &["count", "within", "same", "burst", "then"];
const BESIDE: &[&str] = &["with", "within", "on", "then"];
const SIGNAL: &[&str] = &[
    "above", "below", "by", "down", "factor", "flaps", "for", "log", "metric", "nvlink5", "part",
    "peers", "per", "recovery", "rises", "without", "xid74",
];
const NVLINK5: &[&str] = &["code", "escalated", "reason", "status", "units", "v1", "v2"];
const XID74: &[&str] = &["register", "bits"];

/// How far apart faults may be that belong together, where a row names no time: the driver reports a
/// fault and what it drags along within a moment. Our inference.
const BESIDE_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn policy(fields: &Fields<'_>) -> Option<Policy> {
    let ladder = fields.maps("ladder", RUNG, |rung| {
        Some(Rung {
            step: rung.word("step")?,
            tries: small(rung.number("tries", 1, 10)?),
            within: rung.duration("within")?,
            passed: rung.word("passed")?,
            service: rung.optional_text("service"),
        })
    });
    let policy = Policy {
        name: fields.text("name")?,
        about: fields.text("about")?,
        drain: fields.word("drain")?,
        ladder,
        only_repeats: fields.flag("only_repeats").unwrap_or_default(),
        repeats: fields.maps("repeats", REPEAT, repeat),
    };
    for repeat in &policy.repeats {
        if policy.rung(repeat.escalate).is_none() {
            fields.wrong("repeats", format!("{} is not on the ladder", repeat.escalate));
        }
    }
    Some(policy)
}

fn repeat(fields: &Fields<'_>) -> Option<Repeat> {
    Some(Repeat {
        count: small(fields.number("count", 2, 1_000)?),
        within: fields.duration("within")?,
        same: fields.word("same")?,
        burst: fields.optional_duration("burst").unwrap_or_default(),
        escalate: fields.word("then")?,
    })
}

pub(super) fn row(id: &str, fields: &Fields<'_>) -> Option<Row> {
    let mut seen: Vec<Signal> = fields.maps("seen", SIGNAL, signal);
    seen.extend(own_signal(id));
    let none = fields.value("seen").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if seen.is_empty() && none {
        fields.wrong("seen", "must name at least one way to see the fault");
    }
    let correlations = fields.maps("beside", BESIDE, |beside| {
        let then = beside.text("then")?;
        Some(Correlation {
            with: beside.texts("with"),
            within: beside.optional_duration("within").unwrap_or(BESIDE_WITHIN),
            same_part: match beside.optional_text("on").as_deref() {
                None | Some("part") => true,
                Some("node") => false,
                Some(_) => {
                    beside.wrong("on", "must be part or node; the nearest valid value is \"part\"");
                    return None;
                }
            },
            then: if then == "follow" { Then::Follow } else { Then::Policy(then) },
        })
    });
    Some(Row {
        id: RowId::from(id),
        meaning: fields.text("meaning")?,
        condition: fields.word("condition")?,
        reason: reason(fields)?,
        severity: fields.word("severity")?,
        scope: fields.word("scope")?,
        products: fields.words("products"),
        driver: fields.optional_number("driver", 1, 9_999).map(small),
        seen,
        cured_by: fields.words("cured_by"),
        policy: fields.text("policy")?,
        repeats: fields.maps("repeats", REPEAT, repeat),
        correlations,
        source: source(fields)?,
    })
}

/// The rows of the two drivers' codes are seen by their own code.
fn own_signal(id: &str) -> Option<Signal> {
    if let Some(code) = id.strip_prefix("xid/") {
        return Some(Signal::Xid { code: code.parse().ok()? });
    }
    Some(Signal::Sxid { code: id.strip_prefix("sxid/")?.parse().ok()? })
}

fn reason(fields: &Fields<'_>) -> Option<String> {
    let reason = fields.text("reason")?;
    let camel = reason.starts_with(|c: char| c.is_ascii_uppercase())
        && reason.chars().all(|c| c.is_ascii_alphanumeric());
    if !camel {
        let near: String =
            reason.split(|c: char| !c.is_ascii_alphanumeric()).map(capital).collect();
        fields.wrong("reason", format!("must be CamelCase; the nearest valid value is {near:?}"));
    }
    Some(reason)
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

/// `nvidia: the XID catalogue`.
fn source(fields: &Fields<'_>) -> Option<Source> {
    let text = fields.text("source")?;
    let (authority, text) = text.split_once(": ").unwrap_or((text.as_str(), ""));
    let authority = fields.word_of("source", authority)?;
    if text.is_empty() {
        fields.wrong("source", "must read \"authority: document\"");
    }
    Some(Source { authority, text: text.to_owned() })
}

fn signal(fields: &Fields<'_>) -> Option<Signal> {
    if fields.has("metric") {
        return Some(Signal::Metric { metric: fields.word("metric")?, rule: rule(fields)? });
    }
    if fields.has("log") {
        let pieces = fields.texts("log");
        if pieces.first().is_none_or(|piece| piece.len() < 4) {
            fields.wrong("log", "must begin with a piece of at least 4 bytes");
            return None;
        }
        return Some(Signal::Log { pieces, without: fields.texts("without"), part: part(fields)? });
    }
    if fields.has("recovery") {
        let action = fields.number("recovery", 0, 255)?;
        return Some(Signal::Recovery { action: u8::try_from(action).unwrap_or(u8::MAX) });
    }
    if let Some(register) = fields.map("xid74", XID74) {
        let number = register.number("register", 0, 6)?;
        let bits = register.value("bits").and_then(Value::as_array)?;
        let mask = bits.iter().filter_map(Value::as_u64).filter(|bit| *bit < 32);
        let mask = mask.fold(0, |mask, bit| mask | 1 << bit);
        if mask == 0 {
            register.wrong("bits", "must name bits from 0 to 31");
        }
        return Some(Signal::XidRegister { register: u8::try_from(number).ok()?, mask });
    }
    if let Some(decode) = fields.map("nvlink5", NVLINK5) {
        return nvlink5(&decode);
    }
    fields.wrong("", "must have metric, log, recovery, xid74 or nvlink5");
    None
}

fn nvlink5(fields: &Fields<'_>) -> Option<Signal> {
    Some(Signal::Nvlink5(Nvlink5 {
        code: u16::try_from(fields.number("code", 144, 150)?).ok()?,
        units: fields.texts("units"),
        v1: small(fields.number("v1", 0, 0x3ff)?),
        v2: small(fields.number("v2", 0, 0x7f)?),
        status: fields.optional_number("status", 0, u64::from(u32::MAX)).map(small),
        reason: fields.optional_number("reason", 0, 0x3f).map(small),
        escalated: fields.flag("escalated"),
    }))
}

/// `nic after "mlx5_core "`, or `node`.
fn part(fields: &Fields<'_>) -> Option<PartRule> {
    let text = fields.optional_text("part").unwrap_or_else(|| PartKind::Node.as_str().to_owned());
    let (kind, after) = match text.split_once(" after ") {
        Some((kind, after)) => (kind, Some(after.to_owned())),
        None => (text.as_str(), None),
    };
    Some(PartRule { kind: fields.word_of("part", kind)?, after })
}

fn rule(fields: &Fields<'_>) -> Option<Rule> {
    let hold = || fields.optional_duration("for").unwrap_or_default();
    if fields.has("above") {
        return Some(Rule::Above { limit: limit(fields, "above")?, hold: hold() });
    }
    if fields.has("below") {
        return Some(Rule::Below { limit: limit(fields, "below")?, hold: hold() });
    }
    if fields.has("rises") {
        return Some(Rule::Rise { by: fields.real("rises")?, per: nonzero(fields, "per")? });
    }
    if fields.has("flaps") {
        return Some(Rule::Flap {
            times: small(fields.number("flaps", 1, 64)?),
            down: fields.duration("down")?,
            per: nonzero(fields, "per")?,
        });
    }
    if fields.has("factor") {
        let factor = fields.real("factor")?;
        if factor <= 0.0 || factor == 1.0 {
            fields.wrong("factor", "must be above 0 and not 1; the nearest valid value is 1.1");
        }
        return Some(Rule::Peers { factor, peers: small(fields.number("peers", 3, 100_000)?) });
    }
    fields.wrong("metric", "needs above, below, rises, flaps or factor");
    None
}

fn nonzero(fields: &Fields<'_>, name: &str) -> Option<Duration> {
    let duration = fields.duration(name)?;
    if duration.is_zero() {
        fields.wrong(name, "must be at least 1s");
        return None;
    }
    Some(duration)
}

/// A number, `expected`, or `expected * 0.9`.
fn limit(fields: &Fields<'_>, name: &str) -> Option<Limit> {
    let Some(text) = fields.value(name).and_then(Value::as_str) else {
        return fields.real(name).map(Limit::Fixed);
    };
    let share = match text.strip_prefix("expected") {
        Some("") => Some(1.0),
        Some(rest) => {
            rest.trim_start().strip_prefix('*').and_then(|share| share.trim().parse().ok())
        }
        None => None,
    };
    let Some(share) = share.filter(|share: &f64| share.is_finite() && *share > 0.0) else {
        fields
            .wrong(name, format!("{text:?} is no bound; the nearest valid value is \"expected\""));
        return None;
    };
    Some(Limit::Expected(share))
}

/// The bounds of the readers keep every such number within 32 bits.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
