//! The lines of NVIDIA's drivers: `NVRM: Xid` of the GPU driver and `SXid` of the NVSwitch driver.
//!
//! Parses what a line says; which row of the catalogue that is stands in [`super::kernel`].

/// Where the words of XID 144 to 150 moved: from this driver branch on, the sheet's second version.
const V2_BRANCH: u32 = 575;
/// XID 74 has seven registers, XID 144 to 150 up to seven words; no line has more.
const MAX_WORDS: usize = 7;

/// Which branch of the GPU driver a node runs, if that is known: some decodes depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Driver(Option<u32>);

impl Driver {
    /// An unknown driver: a decode that differs between branches takes whichever fits.
    pub const UNKNOWN: Self = Self(None);

    /// The branch of a version such as `570.148.08`; unknown if it does not begin with a number.
    #[must_use]
    pub fn version(version: &str) -> Self {
        Self(version.trim().split('.').next().and_then(|branch| branch.parse().ok()))
    }

    /// The branch, such as 570.
    #[must_use]
    pub const fn branch(self) -> Option<u32> {
        self.0
    }

    /// Does a decode sheet's first (`false`) or second (`true`) version hold?
    pub(super) fn speaks(self, second: bool) -> bool {
        self.0.is_none_or(|branch| (branch >= V2_BRANCH) == second)
    }
}

/// An `NVRM: Xid` line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Xid<'a> {
    /// The GPU's PCI address as the line has it.
    pub(super) address: &'a str,
    /// The code.
    pub(super) code: u16,
    /// What follows the code.
    rest: &'a [u8],
}

/// What XID 144 to 150 say after the code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// The hexadecimal words in the brackets.
    pub(super) words: Vec<u32>,
    /// The unit's name, if there is one.
    pub(super) unit: Option<String>,
    /// The link's number, if there is one.
    pub(super) link: Option<u32>,
}

impl<'a> Xid<'a> {
    /// Reads `(PCI:0000:b5:00): 95, ...`, the line from its bracket on.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let (address, code, rest) = head(text)?;
        Some(Self { address, code: u16::try_from(code).ok()?, rest })
    }

    /// `... changed from 0x0 (None) to 0x1 (GPU Reset Required)`: the number after `to`.
    pub(super) fn recovery(&self) -> Option<u8> {
        let at = find(self.rest, b" to 0x")?;
        u8::try_from(hex(&self.rest[at + 6..])?.0).ok()
    }

    /// `... on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)`.
    pub(super) fn registers(&self) -> Words {
        let link = find(self.rest, b"link ").and_then(|at| number(&self.rest[at + 5..]));
        Words { words: words(self.rest), unit: None, link: link.map(|(link, _)| link) }
    }

    /// `RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000004 0x00000040 ...)`, after a process or none.
    pub(super) fn nvlink5(&self) -> Words {
        let link = find(self.rest, b"Link ").and_then(|at| number(&self.rest[at + 5..]));
        let fatal = [&b" Fatal"[..], b" Nonfatal", b" Non-fatal", b" Link Fatal"];
        let end = fatal.iter().filter_map(|word| find(self.rest, word)).min();
        let unit = end.map(|end| {
            let head = &self.rest[..end];
            let start = head.iter().rposition(|byte| *byte == b',').map_or(0, |at| at + 1);
            String::from_utf8_lossy(&head[start..]).trim().to_owned()
        });
        let unit = unit.filter(|unit| !unit.is_empty());
        Words { words: words(self.rest), unit, link: link.map(|(link, _)| link) }
    }

    /// `GPC 1, TPC 3`: the unit of a graphics exception.
    pub(super) fn cluster(&self) -> Option<(u32, u32)> {
        let after = |name: &[u8]| {
            let at = find(self.rest, name)?;
            number(&self.rest[at + name.len()..]).map(|(number, _)| number)
        };
        Some((after(b"GPC ")?, after(b"TPC ")?))
    }
}

/// An `SXid` line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sxid<'a> {
    /// The switch's PCI address.
    pub(super) address: &'a str,
    /// The code.
    pub(super) code: u32,
    /// The port, if the line names one.
    pub(super) link: Option<u32>,
    /// Does the line add detail to one before it?
    pub(super) detail: bool,
}

impl<'a> Sxid<'a> {
    /// Reads `(PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 ...`, the line from its bracket on.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let (address, code, rest) = head(text)?;
        let link = find(rest, b"Link ").and_then(|at| number(&rest[at + 5..]));
        let detail = [&b", Severity "[..], b", Data {"].iter().any(|word| rest.starts_with(word));
        Some(Self { address, code, link: link.map(|(link, _)| link), detail })
    }
}

/// `(PCI:ADDRESS): CODE`, and what follows.
fn head(text: &[u8]) -> Option<(&str, u32, &[u8])> {
    let text = text.strip_prefix(b"(")?;
    let text = text.strip_prefix(b"PCI:").unwrap_or(text);
    let end = text.iter().take(24).position(|byte| *byte == b')')?;
    let (address, rest) = text.split_at(end);
    let valid = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    if address.len() < 5 || !address.iter().all(valid) {
        return None;
    }
    let rest = rest.strip_prefix(b"):")?;
    let spaces = rest.iter().take(4).take_while(|byte| **byte == b' ').count();
    let (code, rest) = number(&rest[spaces..])?;
    if rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    Some((std::str::from_utf8(address).ok()?, code, rest))
}

/// The first place where `needle` stands.
pub(super) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len().max(1)).position(|window| window == needle)
}

fn number(text: &[u8]) -> Option<(u32, &[u8])> {
    digits(text, 10, 9)
}

fn hex(text: &[u8]) -> Option<(u32, &[u8])> {
    digits(text, 16, 8)
}

fn digits(text: &[u8], radix: u32, most: usize) -> Option<(u32, &[u8])> {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let count = text.iter().take(most + 1).take_while(is_digit).count();
    if count == 0 || count > most {
        return None;
    }
    let (digits, rest) = text.split_at(count);
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u32::from_str_radix(digits, radix).ok()?, rest))
}

/// The hexadecimal words in the last round or square brackets.
fn words(text: &[u8]) -> Vec<u32> {
    let Some(open) = text.iter().rposition(|byte| matches!(byte, b'(' | b'[')) else {
        return Vec::new();
    };
    let mut words = Vec::new();
    let mut text = &text[open..];
    while words.len() < MAX_WORDS
        && let Some(at) = find(text, b"0x")
    {
        let Some((word, rest)) = hex(&text[at + 2..]) else { break };
        words.push(word);
        text = rest;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xid(line: &str) -> Xid<'_> {
        Xid::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn the_forms_of_the_driver_are_read() {
        let line = xid(
            "(PCI:0000:b5:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address",
        );
        assert_eq!((line.address, line.code, line.cluster()), ("0000:b5:00", 13, Some((1, 3))));
        let line = xid(
            "(PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        );
        let registers = line.registers();
        assert_eq!(
            (registers.link, &registers.words[..]),
            (Some(14), &[0, 0, 0x1_0000, 0, 0, 0, 0][..])
        );
        let line = xid(
            "(PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
        );
        let words = line.nvlink5();
        assert_eq!((words.unit.as_deref(), words.link), (Some("NETIR_LINK_EVT"), Some(9)));
        assert_eq!(words.words[0] >> 20 & 0x3f, 37);
        let line = xid(
            "(PCI:0000:00:1e): 145, pid=4, name=<unknown>, RLW_SRC_TRACK Fatal XC0 i1 Link 00 (0x00000001 0x00000002)",
        );
        assert_eq!(line.nvlink5().unit.as_deref(), Some("RLW_SRC_TRACK"));
        let line = xid(
            "(PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        );
        assert_eq!(line.recovery(), Some(1));
        assert_eq!(xid("(PCI:0000:3f:00): 46").code, 46);
    }

    #[test]
    fn what_is_no_such_line_is_refused() {
        for line in [
            "",
            "(",
            "(PCI:)",
            "(PCI:0000:66:00): abc, pid=1",
            "(PCI:0000:66:00): 12ab",
            ": 32, pid=2280636",
            "(PCI:0000:66:00 : 32",
            "(PCI:../../../: 1): 31",
            "(PCI:0000:66:00): 4294967296",
        ] {
            assert_eq!(Xid::parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(xid("(PCI:0000:01:00): 154 (").recovery(), None);
        assert_eq!(
            xid("(PCI:0000:01:00): 74, link 99999999999(0xzz").registers().words,
            Vec::<u32>::new()
        );
    }

    #[test]
    fn details_of_a_switch_error_are_told_from_the_error() {
        let text = b"(PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)";
        let line = Sxid::parse(text).unwrap();
        assert_eq!((line.code, line.link, line.detail), (28_006, Some(46), false));
        let text =
            b"(PCI:0000:c1:00.0): 28006, Severity 0 Engine instance 46 Sub-engine instance 00";
        assert!(Sxid::parse(text).unwrap().detail);
    }
}
