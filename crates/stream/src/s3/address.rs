//! `s3://BUCKET/KEY`, and the URL that it comes to.

use std::fmt;

use crate::remote::url::{BadUrl, Origin, Url};

/// Where a bucket's name stands in a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// At AWS in the host, if it can be part of one; elsewhere in the path.
    #[default]
    Auto,
    /// `https://HOST/BUCKET/KEY`.
    Path,
    /// `https://BUCKET.HOST/KEY`.
    Virtual,
}

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    bucket: String,
    /// As it is, not encoded.
    key: String,
}

impl Address {
    /// Reads `BUCKET/KEY`. A key is taken as it stands: a `%20` in it is three letters.
    pub(crate) fn parse(text: &str) -> Result<Self, BadUrl> {
        let (bucket, key) = text.split_once('/').ok_or(BadUrl::Bucket)?;
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || key.is_empty() || !bucket.bytes().all(letter) {
            return Err(BadUrl::Bucket);
        }
        if key.chars().any(char::is_control) {
            return Err(BadUrl::Control);
        }
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// Its name in the bucket, as it is.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Where it lies.
    pub(crate) fn url(&self, endpoint: Option<&Url>, region: &str, addressing: Addressing) -> Url {
        let of_aws = || {
            let domain =
                if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
            Origin { tls: true, host: format!("s3.{region}.{domain}"), port: 443 }
        };
        let (mut origin, before) = match endpoint {
            Some(url) => (url.origin.clone(), url.path.trim_end_matches('/').to_owned()),
            None => (of_aws(), String::new()),
        };
        let virtually = match addressing {
            Addressing::Auto => endpoint.is_none() && self.is_label(),
            Addressing::Path => false,
            Addressing::Virtual => true,
        };
        let key = encoded(&self.key, true);
        let path = if virtually {
            origin.host = format!("{}.{}", self.bucket, origin.host).to_ascii_lowercase();
            format!("{before}/{key}")
        } else {
            format!("{before}/{}/{key}", self.bucket)
        };
        Url { origin, path, query: None }
    }

    /// Whether the bucket's name is one part of a host's name: a dot in it would not match the
    /// certificate.
    fn is_label(&self) -> bool {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        self.bucket.len() <= 63 && self.bucket.bytes().all(letter)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "s3://{}/{}", self.bucket, self.key)
    }
}

/// As AWS encodes: everything but letters, digits and `-._~`, and `/` where it parts a path.
pub(crate) fn encoded(text: &str, path: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || path && byte == b'/' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_stands_in_the_host_or_in_the_path() {
        let told = |text: &str, endpoint: Option<&str>, region: &str, addressing| {
            let endpoint = endpoint.map(|text| Url::parse(text).unwrap());
            let address = Address::parse(text).unwrap();
            address.url(endpoint.as_ref(), region, addressing).to_string()
        };
        let (auto, path, host) = (Addressing::Auto, Addressing::Path, Addressing::Virtual);
        let aws = "https://models.s3.eu-west-1.amazonaws.com/a/b%20c%2B%25.tensors";
        assert_eq!(told("models/a/b c+%.tensors", None, "eu-west-1", auto), aws);
        let aws = "https://s3.eu-west-1.amazonaws.com/models/a";
        assert_eq!(told("models/a", None, "eu-west-1", path), aws);
        let dotted = "https://s3.us-east-1.amazonaws.com/my.models/a";
        assert_eq!(told("my.models/a", None, "us-east-1", auto), dotted);
        let china = "https://m.s3.cn-north-1.amazonaws.com.cn/a";
        assert_eq!(told("m/a", None, "cn-north-1", auto), china);
        let own = Some("http://store:9000/");
        assert_eq!(told("m/a//b", own, "x", auto), "http://store:9000/m/a//b");
        assert_eq!(told("m/a", own, "x", host), "http://m.store:9000/a");
    }

    #[test]
    fn a_location_has_a_bucket_and_a_key() {
        for text in ["", "bucket", "bucket/", "/key", "buc ket/key", "b@c/key"] {
            assert_eq!(Address::parse(text).err(), Some(BadUrl::Bucket), "{text}");
        }
        assert_eq!(Address::parse("b/k\n").err(), Some(BadUrl::Control));
    }
}
