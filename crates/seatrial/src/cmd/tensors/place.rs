//! Where a model is: a file, or a URL and how it is reached.

use std::path::{Path, PathBuf};

use stream::{Addressing, Location, Model, Remote, S3};

use crate::cmd::Unusable;

/// How what lies behind a URL is reached.
#[derive(clap::Args)]
#[command(next_help_heading = "Of https:// and s3://")]
pub(super) struct Reach {
    /// Certificates in PEM that are believed instead of the system's [default: AWS_CA_BUNDLE]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Another store than AWS: https://HOST[:PORT] [default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,
    /// Where the bucket lies [default: AWS_REGION, the profile's, us-east-1]
    #[arg(long)]
    region: Option<String>,
    /// Section of the shared AWS files [default: AWS_PROFILE, default]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Where a bucket's name stands
    #[arg(long, value_enum, value_name = "STYLE", default_value_t)]
    s3_addressing: Style,
}

/// Where a bucket's name stands.
#[derive(clap::ValueEnum, Clone, Copy, Default)]
enum Style {
    /// In the host at AWS, in the path elsewhere
    #[default]
    Auto,
    /// HOST/BUCKET/KEY
    Path,
    /// BUCKET.HOST/KEY
    Virtual,
}

type Opened = Result<Model, Box<dyn std::error::Error + Send + Sync>>;

impl Reach {
    /// Opens a model where it is.
    pub(super) fn open(&self, place: &Path) -> Opened {
        let place = Location::parse(place.as_os_str()).map_err(|e| Unusable(e.into()))?;
        Ok(Model::open_at(&place, &self.remote(Remote::default()))?)
    }

    /// How it is reached, with what the options do not say as it stands here.
    pub(super) fn remote(&self, rest: Remote) -> Remote {
        let addressing = match self.s3_addressing {
            Style::Auto => Addressing::Auto,
            Style::Path => Addressing::Path,
            Style::Virtual => Addressing::Virtual,
        };
        let s3 = S3 {
            profile: self.profile.clone(),
            region: self.region.clone(),
            endpoint: self.endpoint_url.clone(),
            addressing,
            ..S3::default()
        };
        Remote { s3, ca_file: self.ca_file.clone(), ..rest }
    }
}
