//! The iPXE script of a machine.
//!
//! iPXE splits lines at spaces, takes `||`, `&&` and `;` as operators, `#` for a comment, and expands
//! `${...}`, without a way to escape any of them (ipxe.org/scripting); so words that have them are
//! refused.

use super::Manifest;

/// The longest word of a script, in bytes. iPXE's own limit for a line of arguments is larger.
const LONGEST: usize = 1024;
/// How long a machine waits before it asks again, in seconds. All of a site that comes up after a
/// power cut asks at once, so it is not short.
const WAIT: u32 = 10;

/// What a manifest says cannot stand in a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{field} cannot be booted: {word:?} is empty, longer than {LONGEST} bytes, or holds a space, an \
     operator of iPXE, `#` or `${{`"
)]
pub struct Unfit {
    field: &'static str,
    word: String,
}

/// The script by which a machine boots what its manifest says.
///
/// The kernel is told where the manifest is, so that what runs next needs nothing else. A step that
/// fails is tried again from the beginning: what shall be booted may be another by then.
///
/// # Errors
/// If a word of the manifest cannot stand in a script.
pub fn script(manifest: &Manifest, mac: &str) -> Result<String, Unfit> {
    let Manifest { machine, image, kernel, initrd, arguments, service, .. } = manifest;
    let fixed = [
        ("the machine's name", machine),
        ("the image's name", image),
        ("the kernel's URL", kernel),
        ("the initial RAM disk's URL", initrd),
        ("the service's URL", service),
    ];
    let words = arguments.iter().map(|argument| ("a kernel argument", argument));
    for (field, word) in fixed.into_iter().chain(words) {
        if !fits(word) {
            let word = word.chars().take(80).collect();
            return Err(Unfit { field, word });
        }
    }
    let service = service.trim_end_matches('/');
    let mut line = arguments.join(" ");
    if !line.is_empty() {
        line.push(' ');
    }
    Ok(format!(
        "#!ipxe\n\
         echo Seatrial: {machine} boots {image}\n\
         kernel --name kernel {kernel} initrd=initrd {line}seatrial.machine={machine} \
         seatrial.manifest={service}/boot/v1/manifest?mac={mac} || goto failed\n\
         initrd --name initrd {initrd} || goto failed\n\
         boot || goto failed\n\
         :failed\n\
         echo Seatrial: {machine} could not boot {image}, asks again in {WAIT} s\n\
         sleep {WAIT}\n\
         chain --replace {service}/boot/v1/script?mac={mac} || reboot\n"
    ))
}

fn fits(word: &str) -> bool {
    let plain = |c: u8| c.is_ascii_graphic() && !matches!(c, b'#' | b';' | b'`' | b'"' | b'\'');
    let joined = ["||", "&&", "${"].iter().any(|operator| word.contains(operator));
    !word.is_empty() && word.len() <= LONGEST && word.bytes().all(plain) && !joined
}
