//! URLs of HTTP: what is asked for, of whom.
//!
//! Only what a request needs is kept, and nothing in it can break a request's lines. Credentials in a
//! URL are refused: they would be told wherever the URL is. Names outside ASCII must come as their
//! punycode.

use std::fmt;

/// Why a URL is not usable. Says neither its query nor its credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// A scheme that is not read.
    #[error("{scheme}:// is not read: give a path, http://, https:// or s3://BUCKET/KEY")]
    Scheme {
        /// Which one.
        scheme: String,
    },
    /// A user's name or password.
    #[error("the URL holds credentials, which are not read: leave out what stands before the @")]
    Credentials,
    /// No name, no address.
    #[error("the URL names no host")]
    Host,
    /// Not a number from 1 to 65535.
    #[error("the port of the URL is none")]
    Port,
    /// A line break or the like.
    #[error("the URL has a control character in it")]
    Control,
    /// Where a prefix is wanted.
    #[error("the URL has a query, which is of one object: leave out what stands from the ? on")]
    Query,
    /// No bucket, or no key.
    #[error("an S3 location is s3://BUCKET/KEY")]
    Bucket,
}

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// Who is asked.
    pub(crate) origin: Origin,
    /// Begins with a slash.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
}

/// Who answers: what a connection is made to, and what secrets belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    /// In lower case; an address of version 6 without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// As the `Host` header has it: without the port that the scheme implies.
    pub(crate) fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let implied = if self.tls { 443 } else { 80 };
        if self.port == implied { host } else { format!("{host}:{}", self.port) }
    }
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(BadUrl::Host)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            other => return Err(BadUrl::Scheme { scheme: other.to_owned() }),
        };
        if text.chars().any(char::is_control) {
            return Err(BadUrl::Control);
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(encoded(query))),
            None => (rest, None),
        };
        let path = if path.is_empty() { "/".to_owned() } else { encoded(path) };
        Ok(Self { origin: origin(tls, authority)?, path, query })
    }

    /// What a redirect from here to there comes to.
    pub(crate) fn join(&self, location: &str) -> Result<Self, BadUrl> {
        if let Some((scheme, _)) = location.split_once("://")
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Self::parse(location);
        }
        let scheme = if self.origin.tls { "https" } else { "http" };
        if location.starts_with("//") {
            return Self::parse(&format!("{scheme}:{location}"));
        }
        let base = format!("{scheme}://{}", self.origin.authority());
        if location.starts_with('/') {
            return Self::parse(&format!("{base}{location}"));
        }
        if location.starts_with('?') {
            return Self::parse(&format!("{base}{}{location}", self.path));
        }
        let folder = self.path.rfind('/').map_or("/", |slash| &self.path[..=slash]);
        Self::parse(&format!("{base}{folder}{location}"))
    }

    /// Path and query, as a request's first line has them.
    pub(crate) fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.origin.tls { "https" } else { "http" };
        let query = if self.query.is_some() { "?..." } else { "" };
        write!(out, "{scheme}://{}{}{query}", self.origin.authority(), self.path)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

fn origin(tls: bool, authority: &str) -> Result<Origin, BadUrl> {
    if authority.contains('@') {
        return Err(BadUrl::Credentials);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(BadUrl::Host)?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(BadUrl::Host);
            }
            (host, port.strip_prefix(':').or(port.is_empty().then_some("")).ok_or(BadUrl::Port)?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || !host.bytes().all(name) {
        return Err(BadUrl::Host);
    }
    let port = match port {
        "" if tls => 443,
        "" => 80,
        port => port.parse().ok().filter(|port| *port != 0).ok_or(BadUrl::Port)?,
    };
    Ok(Origin { tls, host: host.to_ascii_lowercase(), port })
}

/// With what a request's line cannot hold written as `%XX`; what is written so already stays.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(text: &str) -> String {
        let url = Url::parse(text).unwrap();
        format!("{} {} {}", url.origin.tls, url.origin.authority(), url.target())
    }

    #[test]
    fn a_url_is_taken_apart() {
        assert_eq!(told("http://Host"), "false host /");
        assert_eq!(told("https://host:443/a%20b?x=1#part"), "true host /a%20b?x=1");
        assert_eq!(told("http://host:8080?x"), "false host:8080 /?x");
        assert_eq!(told("http://[::1]:80/a b/ä"), "false [::1] /a%20b/%C3%A4");
    }

    #[test]
    fn what_is_no_url_is_told_without_its_secrets() {
        let refused = |text: &str| Url::parse(text).unwrap_err();
        assert_eq!(refused("http://user:hunter2@host/"), BadUrl::Credentials);
        assert_eq!(refused("http:///x"), BadUrl::Host);
        assert_eq!(refused("http://a b/"), BadUrl::Host);
        assert_eq!(refused("http://[::1/"), BadUrl::Host);
        assert_eq!(refused("http://h:0/"), BadUrl::Port);
        assert_eq!(refused("http://h:65536/"), BadUrl::Port);
        assert_eq!(refused("http://h/\r\nX: y"), BadUrl::Control);
    }

    #[test]
    fn a_redirect_is_followed_from_where_it_was() {
        let here = Url::parse("https://host:8443/a/b?q=1").unwrap();
        let to = |location: &str| {
            let url = here.join(location).unwrap();
            format!("{}{}", url.origin.authority(), url.target())
        };
        assert_eq!(to("http://other/x?y=2"), "other/x?y=2");
        assert_eq!(to("//other/x"), "other/x");
        assert_eq!(to("/x"), "host:8443/x");
        assert_eq!(to("x?u=http://y"), "host:8443/a/x?u=http://y");
        assert_eq!(to("?z"), "host:8443/a/b?z");
        assert!(here.join("http://user@other/").is_err());
    }

    proptest! {
        #[test]
        fn no_text_breaks_a_request(text in "(https?://)?[ -~\\r\\n\\tä\\[\\]:/?#@%]{0,60}") {
            if let Ok(url) = Url::parse(&text) {
                let line = format!("{}{}", url.origin.authority(), url.target());
                prop_assert!(line.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(url.path.starts_with('/'));
                let _ = url.join(&text);
            }
        }
    }
}
