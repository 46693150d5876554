//! The kernel's log: which rows of the catalogue a line is evidence of.
//!
//! One automaton looks for the first piece of every pattern at once, so that the ordinary line costs
//! one pass and nothing is allocated for it. The caller hands in lines of the kernel only: a program
//! must not be able to write its own evidence.

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, BuildError};
use jiff::Timestamp;

use super::driver::{Driver, Sxid, Words, Xid, find};
use super::{Finding, evidence};
use crate::catalogue::{Catalogue, Nvlink5, Part, PartKind, PartRule, RowId, Signal};

/// The kernel's own records end at about 1 KiB; of a longer line only this much is read.
const MAX_LINE: usize = 2_048;
const XID: &str = "NVRM: Xid ";
const SXID: &str = "SXid ";

/// A pattern of the log: its pieces and what it is evidence of.
#[derive(Clone, Debug)]
struct Pattern {
    row: RowId,
    pieces: Vec<Vec<u8>>,
    without: Vec<Vec<u8>>,
    part: PartRule,
}

/// Reads lines of the kernel's log.
#[derive(Clone, Debug)]
pub struct Lines {
    automaton: AhoCorasick,
    /// For each needle of the automaton: the patterns that begin with it.
    starts: Vec<Vec<usize>>,
    patterns: Vec<Pattern>,
    /// What a driver's line is whose code no row names.
    unknown: Vec<Pattern>,
    xids: BTreeMap<u16, RowId>,
    sxids: BTreeMap<u32, RowId>,
    registers: Vec<(u8, u32, RowId)>,
    recoveries: BTreeMap<u8, RowId>,
    nvlink5: Vec<(Nvlink5, RowId)>,
}

impl Lines {
    /// A reader for what this catalogue knows.
    ///
    /// # Errors
    /// When the catalogue's patterns make an automaton that is too large.
    pub fn new(catalogue: &Catalogue) -> Result<Self, BuildError> {
        // The first two needles are the drivers'.
        let mut needles = vec![XID.to_owned(), SXID.to_owned()];
        let mut lines = Self {
            automaton: AhoCorasick::new([XID])?,
            starts: vec![Vec::new(), Vec::new()],
            patterns: Vec::new(),
            unknown: Vec::new(),
            xids: BTreeMap::new(),
            sxids: BTreeMap::new(),
            registers: Vec::new(),
            recoveries: BTreeMap::new(),
            nvlink5: Vec::new(),
        };
        for row in catalogue.rows() {
            for signal in &row.seen {
                lines.add(&row.id, signal, &mut needles);
            }
        }
        lines.automaton = AhoCorasick::new(&needles)?;
        Ok(lines)
    }

    fn add(&mut self, row: &RowId, signal: &Signal, needles: &mut Vec<String>) {
        match signal {
            Signal::Xid { code } => {
                self.xids.insert(*code, row.clone());
            }
            Signal::Sxid { code } => {
                self.sxids.insert(*code, row.clone());
            }
            Signal::XidRegister { register, mask } => {
                self.registers.push((*register, *mask, row.clone()));
            }
            Signal::Recovery { action } => {
                self.recoveries.insert(*action, row.clone());
            }
            Signal::Nvlink5(decode) => self.nvlink5.push((decode.clone(), row.clone())),
            Signal::Log { pieces, without, part } => {
                let bytes =
                    |texts: &[String]| texts.iter().map(|t| t.as_bytes().to_vec()).collect();
                let pattern = Pattern {
                    row: row.clone(),
                    pieces: bytes(pieces),
                    without: bytes(without),
                    part: part.clone(),
                };
                let Some(first) = pieces.first() else { return };
                if first.starts_with(XID) || first.starts_with(SXID) {
                    self.unknown.push(pattern);
                    return;
                }
                let needle =
                    needles.iter().position(|needle| needle == first).unwrap_or_else(|| {
                        needles.push(first.clone());
                        self.starts.push(Vec::new());
                        needles.len() - 1
                    });
                self.starts[needle].push(self.patterns.len());
                self.patterns.push(pattern);
            }
            Signal::Metric { .. } => {}
        }
    }

    /// What one line is evidence of; mostly nothing. Of a very long line only the first 2 KiB count.
    #[must_use]
    pub fn read(&self, line: &[u8], at: Timestamp, driver: Driver) -> Vec<Finding> {
        let line = &line[..line.len().min(MAX_LINE)];
        let mut found: Vec<Finding> = Vec::new();
        let mut tried: Vec<usize> = Vec::new();
        for hit in self.automaton.find_overlapping_iter(line) {
            let needle = hit.pattern().as_usize();
            if needle < 2 {
                let after = &line[hit.end()..];
                let driver = if needle == 0 {
                    self.xid(after, line, driver)
                } else {
                    self.sxid(after, line)
                };
                if let Some(rows) = driver {
                    return finish(rows, line, at);
                }
                continue;
            }
            for &index in &self.starts[needle] {
                if tried.contains(&index) {
                    continue;
                }
                tried.push(index);
                let pattern = &self.patterns[index];
                if matches(pattern, line, hit.start())
                    && !found.iter().any(|finding| finding.row == pattern.row)
                {
                    let part = part(&pattern.part, line);
                    found.extend(finish(vec![(pattern.row.clone(), part)], line, at));
                }
            }
        }
        found
    }

    /// None when it is no such line after all.
    fn xid(&self, text: &[u8], line: &[u8], driver: Driver) -> Option<Vec<(RowId, Part)>> {
        let xid = Xid::parse(text)?;
        let gpu = Part::gpu(xid.address);
        let Some(own) = self.xids.get(&xid.code) else {
            return Some(self.unknown(line));
        };
        let (mut rows, gpu) = match xid.code {
            154 => {
                let row = xid.recovery().and_then(|action| self.recoveries.get(&action));
                (row.cloned().into_iter().collect(), gpu)
            }
            74 => {
                let words = xid.registers();
                (self.decode_registers(&words, own), on_link(gpu, words.link))
            }
            144..=150 => {
                let words = xid.nvlink5();
                (self.decode_nvlink5(xid.code, &words, driver), on_link(gpu, words.link))
            }
            13 => {
                let unit = xid.cluster().map(|(gpc, tpc)| format!("GPC {gpc} TPC {tpc}"));
                (Vec::new(), unit.map_or(gpu.clone(), |unit| gpu.unit(&unit)))
            }
            _ => (Vec::new(), gpu),
        };
        if rows.is_empty() {
            rows.push(own.clone());
        }
        Some(rows.into_iter().map(|row| (row, gpu.clone())).collect())
    }

    /// The rows of every bit that is set, and XID 74 itself for a bit that no row knows in a register
    /// that rows speak of.
    fn decode_registers(&self, words: &Words, own: &RowId) -> Vec<RowId> {
        let mut rows = Vec::new();
        for (number, &word) in words.words.iter().enumerate() {
            let about = || self.registers.iter().filter(|(r, ..)| usize::from(*r) == number);
            rows.extend(
                about().filter(|(_, mask, _)| word & mask != 0).map(|(.., row)| row.clone()),
            );
            let known = about().fold(0, |known, (_, mask, _)| known | mask);
            if known != 0 && word & !known != 0 && !rows.contains(own) {
                rows.push(own.clone());
            }
        }
        rows
    }

    fn decode_nvlink5(&self, code: u16, said: &Words, driver: Driver) -> Vec<RowId> {
        let info = said.words.first().copied();
        let status = said.words.get(1).copied().unwrap_or_default();
        let fits = |row: &Nvlink5| {
            if row.code != code {
                return false;
            }
            let unit = said.unit.as_ref().is_none_or(|unit| row.units.contains(unit));
            let Some(info) = info else { return false };
            // Codes 144 to 148 set one bit for each error; 149 gives a number.
            let as_bits = code < 149;
            let status =
                row.status.is_none_or(|s| if as_bits { status & s != 0 } else { status == s });
            let v1 = driver.speaks(false) && info & 0x3ff == row.v1;
            let v2 = driver.speaks(true) && info & 0x7f == row.v2;
            let escalated = row.escalated.is_none_or(|escalated| {
                v1 && (info >> 10 & 1 == 1) == escalated || v2 && (info >> 7 & 1 == 1) == escalated
            });
            unit && status
                && (v1 || v2)
                && escalated
                && row.reason.is_none_or(|r| info >> 20 & 0x3f == r)
        };
        self.nvlink5.iter().filter(|(row, _)| fits(row)).map(|(_, row)| row.clone()).collect()
    }

    fn sxid(&self, text: &[u8], line: &[u8]) -> Option<Vec<(RowId, Part)>> {
        let sxid = Sxid::parse(text)?;
        if sxid.detail {
            return Some(Vec::new());
        }
        let Some(row) = self.sxids.get(&sxid.code) else {
            return Some(self.unknown(line));
        };
        let part = on_link(Part::new(PartKind::Nvswitch, sxid.address), sxid.link);
        Some(vec![(row.clone(), part)])
    }

    fn unknown(&self, line: &[u8]) -> Vec<(RowId, Part)> {
        let fits = |pattern: &&Pattern| {
            let start = pattern.pieces.first().and_then(|piece| find(line, piece));
            start.is_some_and(|start| matches(pattern, line, start))
        };
        let named = |pattern: &Pattern| (pattern.row.clone(), part(&pattern.part, line));
        self.unknown.iter().filter(fits).map(named).collect()
    }
}

fn on_link(part: Part, link: Option<u32>) -> Part {
    match link {
        Some(link) => part.unit(&format!("link {link}")),
        None => part,
    }
}

fn finish(rows: Vec<(RowId, Part)>, line: &[u8], at: Timestamp) -> Vec<Finding> {
    let finding = |(row, part)| Finding { row, part, at, present: true, evidence: evidence(line) };
    rows.into_iter().map(finding).collect()
}

/// Do all pieces follow one another from `start` on, and is nothing there that must not be?
fn matches(pattern: &Pattern, line: &[u8], start: usize) -> bool {
    let mut rest = &line[start..];
    for piece in &pattern.pieces {
        let Some(at) = find(rest, piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    !pattern.without.iter().any(|piece| find(line, piece).is_some())
}

/// The part that the line names: the word after a text, without the punctuation that ends it.
fn part(rule: &PartRule, line: &[u8]) -> Part {
    let Some(after) = &rule.after else {
        return if rule.kind == PartKind::Node { Part::node() } else { Part::new(rule.kind, "") };
    };
    let Some(at) = find(line, after.as_bytes()) else { return Part::new(rule.kind, "") };
    let rest = line[at + after.len()..].trim_ascii_start();
    let end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b')' | b'(' | b'!');
    let end = rest.iter().position(end).unwrap_or(rest.len());
    let word = String::from_utf8_lossy(&rest[..end]);
    Part::new(rule.kind, word.trim_end_matches([':', '.']))
}
