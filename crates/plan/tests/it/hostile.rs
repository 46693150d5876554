//! Bytes and numbers from a hostile world: no panic, no unbounded output, whatever comes in.

use jiff::Timestamp;
use plan::catalogue::{Catalogue, Metric, Part, PartKind, Sighting};
use plan::detect::{Driver, Finding, Floors, Lines, Metrics, Sample, Window, peers};
use proptest::prelude::*;

use crate::CATALOGUE;

static LINES: std::sync::LazyLock<Lines> =
    std::sync::LazyLock::new(|| Lines::new(&CATALOGUE).unwrap());

fn bounded(found: &[Finding]) {
    assert!(found.len() <= 128, "{} findings", found.len());
    for finding in found {
        assert!(CATALOGUE.row(finding.row.as_str()).is_some());
        assert!(finding.evidence.len() <= 240 && !finding.evidence.contains(char::is_control));
        assert!(finding.part.name().len() <= 64);
    }
}

fn read(line: &[u8]) {
    for driver in [Driver::UNKNOWN, Driver::version("570.1"), Driver::version("580.1")] {
        bounded(&LINES.read(line, Timestamp::UNIX_EPOCH, driver));
    }
}

/// Pieces of real lines in any order, with bytes of any kind between them.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let real = prop::sample::select(vec![
        "NVRM: Xid ",
        "(PCI:",
        "0000:b5:00",
        "): ",
        "74, ",
        "145, ",
        "149, ",
        "154, ",
        "13, ",
        "link ",
        "Link ",
        "(0x",
        "0xffffffff, ",
        "RLW_REMAP Nonfatal ",
        " to 0x",
        "GPC ",
        "TPC ",
        "SXid ",
        "12028, ",
        "Fatal",
        "mlx5_core ",
        "EDAC MC",
        " UE ",
        "nvme nvme",
        "timeout,",
        "soft lockup - CPU#",
        "stuck for",
        "EXT4-fs (",
        "Remounting filesystem read-only",
        "NETDEV WATCHDOG:",
        "timed out",
    ]);
    let piece = prop_oneof![
        3 => real.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
        1 => any::<u64>().prop_map(|number| number.to_string().into_bytes()),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), -10.0..2_000.0, Just(0.0), Just(1.0)]
}

fn instant() -> impl Strategy<Value = Timestamp> {
    let range = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
    prop_oneof![range, 0_i64..100_000].prop_map(|second| Timestamp::from_second(second).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_line(line in prop::collection::vec(any::<u8>(), 0..4_000)) {
        read(&line);
    }

    #[test]
    fn any_mix_of_real_pieces_is_a_line(line in pieces()) {
        read(&line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_numbers_are_a_series(
        metric in prop::sample::select(Metric::ALL.to_vec()),
        samples in prop::collection::vec((instant(), number(), prop::option::of(number())), 0..200),
    ) {
        let metrics = Metrics::new(&CATALOGUE, None);
        let mut window = Window::default();
        let mut raised = std::collections::BTreeSet::new();
        for (at, value, expected) in samples {
            let part = Part::new(PartKind::Nic, "port");
            let sample = Sample { at, metric, part, value, expected };
            let (next, found) = metrics.read(window, &sample);
            window = next;
            bounded(&found);
            // What begins was not there, and what ends was.
            for finding in found {
                let row = finding.row.to_string();
                let changed = if finding.present { raised.insert(row) } else { raised.remove(&row) };
                prop_assert!(changed);
            }
        }
    }

    #[test]
    fn any_values_are_peers(values in prop::collection::vec(number(), 0..100)) {
        let values: Vec<(Part, f64)> = values.into_iter().map(|v| (Part::node(), v)).collect();
        for metric in [Metric::StepTime, Metric::TestGemm] {
            let found = peers(&CATALOGUE, metric, Timestamp::UNIX_EPOCH, &values);
            prop_assert!(found.len() * 2 <= values.len(), "never more than half");
            prop_assert!(found.iter().all(|(index, _)| *index < values.len()));
        }
    }

    #[test]
    fn any_sightings_get_advice(
        seen in prop::collection::vec((0_usize..600, 0_u8..3, instant()), 0..60),
    ) {
        let ids: Vec<_> = CATALOGUE.rows().map(|row| row.id.clone()).collect();
        let sighting = |(row, gpu, at): (usize, u8, Timestamp)| Sighting {
            row: ids.get(row).cloned().unwrap_or_else(|| "no/such".into()),
            part: Part::gpu(&format!("{gpu}")),
            at,
        };
        let seen: Vec<Sighting> = seen.into_iter().map(sighting).collect();
        let advice = CATALOGUE.advise(&seen);
        prop_assert!(advice.len() <= seen.len());
        let mut turned = seen.clone();
        turned.reverse();
        prop_assert_eq!(CATALOGUE.advise(&turned), advice, "the order of sightings is no evidence");
    }

    #[test]
    fn any_text_is_a_file_or_an_error(text in "(?s).{0,400}") {
        let _ = Floors::load(&[("site.yaml", &text)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn any_row_is_read_or_refused(
        field in prop::sample::select(vec!["id", "meaning", "seen", "repeats", "beside", "policy", "source", "driver"]),
        value in "[\\[\\]{}:,a-z0-9\" -]{0,60}",
    ) {
        let text = format!("rows:\n- id: xid/1\n  {field}: {value}\n");
        if let Err(errors) = Catalogue::load(&[("site.yaml", &text)]) {
            prop_assert!(errors.iter().all(|error| error.file == "site.yaml"), "{:?}", errors);
        }
    }
}
