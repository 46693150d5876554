//! Signatures against what AWS published: its signing test suite (`vectors.json`, from
//! awslabs/aws-c-auth, Apache-2.0; without the cases that shorten paths, which S3 never does), and the
//! examples of S3's API reference.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    name: String,
    request: String,
    token: Option<String>,
    sign_body: bool,
    omit_token: bool,
    canonical: String,
    to_sign: String,
    signature: String,
}

/// SHA-256 of nothing.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// `%41` back to `A`.
fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits: Vec<u8> = bytes.by_ref().take(2).collect();
            let digits = String::from_utf8(digits).unwrap();
            out.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn the_signing_test_suite_holds() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("vectors.json")).unwrap();
    assert_eq!(vectors.len(), 31);
    let stamp = Stamp("20150830T123600Z".to_owned());
    let scope = Scope { region: "us-east-1", service: "service", stamp: &stamp };
    for vector in vectors {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIDEXAMPLE", secret, vector.token.as_deref()).unwrap();
        let (head, body) = vector.request.split_once("\n\n").unwrap_or((&vector.request, ""));
        let mut lines = head.lines();
        let line = lines.next().unwrap();
        let (method, rest) = line.split_once(' ').unwrap();
        let target = rest.strip_suffix(" HTTP/1.1").unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs: Vec<(String, String)> = query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect();
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in lines {
            match (line.starts_with(' '), line.split_once(':'), fields.last_mut()) {
                (true, _, Some((_, value))) => value.push_str(line),
                (_, Some((name, value)), _) => fields.push(pair(&name.to_lowercase(), value)),
                _ => panic!("{}: {line}", vector.name),
            }
        }
        let payload = hex(&Sha256::digest(body));
        fields.push(pair("x-amz-date", &stamp.0));
        if vector.sign_body {
            fields.push(pair("x-amz-content-sha256", &payload));
        }
        if let Some(token) = credentials.token.as_ref().filter(|_| !vector.omit_token) {
            fields.push(pair("x-amz-security-token", token));
        }
        let path = encoded(path, true);
        let payload = &payload;
        let asked = Asked { method, path: &path, query: &pairs, fields: &fields, payload };
        let (canonical, _) = asked.canonical();
        assert_eq!(canonical, vector.canonical, "{}", vector.name);
        assert_eq!(to_sign(&canonical, &scope), vector.to_sign, "{}", vector.name);
        assert_eq!(asked.signature(&credentials, &scope).0, vector.signature, "{}", vector.name);
    }
}

/// The credentials, the moment and the object of the examples in S3's reference.
fn example() -> (Credentials, Stamp, Url) {
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", secret, None).unwrap();
    let url = Url::parse("https://examplebucket.s3.amazonaws.com/test.txt").unwrap();
    (credentials, Stamp("20130524T000000Z".to_owned()), url)
}

#[test]
fn the_documented_requests_have_the_documented_signatures() {
    let (credentials, stamp, url) = example();
    let scope = Scope { region: "us-east-1", service: "s3", stamp: &stamp };
    let host = url.origin.authority();
    let fields = [
        pair("host", &host),
        pair("range", "bytes=0-9"),
        pair("x-amz-content-sha256", EMPTY),
        pair("x-amz-date", &stamp.0),
    ];
    let signature = |path: &str, query: &[(String, String)], fields: &[(String, String)]| {
        let asked = Asked { method: "GET", path, query, fields, payload: EMPTY };
        asked.signature(&credentials, &scope).0
    };
    // GET Object, GET Bucket Lifecycle, Get Bucket (List Objects).
    assert_eq!(
        signature("/test.txt", &[], &fields),
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );
    let [host, _, payload, date] = fields;
    let fields = [host, payload, date];
    assert_eq!(
        signature("/", &[pair("lifecycle", "")], &fields),
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    );
    assert_eq!(
        signature("/", &[pair("max-keys", "2"), pair("prefix", "J")], &fields),
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    );
}

#[test]
fn the_documented_presigned_url_is_made() {
    let (credentials, stamp, url) = example();
    let scope = Scope { region: "us-east-1", service: "s3", stamp: &stamp };
    let made = presigned(&url, &credentials, &scope, Duration::from_secs(86_400));
    let documented = "https://examplebucket.s3.amazonaws.com/test.txt\
        ?X-Amz-Algorithm=AWS4-HMAC-SHA256\
        &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
        &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
        &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    assert_eq!(made, documented);
}

#[test]
fn a_request_says_its_fields_and_never_its_secret() {
    let (_, stamp, url) = example();
    let credentials = Credentials::new("AKID", "hunter2", Some("session")).unwrap();
    let scope = Scope { region: "eu-west-1", service: "s3", stamp: &stamp };
    let fields = fields(&url, &Request::GET, &credentials, &scope);
    assert!(fields.contains("x-amz-security-token: session\r\n"));
    let signed = "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,";
    assert!(fields.contains(signed), "{fields}");
    assert!(fields.ends_with("\r\n") && !fields.contains("hunter2"));
}
