//! Sixteen products at once, with AVX2's byte shuffle. A product is the sum of two table look-ups
//! of four bits each, side by side. Not for kernels, which do not use vector registers.

use core::arch::x86_64::{
    __m128i, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64, _mm_xor_si128,
    _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_set_epi64x, _mm256_set_m128i, _mm256_set1_epi8,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srlv_epi64, _mm256_xor_si256,
};

use super::field::slow_product;

/// Products of each byte with 0 to 15, and with 16 times these.
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

/// Computes [`sum`](super::sum) if the CPU supports AVX2.
#[inline]
pub fn sum(rows: &[u128], change: &[u8]) -> Option<u128> {
    #[cfg(feature = "std")]
    let can = std::is_x86_feature_detected!("avx2");
    #[cfg(not(feature = "std"))]
    let can = cfg!(target_feature = "avx2");
    // SAFETY: the CPU has AVX2.
    can.then(|| unsafe { sum_avx2(rows, change) })
}

#[target_feature(enable = "avx2")]
fn sum_avx2(rows: &[u128], change: &[u8]) -> u128 {
    let count = rows.len().min(change.len());
    let (rows, change) = (&rows[..count], &change[change.len() - count..]);
    let four_bits = _mm256_set1_epi8(15);
    let shift = _mm256_set_epi64x(4, 4, 0, 0);
    let mut sum = _mm256_setzero_si256();
    for (i, row) in rows.iter().enumerate() {
        let row = _mm256_broadcastsi128_si256(vector(*row));
        let halves = _mm256_and_si256(_mm256_srlv_epi64(row, shift), four_bits);
        let [low, high] = PRODUCTS[usize::from(change[count - 1 - i])];
        let products = _mm256_set_m128i(vector(high), vector(low));
        sum = _mm256_xor_si256(sum, _mm256_shuffle_epi8(products, halves));
    }
    let (low, high) = (
        _mm256_castsi256_si128(sum),
        _mm256_extracti128_si256::<1>(sum),
    );
    let sum = _mm_xor_si128(low, high);
    let low = _mm_cvtsi128_si64(sum).cast_unsigned();
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, sum)).cast_unsigned();
    u128::from(high) << 64 | u128::from(low)
}

#[target_feature(enable = "avx2")]
fn vector(bytes: u128) -> __m128i {
    _mm_set_epi64x((bytes >> 64) as i64, bytes as i64)
}
