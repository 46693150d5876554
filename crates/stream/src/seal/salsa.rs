//! Salsa20, many blocks beside each other in the lanes of one vector.
//!
//! The arithmetic is written once, over lanes; where the machine has wider vectors than its kind
//! always has, the same code is compiled for them too and chosen at run time. Choosing is the one
//! unsafe thing here: a function compiled for a feature is called after asking for it.
#![allow(unsafe_code)]

use zeroize::Zeroizing;

/// "expand 32-byte k", as words.
const SIGMA: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Bytes of a block.
const BLOCK: usize = 64;

/// A key stream.
pub(super) struct Stream(Zeroizing<[u32; 16]>);

impl Stream {
    /// XSalsa20: a stream of its own for each of 2^192 nonces.
    pub(super) fn extended(key: &[u8; 32], nonce: &[u8; 24]) -> Self {
        let (inner, outer) = nonce.split_at(16);
        let derived = hsalsa(key, inner);
        let mut state = state(&derived);
        state[6..8].copy_from_slice(&words::<2>(outer));
        Self(state)
    }

    /// Mixes the stream from a block on into the data.
    pub(super) fn apply(&self, block: u64, data: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the feature that the function is compiled for was just found.
                return unsafe { wide(&self.0, block, data) };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: as above.
                return unsafe { half(&self.0, block, data) };
            }
        }
        lanes::<4>(&self.0, block, data);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn wide(state: &[u32; 16], block: u64, data: &mut [u8]) {
    lanes::<16>(state, block, data);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn half(state: &[u32; 16], block: u64, data: &mut [u8]) {
    lanes::<8>(state, block, data);
}

/// Mixes in L blocks at a time.
#[inline(always)]
fn lanes<const L: usize>(state: &[u32; 16], mut block: u64, data: &mut [u8]) {
    for data in data.chunks_mut(L * BLOCK) {
        let mut input = [[0; L]; 16];
        for (lane, word) in input.iter_mut().zip(state) {
            *lane = [*word; L];
        }
        let [.., low, high, _, _, _, _, _, _] = &mut input;
        for (nth, (low, high)) in low.iter_mut().zip(high).enumerate() {
            let counter = block.wrapping_add(nth as u64);
            *low = counter as u32;
            *high = (counter >> 32) as u32;
        }
        let mut x = input;
        rounds(&mut x);
        for (word, input) in x.iter_mut().zip(&input) {
            for (word, input) in word.iter_mut().zip(input) {
                *word = word.wrapping_add(*input);
            }
        }
        for (nth, data) in data.chunks_mut(BLOCK).enumerate() {
            mix(&x, nth, data);
        }
        block = block.wrapping_add(L as u64);
    }
}

/// One lane's block into at most 64 bytes.
#[inline(always)]
fn mix<const L: usize>(x: &[[u32; L]; 16], lane: usize, data: &mut [u8]) {
    let mut key = [0; BLOCK];
    for (bytes, word) in key.as_chunks_mut::<4>().0.iter_mut().zip(x) {
        *bytes = word[lane].to_le_bytes();
    }
    if let Ok(whole) = <&mut [u8; BLOCK]>::try_from(&mut *data) {
        for (byte, key) in whole.iter_mut().zip(&key) {
            *byte ^= key;
        }
    } else {
        data.iter_mut().zip(&key).for_each(|(byte, key)| *byte ^= key);
    }
}

/// Twenty rounds: columns, then rows, ten times.
#[inline(always)]
fn rounds<const L: usize>(x: &mut [[u32; L]; 16]) {
    for _ in 0..10 {
        quarter(x, 0, 4, 8, 12);
        quarter(x, 5, 9, 13, 1);
        quarter(x, 10, 14, 2, 6);
        quarter(x, 15, 3, 7, 11);
        quarter(x, 0, 1, 2, 3);
        quarter(x, 5, 6, 7, 4);
        quarter(x, 10, 11, 8, 9);
        quarter(x, 15, 12, 13, 14);
    }
}

#[inline(always)]
fn quarter<const L: usize>(x: &mut [[u32; L]; 16], a: usize, b: usize, c: usize, d: usize) {
    step(x, b, a, d, 7);
    step(x, c, b, a, 9);
    step(x, d, c, b, 13);
    step(x, a, d, c, 18);
}

#[inline(always)]
fn step<const L: usize>(x: &mut [[u32; L]; 16], to: usize, a: usize, b: usize, by: u32) {
    let (left, right) = (x[a], x[b]);
    for (to, (a, b)) in x[to].iter_mut().zip(left.iter().zip(&right)) {
        *to ^= a.wrapping_add(*b).rotate_left(by);
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// Constants and key in place; nonce and counter 0.
fn state(key: &[u8; 32]) -> Zeroizing<[u32; 16]> {
    let key = Zeroizing::new(words::<8>(key));
    let mut state = Zeroizing::new([0; 16]);
    for (nth, word) in SIGMA.iter().enumerate() {
        state[nth * 5] = *word;
    }
    state[1..5].copy_from_slice(&key[..4]);
    state[11..15].copy_from_slice(&key[4..]);
    state
}

/// HSalsa20: a key of its own for the first 16 bytes of a nonce.
fn hsalsa(key: &[u8; 32], nonce: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut state = state(key);
    state[6..10].copy_from_slice(&words::<4>(nonce));
    let mut x = Zeroizing::new(state.map(|word| [word]));
    rounds(&mut x);
    let mut derived = Zeroizing::new([0; 32]);
    let taken = [0, 5, 10, 15, 6, 7, 8, 9];
    for (bytes, word) in derived.as_chunks_mut::<4>().0.iter_mut().zip(taken) {
        *bytes = x[word][0].to_le_bytes();
    }
    derived
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each width by itself, whatever this machine would choose, over lengths that end in a block.
    #[test]
    fn every_width_makes_the_same_stream() {
        let stream = Stream::extended(&[3; 32], &[9; 24]);
        for len in [0, 1, 63, 64, 65, 1023, 1024, 1025, 5000] {
            let mut narrow = vec![0; len];
            // The counter passes 32 bits on the way.
            let block = u64::from(u32::MAX) - 2;
            lanes::<1>(&stream.0, block, &mut narrow);
            let mut others = [vec![0; len], vec![0; len], vec![0; len], vec![0; len]];
            lanes::<4>(&stream.0, block, &mut others[0]);
            lanes::<8>(&stream.0, block, &mut others[1]);
            lanes::<16>(&stream.0, block, &mut others[2]);
            stream.apply(block, &mut others[3]);
            assert!(others.iter().all(|other| *other == narrow), "{len}");
        }
    }

    /// NaCl's `tests/core1.c` and `core2.c`: the derived keys of its example.
    #[test]
    fn derived_keys_are_nacls() {
        let key = [
            0x1b, 0x27, 0x55, 0x64, 0x73, 0xe9, 0x85, 0xd4, 0x62, 0xcd, 0x51, 0x19, 0x7a, 0x9a,
            0x46, 0xc7, 0x60, 0x09, 0x54, 0x9e, 0xac, 0x64, 0x74, 0xf2, 0x06, 0xc4, 0xee, 0x08,
            0x44, 0xf6, 0x83, 0x89,
        ];
        let nonce = [
            0x69, 0x69, 0x6e, 0xe9, 0x55, 0xb6, 0x2b, 0x73, 0xcd, 0x62, 0xbd, 0xa8, 0x75, 0xfc,
            0x73, 0xd6,
        ];
        let derived = [
            0xdc, 0x90, 0x8d, 0xda, 0x0b, 0x93, 0x44, 0xa9, 0x53, 0x62, 0x9b, 0x73, 0x38, 0x20,
            0x77, 0x88, 0x80, 0xf3, 0xce, 0xb4, 0x21, 0xbb, 0x61, 0xb9, 0x1c, 0xbd, 0x4c, 0x3e,
            0x66, 0x25, 0x6c, 0xe4,
        ];
        assert_eq!(*hsalsa(&key, &nonce), derived);
    }
}
