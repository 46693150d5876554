//! Who the reference server is and whom it knows: keys, certificates, tokens and the kubeconfig.
//!
//! Everything is made on the first start in a directory and kept from then on, readable by its
//! owner alone. Nothing here is ever rotated or renewed.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The address of the `kubernetes` Service: the first of the server's service range.
const SERVICE_IP: &str = "10.96.0.1";

/// A user that the server knows by token.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) name: &'static str,
    pub(super) groups: &'static str,
}

const USERS: [User; 3] = [
    User { name: "admin", groups: "system:masters" },
    User { name: "alice", groups: "" },
    User { name: "bob", groups: "devs" },
];

/// One CA for servers, clients and the cluster's certificate requests, as in kubeadm's clusters.
pub(super) struct Pki {
    pub(super) dir: PathBuf,
    pub(super) ca_pem: String,
}

impl Pki {
    pub(super) fn ensure(dir: &Path) -> Result<Self> {
        let ca = dir.join("ca.crt");
        if !ca.is_file() {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            Self::create(dir).context("cannot create keys and certificates")?;
        }
        let ca_pem = fs::read_to_string(&ca).context("cannot read our own CA")?;
        Ok(Self { dir: dir.to_owned(), ca_pem })
    }

    fn create(dir: &Path) -> Result<()> {
        use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose};
        let ca_key = KeyPair::generate()?;
        let mut params = certificate("reference-ca", None, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = rcgen::CertifiedIssuer::self_signed(params, ca_key)?;

        let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default"];
        let in_cluster = ["kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];
        let names = [&names[..], &in_cluster[..], &[SERVICE_IP]].concat();
        let mut server = certificate("kube-apiserver", None, &names)?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut admin = certificate("admin", Some("system:masters"), &[])?;
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        for (name, params) in [("server", server), ("admin", admin)] {
            let key = KeyPair::generate()?;
            let signed = params.signed_by(&key, &ca)?;
            write_private(&dir.join(format!("{name}.crt")), &signed.pem())?;
            write_private(&dir.join(format!("{name}.key")), &key.serialize_pem())?;
        }
        let tokens = KeyPair::generate()?;
        write_private(&dir.join("sa.key"), &tokens.serialize_pem())?;
        write_private(&dir.join("sa.pub"), &tokens.public_key_pem())?;
        write_private(&dir.join("ca.key"), &ca.key().serialize_pem())?;
        // Last, because its presence says that the others are there.
        write_private(&dir.join("ca.crt"), &ca.pem())
    }
}

fn certificate(
    name: &str,
    organisation: Option<&str>,
    subjects: &[&str],
) -> Result<rcgen::CertificateParams> {
    let subjects = subjects.iter().map(|&subject| subject.to_owned()).collect::<Vec<_>>();
    let mut params = rcgen::CertificateParams::new(subjects)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    if let Some(organisation) = organisation {
        params.distinguished_name.push(rcgen::DnType::OrganizationName, organisation);
    }
    Ok(params)
}

/// Reads the token file, or makes one: `token,user,uid[,"groups"]`.
pub(super) fn tokens(path: &Path) -> Result<Vec<(User, String)>> {
    if let Ok(text) = fs::read_to_string(path) {
        let tokens = text.lines().filter_map(|line| line.split(',').next());
        return Ok(USERS.into_iter().zip(tokens.map(str::to_owned)).collect());
    }
    let mut text = String::new();
    let mut tokens = Vec::new();
    for user in USERS {
        let token = random_token()?;
        write!(text, "{token},{0},{0}", user.name)?;
        // An empty column would be a group whose name is empty.
        if !user.groups.is_empty() {
            write!(text, ",\"{}\"", user.groups)?;
        }
        text.push('\n');
        tokens.push((user, token));
    }
    write_private(path, &text)?;
    Ok(tokens)
}

fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    let mut source = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    source.read_exact(&mut bytes).context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(super) fn kubeconfig(url: &str, pki: &Path, tokens: &[(User, String)]) -> Result<String> {
    let pki = pki.display();
    let mut text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: admin\nclusters:\n- name: reference\n  \
         cluster: {{server: \"{url}\", certificate-authority: \"{pki}/ca.crt\"}}\nusers:\n\
         - name: admin-cert\n  user: {{client-certificate: \"{pki}/admin.crt\", client-key: \
         \"{pki}/admin.key\"}}\n"
    );
    for (user, token) in tokens {
        writeln!(text, "- name: {}\n  user: {{token: \"{token}\"}}", user.name)?;
    }
    text.push_str("contexts:\n");
    for name in tokens.iter().map(|(user, _)| user.name).chain(["admin-cert"]) {
        writeln!(text, "- name: {name}\n  context: {{cluster: reference, user: {name}}}")?;
    }
    Ok(text)
}

/// Keys and tokens are for the owner alone, from the first byte on.
pub(super) fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = || format!("cannot write {}", path.display());
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).and_then(|mut file| file.write_all(text.as_bytes())).with_context(failed)
}
