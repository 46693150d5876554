//! Bytes to where a URL says: whole to whoever takes a PUT, and to S3 in parts beside each other.
//!
//! An object of S3 is there when its last step is answered, and what was there before stays until then;
//! an upload that fails is aborted, so that nobody pays for its parts. What passes is waited out as when
//! reading: a part is sent again, a PUT begins again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::connection::Connection;
use super::fault::Fault;
use super::fetch::Trying;
use super::head::Head;
use super::patience::Reins;
use super::wire::{Asked, Wire};
use super::{Remote, url::Url};
use crate::s3::{Ready, Request};

/// Who takes the bytes. See the module.
#[derive(Debug)]
pub(crate) struct Store {
    wire: Wire,
}

/// Why a PUT ended.
pub(crate) enum Sent<E> {
    /// The store or the way to it.
    Fault(Fault),
    /// Whoever makes the bytes.
    Maker(E),
}

/// Sends some bytes of a PUT. It fails as [`Fault::Cancelled`] once no more are taken; why is known to
/// whoever began it.
pub(crate) type Give<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Fault>;

impl Store {
    /// An object of S3.
    pub(crate) fn s3(ready: Ready, how: &Remote) -> Self {
        Self { wire: Wire::new(Asked::S3(ready), how) }
    }

    /// Whoever answers to a URL.
    pub(crate) fn http(url: &Url, how: &Remote) -> Self {
        Self { wire: Wire::new(Asked::Url(url.clone()), how) }
    }

    /// Requests beside each other that are allowed.
    pub(crate) fn connections(&self) -> usize {
        self.wire.how.connections.get()
    }

    /// Stores a whole object of S3.
    pub(crate) fn whole(&self, body: &[u8]) -> Result<(), Fault> {
        let (connection, _) = self.ask(&Request { method: "PUT", query: &[], body })?;
        self.wire.keep(connection);
        Ok(())
    }

    /// Begins an object in parts: the name of the upload.
    pub(crate) fn begin(&self) -> Result<String, Fault> {
        let query = [pair("uploads", "")];
        let request = Request { method: "POST", query: &query, body: &[] };
        let (mut connection, head) = self.ask(&request)?;
        let said = connection.explanation(&head);
        let id = between(&said, "UploadId").filter(|id| !id.is_empty() && id.len() <= 1024);
        id.filter(|id| !id.contains(char::is_control))
            .ok_or_else(|| Fault::Protocol("no name of an upload".to_owned()))
    }

    /// Sends a part: its tag.
    pub(crate) fn part(&self, upload: &str, number: u32, body: &[u8]) -> Result<String, Fault> {
        let query = [pair("partNumber", &number.to_string()), pair("uploadId", upload)];
        let (connection, head) = self.ask(&Request { method: "PUT", query: &query, body })?;
        self.wire.keep(connection);
        head.etag.ok_or_else(|| Fault::Protocol("no ETag of a part".to_owned()))
    }

    /// Makes the parts, by their numbers, one object.
    pub(crate) fn complete(
        &self,
        upload: &str,
        parts: &BTreeMap<u32, String>,
    ) -> Result<(), Fault> {
        let mut body = "<CompleteMultipartUpload>".to_owned();
        for (number, tag) in parts {
            let tag = tag.replace('&', "&amp;").replace('<', "&lt;");
            // Writing to a string does not fail.
            let _ =
                write!(body, "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
        }
        body.push_str("</CompleteMultipartUpload>");
        let query = [pair("uploadId", upload)];
        let request = Request { method: "POST", query: &query, body: body.as_bytes() };
        let (reins, mut trying) = (Reins::default(), Trying::default());
        let mut lost = false;
        loop {
            let done = self.once(&request, &reins).and_then(|(mut connection, head)| {
                // Its status was sent before it was done; the body says how it went (AWS's API
                // reference, CompleteMultipartUpload).
                let said = connection.explanation(&head);
                match between(&said, "Code") {
                    Some(code) if said.contains("<Error>") => {
                        let (status, code) = (500, format!(" {code}"));
                        Err(Fault::Unavailable { status, code, after: None })
                    }
                    _ => Ok(()),
                }
            });
            match done {
                Ok(()) => return Ok(()),
                Err(Fault::Missing { .. }) if lost => return Err(Fault::Unsure),
                Err(fault) => {
                    lost |= matches!(fault, Fault::Broken(_) | Fault::Cut | Fault::Stalled(_));
                    trying.after(fault, &self.wire, &reins)?;
                }
            }
        }
    }

    /// Forgets an upload and its parts, if that can be done at once.
    pub(crate) fn abort(&self, upload: &str) {
        let query = [pair("uploadId", upload)];
        let request = Request { method: "DELETE", query: &query, body: &[] };
        if let Ok((connection, _)) = self.once(&request, &Reins::default()) {
            self.wire.keep(connection);
        }
    }

    /// Sends a body of so many bytes in the order in which they are made. They are made again from the
    /// first if the way to the store breaks.
    pub(crate) fn put<E>(
        &self,
        len: u64,
        make: &mut dyn FnMut(Give<'_>) -> Result<(), E>,
    ) -> Result<(), Sent<E>> {
        let (reins, mut trying) = (Reins::default(), Trying::default());
        loop {
            let fault = match self.wire.put(len, &reins) {
                Err(fault) => fault,
                Ok(connection) => match self.body(connection, make)? {
                    None => return Ok(()),
                    Some(fault) => fault,
                },
            };
            trying.after(fault, &self.wire, &reins).map_err(Sent::Fault)?;
        }
    }

    /// Sends a body once: what broke, if something did.
    fn body<E>(
        &self,
        mut connection: Connection,
        make: &mut dyn FnMut(Give<'_>) -> Result<(), E>,
    ) -> Result<Option<Fault>, Sent<E>> {
        let mut broke = None;
        let made = make(&mut |bytes| {
            connection.give(bytes).map_err(|fault| {
                broke = Some(fault);
                Fault::Cancelled
            })
        });
        match (broke, made) {
            // It may have said why it takes no more.
            (Some(fault), _) => {
                if let Err(fault) = connection.refused(fault) {
                    return Ok(Some(fault));
                }
            }
            (None, Err(error)) => return Err(Sent::Maker(error)),
            (None, Ok(())) => {}
        }
        let head = match connection.answer() {
            Ok(head) => head,
            Err(fault) => return Ok(Some(fault)),
        };
        if (200..300).contains(&head.status) {
            self.wire.keep(connection);
            return Ok(None);
        }
        Ok(Some(self.wire.refusal(connection, &head)))
    }

    /// Asks until it is done, in spite of what passes.
    fn ask(&self, request: &Request<'_>) -> Result<(Connection, Head), Fault> {
        let (reins, mut trying) = (Reins::default(), Trying::default());
        loop {
            match self.once(request, &reins) {
                Ok(answer) => return Ok(answer),
                Err(fault) => trying.after(fault, &self.wire, &reins)?,
            }
        }
    }

    fn once(&self, request: &Request<'_>, reins: &Reins) -> Result<(Connection, Head), Fault> {
        let (connection, head) = self.wire.order(request, reins)?;
        match head.status {
            200..300 => Ok((connection, head)),
            _ => Err(self.wire.refusal(connection, &head)),
        }
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The text of the first element of a name, which has no elements in it.
fn between(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&amp;", "&"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_found() {
        let xml = "<?xml?><R xmlns=\"x\"><UploadId>a&amp;lt;b</UploadId></R>";
        assert_eq!(between(xml, "UploadId").as_deref(), Some("a&lt;b"));
        assert_eq!(between(xml, "Code"), None);
        assert_eq!(between("<Code>cut", "Code"), None);
    }
}
