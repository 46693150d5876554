//! `seatrial install`: kinds, rights and controllers into a cluster that is there.

use std::io::Write;

use super::Outcome;
use crate::client::{Where, run as block_on};
use crate::install::{self, Change, Document, Installation};

/// Arguments of `install`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial install --print | kubectl apply --server-side -f -\n  seatrial install --kubeconfig FILE\n  seatrial install --kubeconfig FILE --image registry.example/seatrial:0.1.0\n  seatrial install --image registry.example/seatrial:0.1.0 --boot-images http://images.example \\\n    --boot-url http://boot.example:8082 --boot-api https://api.example:6443\n\nA second install changes nothing; a newer version's changes what differs, takes away rights that it\nno longer needs, and leaves every object of the fleet as it is. Each controller gets an account of its\nown with the rights that it declares, and no others."
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    /// Print what would be applied, for kubectl or a repository
    #[arg(long)]
    print: bool,
    /// Run the controllers as a Deployment from this image, whose entry point is `seatrial` [default:
    /// leave a Deployment as it is, or run `seatrial controllers` yourself]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    #[command(flatten)]
    boots: Boots,
    /// Where the controllers run; credentials of BMCs lie in seatrial-system all the same
    #[arg(long, value_name = "NAME", default_value = api::names::NAMESPACE)]
    namespace: String,
}

/// What the Deployment tells machines that boot. It answers them behind the Service `seatrial-boot`.
#[derive(clap::Args)]
struct Boots {
    /// Let machines boot: where images lie, the kernel of `gpu-1.0` at URL/gpu-1.0/vmlinuz
    #[arg(long, value_name = "URL", requires_all = ["image", "boot_url", "boot_api"])]
    boot_images: Option<String>,
    /// How machines reach the Service `seatrial-boot`, as http://boot.example:8082
    #[arg(long, value_name = "URL", requires = "boot_images")]
    boot_url: Option<String>,
    /// How machines reach the cluster's API, as https://api.example:6443
    #[arg(long, value_name = "URL", requires = "boot_images")]
    boot_api: Option<String>,
    /// An argument of every kernel; may be given several times
    #[arg(long, value_name = "WORD", requires = "boot_images", allow_hyphen_values = true)]
    boot_argument: Vec<String>,
}

impl Boots {
    fn told(&self) -> Option<install::Boots> {
        let url = |given: &Option<String>| Some(given.as_ref()?.trim_end_matches('/').to_owned());
        Some(install::Boots {
            url: url(&self.boot_url)?,
            api: url(&self.boot_api)?,
            images: url(&self.boot_images)?,
            arguments: self.boot_argument.clone(),
        })
    }
}

/// Prints or applies.
pub(crate) fn run(args: &Args) -> Outcome {
    let installation = Installation {
        namespace: args.namespace.clone(),
        image: args.image.clone(),
        boots: args.boots.told(),
    };
    let documents = installation.documents()?;
    let mut out = std::io::stdout().lock();
    if args.print {
        let all: Vec<Document> = documents.first.into_iter().chain(documents.then).collect();
        return Ok(out.write_all(install::printed(&all)?.as_bytes())?);
    }
    block_on(async {
        let cluster = args.cluster.connect().await?;
        let client = cluster.client();
        let mut told = Told::default();
        for document in &documents.first {
            told.tell(&document.what(), document.settle(client).await?, &mut out)?;
        }
        install::established(client).await?;
        for document in &documents.then {
            told.tell(&document.what(), document.settle(client).await?, &mut out)?;
        }
        for left in install::obsolete(client, &documents.then).await? {
            left.delete(client).await?;
            writeln!(out, "{} is no longer needed and deleted", left.what)?;
        }
        Ok(writeln!(out, "{}", told.sum(cluster.url()))?)
    })
}

/// What was done so far.
#[derive(Default)]
struct Told {
    created: usize,
    changed: usize,
    same: usize,
}

impl Told {
    fn tell(&mut self, what: &str, change: Change, out: &mut impl Write) -> std::io::Result<()> {
        let (count, word) = match change {
            Change::Created => (&mut self.created, "created"),
            Change::Changed => (&mut self.changed, "changed"),
            Change::None => (&mut self.same, ""),
        };
        *count += 1;
        if word.is_empty() { Ok(()) } else { writeln!(out, "{what} {word}") }
    }

    fn sum(&self, url: &str) -> String {
        let Self { created, changed, same } = self;
        format!("{created} created, {changed} changed, {same} as they were, at {url}")
    }
}
