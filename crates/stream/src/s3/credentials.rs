//! Whose requests they are: credentials from the environment and from the shared files.
//!
//! Never shown, and wiped when dropped. Nobody's are fine only if nothing hints at somebody's: a
//! profile that cannot be used is an error, not a public request.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::profile::section;
use crate::remote::url::BadUrl;

/// What signs a request.
#[derive(Clone)]
pub struct Credentials {
    pub(super) id: String,
    pub(super) secret: Zeroizing<String>,
    pub(super) token: Option<Zeroizing<String>>,
}

/// Why there are no credentials, or what else stands in the way of asking S3. Tells no secret.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// One of the shared files cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A profile was named that no file has.
    #[error("no profile {profile} in the shared credentials or configuration file")]
    NoProfile {
        /// Its name.
        profile: String,
    },
    /// One half of a key, or letters in it that no header can hold.
    #[error("{place} has no usable pair of access key and secret key")]
    Half {
        /// Where.
        place: String,
    },
    /// They would come from another service.
    #[error(
        "{place} leaves credentials to {by}, which is not read: set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (`aws configure export-credentials --format env` prints them)"
    )]
    Elsewhere {
        /// Where this is said.
        place: String,
        /// By what setting.
        by: String,
    },
    /// A region that is no name.
    #[error("{region:?} is no region")]
    Region {
        /// What was given.
        region: String,
    },
    /// An endpoint that is no URL.
    #[error("the endpoint cannot be used")]
    Endpoint {
        /// Why.
        source: BadUrl,
    },
    /// Only an `s3://` location can be presigned.
    #[error("only s3://BUCKET/KEY can be presigned")]
    NotS3,
    /// There is nobody to sign.
    #[error("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile")]
    None,
}

impl Credentials {
    /// An access key, its secret, and a session's token if it is temporary.
    ///
    /// # Errors
    /// If one of them is empty or has letters that no header can hold.
    pub fn new(id: &str, secret: &str, token: Option<&str>) -> Result<Self, CredentialsError> {
        Self::from(id, secret, token, "what was given")
    }

    fn from(
        id: &str,
        secret: &str,
        token: Option<&str>,
        place: &str,
    ) -> Result<Self, CredentialsError> {
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if !plain(id) || !plain(secret) || !token.is_none_or(plain) {
            return Err(CredentialsError::Half { place: place.to_owned() });
        }
        let secret = Zeroizing::new(secret.to_owned());
        let token = token.map(|token| Zeroizing::new(token.to_owned()));
        Ok(Self { id: id.to_owned(), secret, token })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials(..)")
    }
}

/// Settings that say where else credentials would come from.
const ELSEWHERE: [&str; 6] = [
    "credential_process",
    "credential_source",
    "role_arn",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
];

/// Variables that say so.
const ELSEWHERE_VARIABLES: [&str; 3] = [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
];

/// What environment and files say.
pub(super) struct Found<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    profile: String,
    settings: HashMap<String, String>,
}

impl<'a> Found<'a> {
    /// Reads the files, where they are there.
    pub(super) fn new(
        profile: Option<&str>,
        variable: &'a dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CredentialsError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| set(name).and_then(|value| value.into_string().ok());
        let named = profile.map(str::to_owned).or_else(|| text("AWS_PROFILE"));
        let profile = named.clone().unwrap_or_else(|| "default".to_owned());
        let file = |name: &str, usual: &str| {
            let home = || Some(PathBuf::from(set("HOME")?).join(".aws").join(usual));
            set(name).map(PathBuf::from).or_else(home)
        };
        let prefixed = format!("profile {profile}");
        let sections = [&*profile, &*prefixed];
        let mut settings: Option<HashMap<String, String>> = None;
        for path in
            [file("AWS_CONFIG_FILE", "config"), file("AWS_SHARED_CREDENTIALS_FILE", "credentials")]
        {
            let Some(path) = path else { continue };
            let text = match std::fs::read_to_string(&path).map(Zeroizing::new) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(CredentialsError::Read { path, source }),
            };
            if let Some(section) = section(&text, &sections) {
                settings.get_or_insert_default().extend(section);
            }
        }
        if let (None, Some(profile)) = (&settings, named) {
            return Err(CredentialsError::NoProfile { profile });
        }
        Ok(Self { variable, profile, settings: settings.unwrap_or_default() })
    }

    /// A setting of the profile.
    pub(super) fn said(&self, name: &str) -> Option<String> {
        self.settings.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// The environment's credentials, else the profile's, else none.
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, CredentialsError> {
        let set = |name: &str| {
            let value = (self.variable)(name).map(|value| value.to_string_lossy().into_owned());
            value.filter(|value| !value.is_empty()).map(Zeroizing::new)
        };
        let pair = [set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY")];
        if pair.iter().any(Option::is_some) {
            return paired(pair, set("AWS_SESSION_TOKEN"), "the environment").map(Some);
        }
        let said = |name: &str| self.said(name).map(Zeroizing::new);
        let place = format!("the profile {}", self.profile);
        let pair = [said("aws_access_key_id"), said("aws_secret_access_key")];
        if pair.iter().any(Option::is_some) {
            return paired(pair, said("aws_session_token"), &place).map(Some);
        }
        let elsewhere =
            |place: String, by: &str| Err(CredentialsError::Elsewhere { place, by: by.to_owned() });
        if let Some(by) = ELSEWHERE.into_iter().find(|name| self.said(name).is_some()) {
            return elsewhere(place, by);
        }
        match ELSEWHERE_VARIABLES.into_iter().find(|name| set(name).is_some()) {
            Some(by) => elsewhere("the environment".to_owned(), by),
            None => Ok(None),
        }
    }
}

fn paired(
    [id, secret]: [Option<Zeroizing<String>>; 2],
    token: Option<Zeroizing<String>>,
    place: &str,
) -> Result<Credentials, CredentialsError> {
    let text = |part: &Option<Zeroizing<String>>| part.as_deref().cloned().unwrap_or_default();
    let token = token.as_ref().map(|token| token.as_str());
    Credentials::from(&text(&id), &Zeroizing::new(text(&secret)), token, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home with files, and variables.
    fn found(files: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Told, CredentialsError> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        for (name, text) in files {
            std::fs::write(home.path().join(".aws").join(name), text).unwrap();
        }
        let variable = |name: &str| match name {
            "HOME" => Some(home.path().as_os_str().to_owned()),
            name => variables.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v)),
        };
        let found = Found::new(None, &variable)?;
        let told = |c: Credentials| (c.id.clone(), c.secret.to_string(), c.token.is_some());
        Ok((found.credentials()?.map(told), found.said("region")))
    }

    type Told = (Option<(String, String, bool)>, Option<String>);

    fn pair(id: &str, secret: &str, token: bool) -> Option<(String, String, bool)> {
        Some((id.to_owned(), secret.to_owned(), token))
    }

    const FILE: &str = "[default]\naws_access_key_id = A\naws_secret_access_key = b\n\
        [two]\naws_access_key_id=C\naws_secret_access_key=d\naws_session_token=t\n[three]\n\
        aws_access_key_id=E\n";

    #[test]
    fn the_environment_comes_first_then_the_files_then_nobody() {
        let file = [("credentials", FILE), ("config", "[default]\nregion = eu\n")];
        let keys = [("AWS_ACCESS_KEY_ID", "I"), ("AWS_SECRET_ACCESS_KEY", "s")];
        assert_eq!(found(&file, &keys).unwrap().0, pair("I", "s", false));
        let default = found(&file, &[]).unwrap();
        assert_eq!(default, (pair("A", "b", false), Some("eu".to_owned())));
        assert_eq!(found(&file, &[("AWS_PROFILE", "two")]).unwrap().0, pair("C", "d", true));
        assert_eq!(found(&[], &[]).unwrap(), (None, None));
    }

    #[test]
    fn what_hints_at_somebody_is_not_asked_as_nobody() {
        let told = |files: &[_], variables: &[_]| found(files, variables).unwrap_err().to_string();
        let file = [("credentials", FILE)];
        assert!(told(&file, &[("AWS_PROFILE", "four")]).contains("no profile four"));
        assert!(told(&file, &[("AWS_PROFILE", "three")]).contains("the profile three has no"));
        assert!(told(&[], &[("AWS_ACCESS_KEY_ID", "I")]).contains("the environment has no"));
        let sso = [("config", "[default]\nsso_session = x\n")];
        assert!(told(&sso, &[]).contains("sso_session"));
        let pod = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/x")];
        assert!(told(&[], &pod).contains("export-credentials"));
        let broken = [("AWS_ACCESS_KEY_ID", "I"), ("AWS_SECRET_ACCESS_KEY", "hunter2\nx")];
        assert!(!told(&[], &broken).contains("hunter2"));
    }

    #[test]
    fn they_are_never_shown() {
        let credentials = Credentials::new("AKID", "hunter2", Some("token")).unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials(..)");
    }
}
