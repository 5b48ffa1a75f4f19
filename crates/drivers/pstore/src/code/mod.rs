//! Reed-Solomon code of ramoops: encode, update, check, correct.
//!
//! GF(2^8) with polynomial 0x11d. The generator's roots are successive powers of 2, from 2^0 (Linux
//! 6.1, `fs/pstore/ram_core.c`, `persistent_ram_init_ecc`: `fcr` 0, `prim` 1). The code is
//! systematic: parity bytes are separate, the one of the highest power first.
//!
//! # Reliability of a correction
//!
//! A block that was overwritten with noise is sometimes "corrected" to another value. This
//! happens to about half of such blocks with 2 parity bytes. With 8 bytes it happens to three in a
//! thousand, with 16 to two in ten million. So report "corrected", not "right".

mod correct;
mod field;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod simd;

use field::{EXP, LOG, double, slow_product};

use crate::format::{BLOCK, MAX_PARITY};

pub use correct::Uncorrectable;

/// Largest number of parity bytes with tables.
const FAST: usize = 16;

/// Reed-Solomon code with a given number of parity bytes.
///
/// It has 2 KiB of tables. A constant takes no time at boot:
///
/// ```
/// use nostall_pstore::Code;
///
/// static CODE: Code = Code::new(16).unwrap();
///
/// let mut data = *b"the last words of a kernel";
/// let mut parity = [0; 16];
/// CODE.encode(&data, &mut parity);
/// data[4] ^= 0xff;
/// assert_eq!(CODE.correct(&mut data, &mut parity), Ok(1));
/// assert_eq!(&data, b"the last words of a kernel");
/// ```
#[derive(Clone, Debug)]
pub struct Code {
    parity: usize,
    /// Generator without its leading 1, highest power first.
    generator: [u8; MAX_PARITY],
    /// Contribution of bit 0 of each byte to the parity, indexed by the number of bytes after it in
    /// the block. Parity bytes are stored from the highest bits down.
    rows: [u128; BLOCK],
}

impl Code {
    /// Creates the code with `parity` bytes for each block; `None` for 0 and for more than
    /// [`MAX_PARITY`].
    pub const fn new(parity: usize) -> Option<Self> {
        if parity == 0 || parity > MAX_PARITY {
            return None;
        }
        let generator = generator(parity);
        let mut code = Self {
            parity,
            generator,
            rows: [0; BLOCK],
        };
        if parity <= FAST {
            let (mut behind, mut row) = (0, times(&generator, 1));
            while behind < BLOCK {
                code.rows[behind] = row;
                row = row << 8 ^ times(&generator, (row >> 120) as u8);
                behind += 1;
            }
        }
        Some(code)
    }

    /// Returns the number of parity bytes for each block.
    pub const fn parity(&self) -> usize {
        self.parity
    }

    /// Returns whether false corrections are rare enough to repair damaged contents permanently,
    /// and a block with torn data and parity is not mistaken for another. This holds from 16 parity
    /// bytes.
    pub(crate) const fn is_trusted(&self) -> bool {
        self.parity >= 16
    }

    /// Returns whether [`difference`](Self::difference) is supported: up to 16 parity bytes. With
    /// more, a block is encoded again.
    pub const fn updates(&self) -> bool {
        self.parity <= FAST
    }

    /// Returns the change of a block's parity when bytes, followed by `behind` others, are XORed
    /// with `change`. The first [`parity`](Self::parity) bytes are valid.
    ///
    /// The code is linear, so the cost depends on the changed bytes, not on the block. Bytes beyond
    /// the size of a block are ignored. Without [`updates`](Self::updates) the result is 0.
    pub fn difference(&self, behind: usize, change: &[u8]) -> [u8; 16] {
        self.sum(behind, change).to_be_bytes()
    }

    fn sum(&self, behind: usize, change: &[u8]) -> u128 {
        let rows = self.rows.get(behind..).unwrap_or_default();
        let change = &change[change.len().saturating_sub(rows.len())..];
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        if let Some(sum) = simd::sum(rows, change) {
            return sum;
        }
        sum(rows, change)
    }

    /// Computes the parity of `data`, which is a whole or short block or a header. Writes the first
    /// [`parity`](Self::parity) bytes of `parity`.
    pub fn encode(&self, data: &[u8], parity: &mut [u8]) {
        if self.updates() && data.len() <= BLOCK {
            let bytes = self.difference(0, data);
            let len = parity.len().min(self.parity);
            parity[..len].copy_from_slice(&bytes[..len]);
        } else {
            let mut register = [0; MAX_PARITY];
            self.register(data, &mut register);
            for (to, from) in parity.iter_mut().zip(&register[..self.parity]) {
                *to = *from;
            }
        }
    }

    /// Returns whether `parity` is the parity of `data`.
    pub fn check(&self, data: &[u8], parity: &[u8]) -> bool {
        let mut right = [0; MAX_PARITY];
        self.encode(data, &mut right);
        parity.len() >= self.parity && right[..self.parity] == parity[..self.parity]
    }

    fn register(&self, data: &[u8], register: &mut [u8; MAX_PARITY]) {
        let register = &mut register[..self.parity];
        for &byte in data {
            let out = register[0] ^ byte;
            register.copy_within(1.., 0);
            register[self.parity - 1] = 0;
            if out != 0 {
                let log = usize::from(LOG[usize::from(out)]);
                for (sum, &term) in register.iter_mut().zip(&self.generator) {
                    if term != 0 {
                        *sum ^= EXP[log + usize::from(LOG[usize::from(term)])];
                    }
                }
            }
        }
    }
}

/// Returns the sum of the rows, each multiplied by its byte: the first row by the last byte, and so
/// on.
fn sum(rows: &[u128], change: &[u8]) -> u128 {
    // Rows whose bytes have the same upper half are added first, and those with the same lower
    // half. Then, bit by bit, the sums whose halves have that bit are added: doubling commutes with
    // addition.
    let (mut upper, mut lower) = ([0; 16], [0; 16]);
    for (row, &byte) in rows.iter().zip(change.iter().rev()) {
        upper[usize::from(byte >> 4)] ^= row;
        lower[usize::from(byte & 15)] ^= row;
    }
    let upper = each_times_its_number(&mut upper);
    sixteen_times_each(upper) ^ each_times_its_number(&mut lower)
}

#[inline]
fn each_times_its_number(sums: &mut [u128; 16]) -> u128 {
    let mut sum = 0;
    for bit in (0..4).rev() {
        let (without, with) = sums[..2 << bit].split_at_mut(1 << bit);
        let mut of_bit = 0;
        for (without, with) in without.iter_mut().zip(with) {
            *without ^= *with;
            of_bit ^= *with;
        }
        sum = double_each(sum) ^ of_bit;
    }
    sum
}

/// Returns the first bytes of the generator, each times `byte`, from the highest bits down.
const fn times(generator: &[u8; MAX_PARITY], byte: u8) -> u128 {
    let (mut product, mut i) = (0, 0);
    while i < FAST {
        product = product << 8 | slow_product(generator[i], byte) as u128;
        i += 1;
    }
    product
}

/// Returns the product of (x - 2^i) for all i below `parity`, without its leading 1.
const fn generator(parity: usize) -> [u8; MAX_PARITY] {
    // Lowest power first during the computation.
    let mut polynomial = [0u8; MAX_PARITY + 1];
    polynomial[0] = 1;
    let (mut root, mut degree) = (1u8, 0);
    while degree < parity {
        let mut i = degree + 1;
        while i > 0 {
            polynomial[i] = polynomial[i - 1] ^ slow_product(polynomial[i], root);
            i -= 1;
        }
        polynomial[0] = slow_product(polynomial[0], root);
        root = double(root);
        degree += 1;
    }
    let mut highest_first = [0; MAX_PARITY];
    let mut i = 0;
    while i < parity {
        highest_first[i] = polynomial[parity - 1 - i];
        i += 1;
    }
    highest_first
}

/// Multiplies each of sixteen bytes by the primitive element.
const fn double_each(bytes: u128) -> u128 {
    let (upper, lower) = ((bytes >> 64) as u64, bytes as u64);
    (double_eight(upper) as u128) << 64 | double_eight(lower) as u128
}

const fn double_eight(bytes: u64) -> u64 {
    const LOWEST: u64 = u64::MAX / 255;
    let carries = bytes >> 7 & LOWEST;
    (bytes & !(LOWEST << 7)) << 1 ^ (carries * field::POLYNOMIAL as u64)
}

/// Multiplies each of sixteen bytes by 16, the primitive element to the power of 4.
const fn sixteen_times_each(bytes: u128) -> u128 {
    const LOWER: u128 = u128::MAX / 17;
    let carries = bytes >> 4 & LOWER;
    // Bits of the polynomial: none of these products is longer than a byte.
    (bytes & LOWER) << 4 ^ carries ^ carries << 2 ^ carries << 3 ^ carries << 4
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::boxed::Box;
    use std::{vec, vec::Vec};

    fn code(parity: usize) -> Box<Code> {
        Box::new(Code::new(parity).unwrap())
    }

    fn parity_of(code: &Code, data: &[u8]) -> Vec<u8> {
        let mut parity = vec![0; code.parity()];
        code.encode(data, &mut parity);
        parity
    }

    #[test]
    fn a_block_that_linux_wrote_has_the_parity_that_linux_wrote() {
        let image = include_bytes!("../../tests/fixtures/ecc16/image.bin");
        // Header and first block of the first dmesg zone.
        let division = crate::format::Division::new(0x9332, 16).unwrap();
        let at = division.header_parity();
        let code = code(16);
        assert!(code.check(&image[..12], &image[at..at + 16]));
        let at = division.block_parity(0);
        assert!(code.check(&image[12..12 + BLOCK], &image[at..at + 16]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow, and no unsafe code")]
    fn tables_and_no_tables_agree() {
        let data: Vec<u8> = (0..=127).collect();
        for parity in 1..=FAST {
            let code = code(parity);
            let mut register = [0; MAX_PARITY];
            code.register(&data, &mut register);
            assert_eq!(parity_of(&code, &data), register[..parity]);
        }
    }

    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    #[test]
    fn sixteen_bytes_at_once_and_bit_by_bit_agree() {
        let code = code(16);
        let data: Vec<u8> = (0..=127).map(|i: u8| i.wrapping_mul(77)).collect();
        for len in (0..=BLOCK).step_by(if cfg!(miri) { 16 } else { 1 }) {
            let at_once = simd::sum(&code.rows, &data[..len]);
            assert!(at_once.is_some() || !cfg!(target_feature = "ssse3"));
            assert!(at_once.is_none_or(|it| it == sum(&code.rows, &data[..len])));
        }
    }

    proptest! {
        #[test]
        fn an_update_gives_the_same_parity_as_encoding_again(
            parity in 1..=FAST,
            data in prop::collection::vec(any::<u8>(), 1..=BLOCK),
            change in prop::collection::vec(any::<u8>(), 1..=BLOCK),
            at in any::<prop::sample::Index>(),
        ) {
            let code = code(parity);
            let at = at.index(data.len());
            let change = &change[..change.len().min(data.len() - at)];
            let mut changed = data.clone();
            for (byte, change) in changed[at..].iter_mut().zip(change) {
                *byte ^= change;
            }
            let behind = data.len() - at - change.len();
            let mut updated = parity_of(&code, &data);
            for (byte, change) in updated.iter_mut().zip(code.difference(behind, change)) {
                *byte ^= change;
            }
            prop_assert_eq!(updated, parity_of(&code, &changed));
        }

        #[test]
        fn half_as_many_errors_as_parity_bytes_are_corrected(
            parity in 1..=MAX_PARITY,
            data in prop::collection::vec(any::<u8>(), 1..=BLOCK),
            errors in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..64),
        ) {
            let code = code(parity);
            let mut word = data.clone();
            word.extend(parity_of(&code, &data));
            let right = word.clone();
            for (at, error) in &errors[..errors.len().min(parity / 2)] {
                let at = at.index(word.len());
                word[at] ^= error;
            }
            let wrong = word.iter().zip(&right).filter(|(a, b)| a != b).count();
            let (data, parity) = word.split_at_mut(data.len());
            prop_assert_eq!(code.correct(data, parity), Ok(wrong));
            prop_assert_eq!(word, right);
        }

        #[test]
        fn a_correction_is_a_nearby_codeword(
            parity in 1..=MAX_PARITY,
            mut data in prop::collection::vec(any::<u8>(), 1..=BLOCK),
            mut bytes in prop::collection::vec(any::<u8>(), MAX_PARITY..=MAX_PARITY),
        ) {
            let code = code(parity);
            let before = data.clone();
            match code.correct(&mut data, &mut bytes[..parity]) {
                Ok(errors) => {
                    prop_assert!(errors <= parity / 2);
                    prop_assert!(code.check(&data, &bytes));
                }
                Err(_) => prop_assert_eq!(data, before),
            }
        }
    }
}
