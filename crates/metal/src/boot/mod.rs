//! The boot service: what a machine that comes up from the network is told.
//!
//! Firmware or iPXE asks for a script by hardware address; the script loads kernel and initial RAM
//! disk and starts them. What runs then reads the same as JSON (the manifest), draws a secret, asks who
//! it is (an identity for its agent), and, once it serves, asks for a token to join the cluster.
//!
//! | request | answer |
//! |---|---|
//! | `GET /boot/v1/script?mac=` | an iPXE script |
//! | `GET /boot/v1/manifest?mac=` | a [`Manifest`] |
//! | `POST /boot/v1/enrol` with a [`Claim`] | an [`Identity`], for as long as the boot lasts |
//! | `POST /boot/v1/join` with a [`Claim`] | a [`JoinToken`], in production |
//!
//! Guarantees: nothing secret is given out by hardware address alone, which anybody on the network can
//! claim: the first to ask for a boot with a secret is that boot, and nobody else gets anything for it.
//! A token is given only to a machine in Production, for the boot that its agent has reported, and one
//! at a time; a name or URL that would end a line of the script or be expanded in it is refused.
//! It does not serve images, DHCP or TFTP, and does not prove which machine asks first: that needs the
//! machine's TPM (docs/adr/0007).

mod client;
mod door;
mod script;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use client::{NotGiven, enrol, join};
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

/// What a boot sends that asks who it is, or for a token to join.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    /// One of the machine's hardware addresses.
    pub mac: String,
    /// The kernel's boot ID.
    pub boot: String,
    /// What this boot has drawn for itself, the same whenever it asks: 32 characters at least; never
    /// logged.
    pub secret: String,
}

impl fmt::Debug for Claim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mac, boot, secret: _ } = self;
        out.debug_struct("Claim").field("mac", mac).field("boot", boot).finish_non_exhaustive()
    }
}

/// Who the agent of a machine is towards the Kubernetes API.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The machine's name.
    pub machine: String,
    /// A bearer token; never logged.
    pub token: String,
    /// Until when it can be used; the boot asks again before.
    pub expires: Timestamp,
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, token: _, expires } = self;
        let mut out = out.debug_struct("Identity");
        out.field("machine", machine).field("expires", expires).finish_non_exhaustive()
    }
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

/// What came of asking who a boot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enrol {
    /// This is who.
    Known(Identity),
    /// It is told nothing, and why.
    Refused(String),
}

/// What came of asking for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Join {
    /// Here it is.
    Token(JoinToken),
    /// This boot has had its token.
    Spent {
        /// After how long it may ask for another; never, if absent.
        after: Option<Duration>,
    },
    /// It gets none, and why.
    Refused(String),
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

    /// Who this boot of this machine is. Must tell nobody who does not know the secret that the boot
    /// was first asked for with.
    fn enrol(
        &self,
        machine: &str,
        boot: &str,
        secret: &str,
    ) -> impl Future<Output = Result<Enrol, Unavailable>> + Send;

    /// A token for this boot of this machine. Must give one at most at a time, whoever asks at the
    /// same time, and none to who does not know the boot's secret; that the machine may have one has
    /// been looked at.
    fn join(
        &self,
        machine: &str,
        boot: &str,
        secret: &str,
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
