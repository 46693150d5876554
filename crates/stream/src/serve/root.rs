//! What a server serves, and how the bytes of what was found in it are sent.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::cache::{Cache, Thing, Whence};
use super::folder::{Folder, Opened};
use super::refusal::Refusal;
use super::verdict::Version;

/// See the module.
#[derive(Debug)]
pub(super) enum Root {
    Folder(Folder),
    Cache(Arc<Cache>),
}

/// The bytes of something that was found.
pub(super) enum Body {
    File(Opened),
    /// And whether the origin alone may be asked for what is not here.
    Cached(Arc<Cache>, Arc<Thing>, Whence),
}

/// Sends some bytes of a file, and says which comes next.
pub(super) type Copy<'a> = dyn Fn(&File, &Range<u64>) -> io::Result<u64> + 'a;

impl Root {
    /// What a path is; a peer is not sent to a further one.
    pub(super) fn find(&self, path: &str, peer: bool) -> Result<(Body, Version), Refusal> {
        match self {
            Self::Folder(folder) => {
                let (opened, version) = folder.find(path)?;
                Ok((Body::File(opened), version))
            }
            Self::Cache(cache) => {
                let (thing, version) = cache.find(path)?;
                let whence = if peer { Whence::Origin } else { Whence::Nearest };
                Ok((Body::Cached(Arc::clone(cache), thing, whence), version))
            }
        }
    }
}

impl Body {
    /// Waits until the first byte of a range can be sent.
    pub(super) fn prepare(&self, range: &Range<u64>) -> Result<(), Refusal> {
        match self {
            Self::Cached(cache, thing, whence) if !range.is_empty() => {
                let (lease, start) = cache.chunk(thing, range, *whence)?;
                lease.chunk().beyond(range.start - start)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sends a range.
    pub(super) fn send(&self, range: &Range<u64>, copy: &Copy<'_>) -> io::Result<()> {
        let mut at = range.start;
        match self {
            Self::File(opened) => {
                while at < range.end {
                    at = copy(&opened.file, &(at..range.end))?;
                    if !opened.is_unchanged() {
                        return Err(io::Error::other("somebody wrote into it"));
                    }
                }
            }
            Self::Cached(cache, thing, whence) => {
                let failed = |refusal: Refusal| io::Error::other(refusal.line);
                while at < range.end {
                    let rest = at..range.end;
                    let (lease, start) = cache.chunk(thing, &rest, *whence).map_err(failed)?;
                    let chunk = lease.chunk();
                    while at < range.end && at - start < chunk.len() {
                        let ready = chunk.beyond(at - start).map_err(failed)?;
                        let end = ready.min(range.end - start);
                        at = start + copy(&chunk.file, &(at - start..end))?;
                    }
                }
            }
        }
        Ok(())
    }
}
