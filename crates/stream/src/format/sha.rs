//! SHA-256 of two streams at once, on cores that have instructions for it.
//!
//! One stream leaves such a core idle for a third of the time: a round waits for the one before. A second
//! stream's rounds fit between. The compression of one stream, and of two where a core has no such
//! instructions, is the `sha2` crate's; what is ours is the same rounds for two, the padding, and the
//! choice. Calling a function that is compiled for a feature, after asking for it, is the unsafe thing
//! here, and reading whole blocks as vectors.
#![allow(unsafe_code)]

use sha2::compress256;
use sha2::digest::generic_array::{ArrayLength, GenericArray};

/// Bytes of a block.
const BLOCK: usize = 64;

/// The first 32 bits of the fractional parts of the square roots of the first 8 primes (FIPS 180-4,
/// 5.3.3).
const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// A hash in the making.
#[derive(Clone)]
pub(crate) struct Sha {
    state: [u32; 8],
    /// The beginning of a block that is not whole.
    rest: [u8; BLOCK],
    held: usize,
    len: u64,
}

impl Sha {
    pub(crate) const fn new() -> Self {
        Self { state: START, rest: [0; BLOCK], held: 0, len: 0 }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let bytes = self.whole(bytes);
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        one(&mut self.state, blocks);
        self.keep(rest);
    }

    pub(crate) fn finish(mut self) -> [u8; 32] {
        let bits = self.len * 8;
        let zeros = (BLOCK * 2 - 9 - self.held) % BLOCK;
        let mut end = [0; BLOCK * 2];
        end[0] = 0x80;
        end[1 + zeros..9 + zeros].copy_from_slice(&bits.to_be_bytes());
        self.update(&end[..9 + zeros]);
        let mut digest = [0; 32];
        for (to, word) in digest.chunks_exact_mut(4).zip(self.state) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        digest
    }

    /// Takes what makes a block of what is held; what is left of the bytes.
    fn whole<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        self.len += bytes.len() as u64;
        if self.held == 0 {
            return bytes;
        }
        let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.held));
        self.rest[self.held..self.held + now.len()].copy_from_slice(now);
        self.held += now.len();
        if self.held == BLOCK {
            one(&mut self.state, &[self.rest]);
            self.held = 0;
        }
        later
    }

    /// Holds what is no whole block.
    fn keep(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.rest[..rest.len()].copy_from_slice(rest);
            self.held = rest.len();
        }
    }
}

/// Goes on with two hashes, each with bytes of its own.
pub(crate) fn update_both(a: &mut Sha, of_a: &[u8], b: &mut Sha, of_b: &[u8]) {
    let (of_a, of_b) = (a.whole(of_a), b.whole(of_b));
    let ((blocks_a, rest_a), (blocks_b, rest_b)) = (of_a.as_chunks(), of_b.as_chunks());
    let same = blocks_a.len().min(blocks_b.len());
    let ((both_a, more_a), (both_b, more_b)) = (blocks_a.split_at(same), blocks_b.split_at(same));
    two([&mut a.state, &mut b.state], [both_a, both_b]);
    one(&mut a.state, more_a);
    one(&mut b.state, more_b);
    a.keep(rest_a);
    b.keep(rest_b);
}

fn one(state: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
    compress256(state, arrays(blocks));
}

/// The blocks as `sha2` names them.
fn arrays<N: ArrayLength<u8>>(blocks: &[[u8; BLOCK]]) -> &[GenericArray<u8, N>] {
    assert_eq!(N::USIZE, BLOCK);
    // SAFETY: both are 64 bytes in a row without any alignment, as was just compared.
    unsafe { std::slice::from_raw_parts(blocks.as_ptr().cast(), blocks.len()) }
}

/// As many blocks of each.
fn two(states: [&mut [u32; 8]; 2], blocks: [&[[u8; BLOCK]]; 2]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") {
        // SAFETY: the features that the function is compiled for were just found.
        return unsafe { rounds::interleaved(states, blocks) };
    }
    let [a, b] = states;
    one(a, blocks[0]);
    one(b, blocks[1]);
}

#[cfg(target_arch = "x86_64")]
mod rounds {
    //! The rounds by Intel's SHA extensions ("Intel SHA Extensions", 2013): each instruction does two
    //! rounds on a state that lies as ABEF and CDGH.

    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_loadu_si128, _mm_set_epi64x,
        _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8,
        _mm_shuffle_epi32, _mm_storeu_si128,
    };

    use super::BLOCK;

    /// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4,
    /// 4.2.2), four to a vector.
    #[rustfmt::skip]
    const K: [[u32; 4]; 16] = [
        [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5],
        [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
        [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3],
        [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
        [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc],
        [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
        [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7],
        [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
        [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13],
        [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
        [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3],
        [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
        [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5],
        [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
        [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208],
        [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
    ];

    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    pub(super) fn interleaved(states: [&mut [u32; 8]; 2], blocks: [&[[u8; BLOCK]]; 2]) {
        let mut of = [halves(states[0]), halves(states[1])];
        for (a, b) in blocks[0].iter().zip(blocks[1]) {
            let before = of;
            let mut words = [words(a), words(b)];
            for four in 0..16 {
                let k = vector(&K[four]);
                for (state, words) in of.iter_mut().zip(&mut words) {
                    if four >= 4 {
                        let [w0, w1, w2, w3] = *words;
                        let sum = _mm_add_epi32(
                            _mm_sha256msg1_epu32(w0, w1),
                            _mm_alignr_epi8::<4>(w3, w2),
                        );
                        *words = [w1, w2, w3, _mm_sha256msg2_epu32(sum, w3)];
                    }
                    let sum = _mm_add_epi32(words[four.min(3)], k);
                    let [abef, cdgh] = *state;
                    let cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
                    let abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32::<0x0e>(sum));
                    *state = [abef, cdgh];
                }
            }
            for (state, before) in of.iter_mut().zip(before) {
                *state = [_mm_add_epi32(state[0], before[0]), _mm_add_epi32(state[1], before[1])];
            }
        }
        for (state, of) in states.into_iter().zip(of) {
            store(state, of);
        }
    }

    /// A state as ABEF and CDGH.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn halves(state: &[u32; 8]) -> [__m128i; 2] {
        let (abcd, efgh) = state.split_at(4);
        let badc = _mm_shuffle_epi32::<0xb1>(vector(&[abcd[0], abcd[1], abcd[2], abcd[3]]));
        let hgfe = _mm_shuffle_epi32::<0x1b>(vector(&[efgh[0], efgh[1], efgh[2], efgh[3]]));
        [_mm_alignr_epi8::<8>(badc, hgfe), _mm_blend_epi16::<0xf0>(hgfe, badc)]
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn store(state: &mut [u32; 8], [abef, cdgh]: [__m128i; 2]) {
        let feba = _mm_shuffle_epi32::<0x1b>(abef);
        let dchg = _mm_shuffle_epi32::<0xb1>(cdgh);
        let (first, second) =
            (_mm_blend_epi16::<0xf0>(feba, dchg), _mm_alignr_epi8::<8>(dchg, feba));
        let to = state.as_mut_ptr().cast::<__m128i>();
        // SAFETY: a state is 32 bytes: two vectors, which need no alignment.
        unsafe {
            _mm_storeu_si128(to, first);
            _mm_storeu_si128(to.add(1), second);
        }
    }

    /// The words of a block, which are big-endian.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn words(block: &[u8; BLOCK]) -> [__m128i; 4] {
        let swapped = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let from = block.as_ptr().cast::<__m128i>();
        [0, 1, 2, 3].map(|nth| {
            // SAFETY: a block is 64 bytes: four vectors, which need no alignment.
            let loaded = unsafe { _mm_loadu_si128(from.add(nth)) };
            _mm_shuffle_epi8(loaded, swapped)
        })
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn vector(words: &[u32; 4]) -> __m128i {
        // SAFETY: four words are 16 bytes: a vector, which needs no alignment.
        unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn known(bytes: &[u8]) -> [u8; 32] {
        Sha256::digest(bytes).into()
    }

    fn bytes(len: usize, salt: usize) -> Vec<u8> {
        (0..len).map(|at| ((at + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
    }

    #[test]
    fn every_length_is_padded_as_it_should_be() {
        for len in 0..300 {
            let bytes = bytes(len, 1);
            let mut sha = Sha::new();
            sha.update(&bytes);
            assert_eq!(sha.finish(), known(&bytes), "{len}");
        }
    }

    proptest! {
        /// Two streams of whatever lengths, in whatever pieces: each is what it would be alone.
        #[test]
        fn two_at_once_are_as_one_after_the_other(
            lens in prop::array::uniform2(0_usize..5_000),
            cuts in prop::array::uniform2(0_usize..5_000),
        ) {
            let [a, b] = [bytes(lens[0], 3), bytes(lens[1], 7)];
            let (one, two) = (a.split_at(cuts[0].min(a.len())), b.split_at(cuts[1].min(b.len())));
            let (mut first, mut second) = (Sha::new(), Sha::new());
            update_both(&mut first, one.0, &mut second, two.0);
            update_both(&mut first, one.1, &mut second, two.1);
            prop_assert_eq!(first.finish(), known(&a));
            prop_assert_eq!(second.finish(), known(&b));
        }
    }
}
