//! A secret box, sealed and opened in place, its tag apart.

use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit as _;
use zeroize::Zeroizing;

use super::salsa::Stream;
use crate::format::crypt::{MAC, NONCE};

/// Encrypts in place, and says the tag.
pub(crate) fn seal(key: &[u8; 32], nonce: &[u8; NONCE], data: &mut [u8]) -> [u8; MAC] {
    let (stream, first) = begin(key, nonce);
    apply(&stream, &first, data);
    tag(&first, data)
}

/// Decrypts in place if the tag is right, and leaves everything as it was otherwise.
#[must_use]
pub(crate) fn open(key: &[u8; 32], nonce: &[u8; NONCE], mac: &[u8; MAC], data: &mut [u8]) -> bool {
    let (stream, first) = begin(key, nonce);
    let differ = tag(&first, data).iter().zip(mac).fold(0, |differ, (a, b)| differ | (a ^ b));
    if differ == 0 {
        apply(&stream, &first, data);
    }
    differ == 0
}

/// The key stream, and its first block, whose first half is the key of the tag.
fn begin(key: &[u8; 32], nonce: &[u8; NONCE]) -> (Stream, Zeroizing<[u8; 64]>) {
    let stream = Stream::extended(key, nonce);
    let mut first = Zeroizing::new([0; 64]);
    stream.apply(0, &mut *first);
    (stream, first)
}

fn apply(stream: &Stream, first: &[u8; 64], data: &mut [u8]) {
    let (head, rest) = data.split_at_mut(data.len().min(32));
    head.iter_mut().zip(&first[32..]).for_each(|(byte, key)| *byte ^= key);
    stream.apply(1, rest);
}

fn tag(first: &[u8; 64], data: &[u8]) -> [u8; MAC] {
    let mut key = poly1305::Key::default();
    key.copy_from_slice(&first[..32]);
    Poly1305::new(&key).compute_unpadded(data).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let text: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        text.chunks(2).map(|pair| byte(pair).unwrap()).collect()
    }

    /// NaCl's own example, `tests/secretbox.c`.
    #[test]
    fn a_box_is_nacls() {
        let key = hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
        let nonce = hex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37");
        let message = hex("be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffc
             e5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f41db66cce314adb31
             0e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde
             048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f93776384864
             5e0705");
        let sealed = hex("8e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186a
             c0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738
             b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da
             99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74
             e355a5");
        let mac = hex("f3ffc7703f9400e52a7dfb4b3d3305d9");
        let (key, nonce) = (key.try_into().unwrap(), nonce.try_into().unwrap());
        let mut data = message.clone();
        assert_eq!(seal(&key, &nonce, &mut data)[..], mac);
        assert_eq!(data, sealed);
        let mac: [u8; MAC] = mac.try_into().unwrap();
        assert!(open(&key, &nonce, &mac, &mut data));
        assert_eq!(data, message);
    }

    #[test]
    fn nothing_that_was_changed_is_opened() {
        let (key, nonce) = ([1; 32], [2; NONCE]);
        for len in [0, 1, 31, 32, 33, 5000] {
            let mut data = vec![7; len];
            let mac = seal(&key, &nonce, &mut data);
            let sealed = data.clone();
            if len > 0 {
                data[len - 1] ^= 1;
                assert!(!open(&key, &nonce, &mac, &mut data));
                data[len - 1] ^= 1;
            }
            let mut other = mac;
            other[3] ^= 4;
            assert!(!open(&key, &nonce, &other, &mut data));
            assert!(!open(&[3; 32], &nonce, &mac, &mut data));
            assert_eq!(data, sealed, "what is not opened is not touched");
            assert!(open(&key, &nonce, &mac, &mut data));
            assert_eq!(data, vec![7; len]);
        }
    }
}
