//! Objects of S3 and of what speaks like it: where they lie, who asks, and the proof of it.
//!
//! Requests are signed with Signature Version 4; without credentials they are not signed, as public
//! buckets want it. Of where credentials can come from, the environment and the shared files are
//! read; what would need another service (SSO, roles, a container's or an instance's metadata) is
//! refused by name rather than tried without.

mod address;
mod credentials;
mod profile;
mod sign;

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

pub use address::Addressing;
pub(crate) use address::{Address, encoded};
use credentials::Found;
pub use credentials::{Credentials, CredentialsError};
pub(crate) use sign::{Request, query};
use sign::{Scope, Stamp};

use crate::location::{Kind, Location};
use crate::remote::Fault;
use crate::remote::url::{BadUrl, Url};

/// The region where none is named, as the AWS tools have it.
const REGION: &str = "us-east-1";

/// Who asks, and of whom. What is not set comes from the environment and the files that the AWS tools
/// read, when an `s3://` location is opened: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
/// `AWS_SESSION_TOKEN`, `AWS_PROFILE`, `AWS_REGION`, `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_S3`,
/// `AWS_ENDPOINT_URL`, `AWS_SHARED_CREDENTIALS_FILE`, `AWS_CONFIG_FILE`.
#[derive(Clone, Debug, Default)]
pub struct S3 {
    /// Whose credentials are used.
    pub signer: Signer,
    /// The section of the shared files.
    pub profile: Option<String>,
    /// Where the bucket lies.
    pub region: Option<String>,
    /// Another store than AWS: `https://HOST[:PORT]`.
    pub endpoint: Option<String>,
    /// Where a bucket's name stands.
    pub addressing: Addressing,
}

/// Whose credentials are used.
#[derive(Clone, Debug, Default)]
pub enum Signer {
    /// Those of the environment, else of the shared files, else nobody's.
    #[default]
    Found,
    /// These.
    Given(Credentials),
    /// Nobody's: requests are not signed.
    Nobody,
}

/// An object, ready to be asked for.
pub(crate) struct Ready {
    pub(crate) url: Url,
    pub(crate) region: String,
    credentials: Option<Credentials>,
}

impl S3 {
    /// Finds what the options do not say.
    pub(crate) fn ready(
        &self,
        address: &Address,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Ready, Fault> {
        let found = Found::new(self.profile.as_deref(), variable)?;
        let credentials = match &self.signer {
            Signer::Found => found.credentials()?,
            Signer::Given(credentials) => Some(credentials.clone()),
            Signer::Nobody => None,
        };
        let set = |name| variable(name)?.into_string().ok().filter(|value| !value.is_empty());
        let region = self.region.clone().or_else(|| set("AWS_REGION"));
        let region = region.or_else(|| set("AWS_DEFAULT_REGION")).or_else(|| found.said("region"));
        let region = region.unwrap_or_else(|| REGION.to_owned());
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(CredentialsError::Region { region }.into());
        }
        let endpoint = self.endpoint.clone().or_else(|| set("AWS_ENDPOINT_URL_S3"));
        let endpoint = endpoint.or_else(|| set("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.or_else(|| found.said("endpoint_url"));
        let wrong = |source: BadUrl| CredentialsError::Endpoint { source };
        let endpoint = endpoint.map(|url| Url::parse(&url)).transpose().map_err(wrong)?;
        let url = address.url(endpoint.as_ref(), &region, self.addressing);
        Ok(Ready { url, region, credentials })
    }
}

impl Ready {
    /// The fields that make a request ours, each with its line's end; empty for nobody's.
    pub(crate) fn fields(&self, request: &Request<'_>) -> String {
        let Some(credentials) = &self.credentials else { return String::new() };
        sign::fields(&self.url, request, credentials, &self.scope(&Stamp::now()))
    }

    fn scope<'a>(&'a self, stamp: &'a Stamp) -> Scope<'a> {
        Scope { region: &self.region, service: "s3", stamp }
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed = self.credentials.is_some();
        out.debug_struct("Ready").field("url", &self.url).field("signed", &signed).finish()
    }
}

/// A URL by which anybody may read an `s3://` object for so long (7 days at most, by AWS): it is a
/// secret while it lasts.
///
/// # Errors
/// If the location is not `s3://`, or there are no credentials to sign with.
pub fn presign(location: &Location, s3: &S3, valid: Duration) -> Result<String, Fault> {
    let Kind::S3(address) = location.kind() else { return Err(CredentialsError::NotS3.into()) };
    let ready = s3.ready(address, &|name| std::env::var_os(name))?;
    let credentials = ready.credentials.as_ref().ok_or(CredentialsError::None)?;
    Ok(sign::presigned(&ready.url, credentials, &ready.scope(&Stamp::now()), valid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_the_environment() {
        let address = Address::parse("bucket/key").unwrap();
        let environment = |name: &str| {
            let value = match name {
                "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => "x",
                "AWS_DEFAULT_REGION" => "eu-west-1",
                "AWS_ENDPOINT_URL" => "https://store:9000",
                _ => return None,
            };
            Some(OsString::from(value))
        };
        let ready = S3::default().ready(&address, &environment).unwrap();
        assert_eq!(ready.url.to_string(), "https://store:9000/bucket/key");
        assert_eq!((ready.region.as_str(), ready.credentials.is_some()), ("eu-west-1", true));
        let said = S3 {
            signer: Signer::Nobody,
            region: Some("us-west-2".to_owned()),
            endpoint: Some("http://other".to_owned()),
            ..S3::default()
        };
        let ready = said.ready(&address, &environment).unwrap();
        assert_eq!(ready.url.to_string(), "http://other/bucket/key");
        assert_eq!(
            (ready.region.as_str(), ready.fields(&Request::GET)),
            ("us-west-2", String::new())
        );
        let broken = S3 { region: Some("a\r\nb".to_owned()), ..S3::default() };
        assert!(broken.ready(&address, &environment).is_err());
    }
}
