//! The boot service: what a machine that comes up from the network is told.
//!
//! Firmware or iPXE asks for a script by hardware address; the script loads kernel and initial RAM
//! disk and starts them. What runs then reads the same as JSON (the manifest), and, once it serves,
//! exchanges its boot for a token to join the cluster.
//!
//! | request | answer |
//! |---|---|
//! | `GET /boot/v1/script?mac=` | an iPXE script |
//! | `GET /boot/v1/manifest?mac=` | a [`Manifest`] |
//! | `POST /boot/v1/join` with a [`JoinRequest`] | a [`JoinToken`], once per boot |
//!
//! Guarantees: nothing secret is given out by hardware address, which anybody on the network can
//! claim; a token is given only to a machine in Production, for the boot that its agent has reported,
//! and once; a name or URL that would end a line of the script or be expanded in it is refused.
//! It does not serve images, DHCP or TFTP, and does not prove which machine asks: that needs the
//! machine's TPM.

mod door;
mod script;

use std::fmt;
use std::future::Future;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use door::answer;
pub use script::{Unfit, script};

/// What a machine boots; the answer to `GET /boot/v1/manifest`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The machine's name.
    pub machine: String,
    /// The image's name.
    pub image: String,
    /// The URL of the kernel.
    pub kernel: String,
    /// The URL of the initial RAM disk.
    pub initrd: String,
    /// Arguments of the kernel.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The URL of this service, as the machine reaches it.
    pub service: String,
    /// The URL of the Kubernetes API, as the machine reaches it.
    pub api: String,
}

/// A machine that may boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booting {
    /// What it boots.
    pub manifest: Manifest,
    /// It is in Production, so that a node of it may join.
    pub production: bool,
    /// The boot that runs, as its agent has reported.
    pub boot: Option<String>,
}

/// What a machine sends to join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinRequest {
    /// One of its hardware addresses.
    pub mac: String,
    /// The kernel's boot ID.
    pub boot: String,
}

/// A token that one boot of one machine joins the cluster with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinToken {
    /// The token; never logged.
    pub token: String,
    /// Until when it can be used.
    pub expires: Timestamp,
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("JoinToken").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// What came of asking for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Join {
    /// The first of this boot.
    Token(JoinToken),
    /// This boot has had its token.
    Spent,
}

/// The source cannot say at this moment; the machine asks again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Where the service's answers come from.
pub trait BootSource: Send + Sync {
    /// The machine with this hardware address, written as `02:00:00:00:00:01`; none if no machine
    /// has it.
    fn machine(
        &self,
        mac: &str,
    ) -> impl Future<Output = Result<Option<Booting>, Unavailable>> + Send;

    /// A token for this boot of this machine. Must give one at most per boot, whoever asks at the
    /// same time; that the machine may have it has been looked at.
    fn join(
        &self,
        machine: &str,
        boot: &str,
    ) -> impl Future<Output = Result<Join, Unavailable>> + Send;
}

/// Reads a hardware address as firmware writes it: with colons or hyphens or neither, in any case,
/// with or without the hardware type that PXE puts in front. `None` if it is none.
pub fn hardware_address(text: &str) -> Option<String> {
    let text = text.trim();
    let separated = |byte: char| matches!(byte, ':' | '-');
    let digits: String = text.chars().filter(|c| !separated(*c)).take(15).collect();
    // Ethernet is type 1 in PXELINUX's form (`01-02-00-00-00-00-01`).
    let digits = if digits.len() == 14 { digits.strip_prefix("01")? } else { &digits };
    let right = digits.len() == 12 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let pairs = digits.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    right.then(|| pairs.collect::<Vec<_>>().join(":").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_firmware_writes_them() {
        let right = Some("02:00:00:00:00:0a".to_owned());
        for text in [
            "02:00:00:00:00:0a",
            "02-00-00-00-00-0A",
            "02000000000a",
            "01-02-00-00-00-00-0a",
            " 02:00:00:00:00:0A ",
        ] {
            assert_eq!(hardware_address(text), right, "{text}");
        }
        for text in ["", "02:00", "02:00:00:00:00:0g", "020000000000000000", "ä2:00:00:00:00:00"] {
            assert_eq!(hardware_address(text), None, "{text}");
        }
    }
}
