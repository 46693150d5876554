//! Any part of any model over HTTP is what it is in the file.

use std::collections::HashSet;
use std::num::NonZero;

use proptest::prelude::*;
use stream::{Layout, Load, Model, Remote, Tensor, write};

use super::server::{Act, Server, object};
use super::{hasty, open};
use crate::support::{borrowed, plain, spec};

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    /// Tensors of all lengths in both layouts, any of them wanted, by any number of connections, from
    /// a server that breaks off and gives less than it was asked for.
    #[test]
    fn a_part_over_http_is_the_part_of_the_file(
        lengths in prop::collection::vec(0_usize..400_000, 1..20),
        wanted in any::<u32>(),
        legacy in any::<bool>(),
        connections in 1_usize..9,
        cut in 1_usize..300_000,
        every in 2_usize..9,
    ) {
        let tensors: Vec<_> = lengths.iter().enumerate().map(|(nth, len)| {
            let bytes = (0..*len).map(|at| ((at + nth).wrapping_mul(0x9e37_79b9) >> 13) as u8);
            (spec(&nth.to_string(), "uint8", &[*len as u64]), bytes.collect::<Vec<u8>>())
        }).collect();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("model");
        let layout = if legacy { Layout::Legacy } else { Layout::Aligned };
        write(&path, &borrowed(&tensors), plain(layout)).unwrap();
        let server = Server::start(object(std::fs::read(&path).unwrap()), move |asked| {
            match asked.nth % every {
                1 => Act::Cut(cut),
                2 => Act::Short(cut),
                _ => Act::Serve,
            }
        });
        let how = Remote { connections: NonZero::new(connections).unwrap(), ..hasty() };
        let there = open(&server.url(), &how).unwrap();
        let here = Model::open(&path).unwrap();
        let chosen: HashSet<String> =
            (0..32).filter(|bit| wanted >> bit & 1 == 1).map(|bit: u32| bit.to_string()).collect();
        let filter = |tensor: &Tensor| chosen.contains(&tensor.name().to_string());
        let load = Load { filter: Some(&filter), verify: true, ..Load::default() };
        let (there_loaded, here_loaded) = (there.load(&load).unwrap(), here.load(&load).unwrap());
        prop_assert!(there_loaded.iter().map(|(_, bytes)| bytes).eq(here_loaded.iter().map(|(_, b)| b)));
        prop_assert!(there_loaded.iter().count() <= tensors.len());
        for (nth, (_, bytes)) in tensors.iter().enumerate().take(3) {
            prop_assert!(there.read(nth, None).unwrap() == *bytes);
        }
    }
}

#[test]
fn a_part_costs_its_bytes() {
    let striped = super::striped();
    let server = Server::start(object(striped.file.clone()), |_| Act::Serve);
    let model = open(&server.url(), &hasty()).unwrap();
    let filter = |tensor: &Tensor| tensor.name().to_string() == "t40";
    let loaded = model.load(&Load { filter: Some(&filter), ..Load::default() }).unwrap();
    assert!(loaded.get("t40").unwrap().1 == striped.tensors[40].1);
    let asked = server.seen();
    assert_eq!(asked.len(), 2, "the front, and the tensor");
    assert!(asked[1].range.1 - asked[1].range.0 < 200_040 + 4096);
}
