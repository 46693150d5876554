//! When a bootstrap token goes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;

/// The type of the Secrets that bootstrap tokens are.
pub const TYPE: &str = "bootstrap.kubernetes.io/token";

/// When the token of a Secret with this data goes; `None` if never. One whose date cannot be read
/// goes at once: nobody can say that it is still meant.
pub fn deadline(data: &BTreeMap<String, ByteString>) -> Option<Timestamp> {
    let text = data.get("expiration").filter(|text| !text.0.is_empty())?;
    let text = std::str::from_utf8(&text.0).ok();
    Some(text.and_then(|text| text.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_at_its_date_and_at_once_if_that_is_none() {
        let data = |text: &str| {
            let entry = ("expiration".to_owned(), ByteString(text.as_bytes().to_vec()));
            BTreeMap::from([entry])
        };
        let at = "2026-01-02T00:00:00Z";
        assert_eq!(deadline(&data(at)), Some(at.parse().unwrap()));
        assert_eq!(deadline(&data("tomorrow")), Some(Timestamp::UNIX_EPOCH));
        assert_eq!(deadline(&data("")), None);
        assert_eq!(deadline(&BTreeMap::new()), None);
    }
}
