//! Addresses of BMCs, and the links in their answers.
//!
//! A link never leads away from the host that it came from: the credential goes with every request.

use super::Failure;
use http::Uri;

/// The longest link that is followed, in bytes.
const LONGEST: usize = 1024;

/// Where the service of a BMC begins: a host, and what stands before `/redfish`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    origin: String,
    prefix: String,
}

impl Base {
    /// Reads `https://10.0.0.7` or `http://127.0.0.1:8000/bmc/r1-s01`.
    pub(super) fn parse(address: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::Error(format!(
                "bmc.address {address:?} {why}; it must be a URL such as https://10.0.0.7"
            ))
        };
        let uri: Uri = address.parse().map_err(|_| wrong("is no URL"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong("lacks scheme or host"));
        };
        if !matches!(scheme, "http" | "https") {
            return Err(wrong("is neither http nor https"));
        }
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(wrong("carries a user or a query"));
        }
        let prefix = uri.path().trim_end_matches('/');
        // Some write the address with the service's root.
        let prefix = prefix.strip_suffix("/redfish/v1").unwrap_or(prefix).to_owned();
        Ok(Self { origin: format!("{scheme}://{authority}"), prefix })
    }

    /// The URL of a link: an absolute path with or without our prefix, or a URL on the same host.
    pub(super) fn url(&self, link: &str) -> Result<String, Failure> {
        let path = link.strip_prefix(&self.origin).unwrap_or(link);
        let ours = path.starts_with('/') && !path.starts_with("//") && path.len() <= LONGEST;
        if !ours || path.split('/').any(|part| part == "..") {
            let link: String = link.chars().take(80).collect();
            return Err(Failure::Error(format!("the BMC links to {link:?}, which is not on it")));
        }
        let carried = path.strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with('/'));
        let prefix = if carried { "" } else { self.prefix.as_str() };
        Ok(format!("{}{prefix}{path}", self.origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_on_their_host_and_behind_their_prefix() {
        let base = Base::parse("http://127.0.0.1:8000/bmc/r1-s01/").unwrap();
        let full = "http://127.0.0.1:8000/bmc/r1-s01/redfish/v1/Systems";
        for link in ["/redfish/v1/Systems", "/bmc/r1-s01/redfish/v1/Systems", full] {
            assert_eq!(base.url(link).unwrap(), full);
        }
        let other = base.url("/bmc/r1-s011/redfish/v1/Systems").unwrap();
        assert!(other.contains("/bmc/r1-s01/bmc/r1-s011/"), "{other}");
        for link in [
            "http://evil/redfish/v1",
            "//evil/x",
            "redfish",
            "",
            "/a/../b",
            "http://127.0.0.1:80001/x",
        ] {
            assert!(base.url(link).is_err(), "{link}");
        }
        let plain = Base::parse("https://10.0.0.7/redfish/v1").unwrap();
        assert_eq!(plain.url("/redfish/v1/x").unwrap(), "https://10.0.0.7/redfish/v1/x");
    }

    #[test]
    fn addresses_that_are_none_are_named() {
        for address in
            ["", "10.0.0.7", "ftp://x", "http://u:p@x", "http://x?y=z", "http://", "\u{0}"]
        {
            let error = Base::parse(address).unwrap_err().to_string();
            assert!(error.contains("https://10.0.0.7"), "{error}");
        }
    }
}
