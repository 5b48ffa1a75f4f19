//! Sixteen products at once, by SSSE3's byte shuffle: a product is the sum of two
//! that are looked up by four bits each. Not for kernels, which leave vector
//! registers alone.

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi8, _mm_setzero_si128,
    _mm_shuffle_epi8, _mm_srli_epi64, _mm_unpackhi_epi64, _mm_xor_si128,
};

use super::field::slow_product;

/// For each byte: its products with 0 to 15, and with 16 times these.
static PRODUCTS: [[u128; 2]; 256] = {
    let mut products = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut low = 0;
        while low < 16 {
            let (a, b) = (byte as u8, low as u8);
            products[byte][0] |= (slow_product(a, b) as u128) << (8 * low);
            products[byte][1] |= (slow_product(a, b << 4) as u128) << (8 * low);
            low += 1;
        }
        byte += 1;
    }
    products
};

/// As [`sum`](super::sum), where the CPU can.
#[inline]
pub fn sum(rows: &[u128], change: &[u8]) -> Option<u128> {
    #[cfg(feature = "std")]
    let can = std::is_x86_feature_detected!("ssse3");
    #[cfg(not(feature = "std"))]
    let can = cfg!(target_feature = "ssse3");
    // SAFETY: the CPU has SSSE3.
    can.then(|| unsafe { sum_ssse3(rows, change) })
}

#[target_feature(enable = "ssse3")]
fn sum_ssse3(rows: &[u128], change: &[u8]) -> u128 {
    let low_bits = _mm_set1_epi8(15);
    let mut sum = _mm_setzero_si128();
    for (row, &byte) in rows.iter().zip(change.iter().rev()) {
        let [low, high] = PRODUCTS[usize::from(byte)];
        let row = vector(*row);
        let low = _mm_shuffle_epi8(vector(low), _mm_and_si128(row, low_bits));
        let above = _mm_and_si128(_mm_srli_epi64::<4>(row), low_bits);
        let high = _mm_shuffle_epi8(vector(high), above);
        sum = _mm_xor_si128(sum, _mm_xor_si128(low, high));
    }
    let low = _mm_cvtsi128_si64(sum).cast_unsigned();
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, sum)).cast_unsigned();
    u128::from(high) << 64 | u128::from(low)
}

#[target_feature(enable = "sse2")]
fn vector(bytes: u128) -> __m128i {
    _mm_set_epi64x((bytes >> 64) as i64, bytes as i64)
}
