//! What each fault of a trace shows from outside, and which step would end it.
//!
//! The words of a trace name a kind of fault; which row of the catalogue it shows is data
//! ([`plan::catalogue::TraceMap`]), and where several are possible one is drawn by the seed. Words that
//! nobody knows are read as an unknown error, with a warning.

use kit::ids::Ids;
use plan::catalogue::{Basis, RowId, Step, TraceMap, TraceRow, TraceWords};

use super::trace::{Trace, Warning};

/// A fault as its hardware shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The row of the catalogue that a detector would find.
    pub row: RowId,
    /// Whether the trace itself names this symptom.
    pub basis: Basis,
    /// The step that ends it, where repairs are not those recorded. Always assumed.
    pub cure: Step,
}

/// What words that nobody knows are taken for.
fn unknown() -> TraceWords {
    TraceWords {
        level: "Other Failure".to_owned(),
        class: "Unknown Error".to_owned(),
        desc: "Unknown Error".to_owned(),
    }
}

/// What every fault shows, in their order, and a warning for each kind with unknown words.
///
/// The draws depend on the seed and on the faults before, so a trace that is cut shows the same.
#[must_use]
pub fn show(trace: &Trace, map: &TraceMap, seed: u64) -> (Vec<Shown>, Vec<Warning>) {
    let ids = Ids::seeded(seed);
    let mut warnings = Vec::new();
    let mut warned = vec![false; trace.kinds.len()];
    let mut shown = Vec::with_capacity(trace.faults.len());
    for fault in &trace.faults {
        let Some(words) = trace.words(fault) else { continue };
        let known = map.row(words);
        if known.is_none() && !std::mem::replace(&mut warned[fault.kind], true) {
            warnings.push(Warning { line: fault.line, what: sentence(words, map) });
        }
        let unknown = unknown();
        if let Some(row) = known.or_else(|| map.row(&unknown)) {
            shown.push(drawn(row, known.is_some(), &ids));
        }
    }
    (shown, warnings)
}

fn drawn(row: &TraceRow, known: bool, ids: &Ids) -> Shown {
    let (shows, cures) = (pick(&row.shows, ids), pick(&row.cures, ids));
    Shown {
        row: shows.cloned().unwrap_or_else(|| RowId::from("node/heartbeat-lost")),
        basis: if known { row.basis } else { Basis::Assumed },
        cure: cures.copied().unwrap_or(Step::Triage),
    }
}

/// One of these, each as often as its share.
fn pick<'a, T>(of: &'a [(T, u32)], ids: &Ids) -> Option<&'a T> {
    let sum: u64 = of.iter().map(|(_, share)| u64::from(*share)).sum();
    let mut bytes = [0; 8];
    // A seeded source cannot fail.
    let _ = ids.fill(&mut bytes);
    let mut left = u64::from_le_bytes(bytes) % sum.max(1);
    of.iter().find_map(|(one, share)| match left.checked_sub(u64::from(*share)) {
        None => Some(one),
        Some(rest) => {
            left = rest;
            None
        }
    })
}

fn sentence(words: &TraceWords, map: &TraceMap) -> String {
    let name = |w: &TraceWords| format!("{:?}, {:?}, {:?}", w.level, w.class, w.desc);
    let nearest = map.nearest(words).map(|near| format!("; the nearest is {}", name(near)));
    format!(
        "the fault {} is not known and taken for an unknown error{}",
        name(words),
        nearest.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::trace::Fault;
    use plan::catalogue::Catalogue;
    use std::time::Duration;

    fn map() -> TraceMap {
        TraceMap::load(&Catalogue::load(&[]).unwrap(), &[]).unwrap()
    }

    fn trace(words: &TraceWords, faults: usize) -> Trace {
        let at = |n: usize| Duration::from_secs(n as u64);
        let fault = |n| Fault { line: n + 2, node: 0, kind: 0, from: at(n), to: at(n + 1) };
        Trace {
            kinds: vec![words.clone()],
            faults: (0..faults).map(fault).collect(),
            length: at(faults),
            ..Trace::default()
        }
    }

    #[test]
    fn draws_follow_the_shares_and_the_seed() {
        let map = map();
        let (words, row) = map.rows().find(|(_, row)| row.shows.len() > 2).unwrap();
        let trace = trace(words, 2_000);
        let (shown, warnings) = show(&trace, &map, 1);
        assert_eq!((shown.len(), warnings), (2_000, Vec::new()));
        let sum: u32 = row.shows.iter().map(|(_, share)| share).sum();
        for (id, share) in &row.shows {
            let found = shown.iter().filter(|shown| shown.row == *id).count() as f64 / 2_000.0;
            assert!((found - f64::from(*share) / f64::from(sum)).abs() < 0.04, "{id:?} {found}");
        }
        assert_eq!(show(&trace, &map, 1).0, shown);
        assert_ne!(show(&trace, &map, 2).0, shown);
        let half = trace.up_to(Duration::from_secs(1_000));
        assert_eq!(show(&half, &map, 1).0, shown[..1_000]);
    }

    #[test]
    fn unknown_words_are_an_unknown_error_with_a_warning() {
        let words = TraceWords {
            level: "Hardware Failure".to_owned(),
            class: "Fan".to_owned(),
            desc: "Speed Critcal".to_owned(),
        };
        let (shown, warnings) = show(&trace(&words, 3), &map(), 1);
        assert_eq!(warnings.len(), 1, "once for each kind");
        assert_eq!(warnings[0].line, 2);
        assert!(warnings[0].what.contains("\"Speed Critcal\""), "{warnings:?}");
        assert!(
            warnings[0].what.contains("nearest is \"Hardware Failure\", \"Fan\""),
            "{warnings:?}"
        );
        assert!(shown.iter().all(|s| s.basis == Basis::Assumed));
        assert!(map().row(&unknown()).is_some());
    }
}
