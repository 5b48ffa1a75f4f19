//! Arithmetic of Linux's ramoops in the field GF(2^8): polynomial 0x11d (x^8 + x^4 + x^3 + x^2 +
//! 1), primitive element 2.

/// Polynomial without its highest bit.
pub const POLYNOMIAL: u8 = 0x1d;

/// Powers of the primitive element, twice in a row, so that a sum of two logarithms is a valid
/// index.
pub static EXP: [u8; 510] = TABLES.0;

/// Logarithms. 0 has none; its entry is 255.
pub static LOG: [u8; 256] = TABLES.1;

const TABLES: ([u8; 510], [u8; 256]) = {
    let (mut exp, mut log) = ([0; 510], [255; 256]);
    let (mut power, mut value) = (0, 1u8);
    while power < 255 {
        exp[power] = value;
        exp[power + 255] = value;
        log[value as usize] = power as u8;
        value = double(value);
        power += 1;
    }
    (exp, log)
};

/// Returns `a` times the primitive element.
pub const fn double(a: u8) -> u8 {
    (a << 1) ^ (POLYNOMIAL & (a >> 7).wrapping_neg())
}

/// Returns the product without tables, for use in constants.
pub const fn slow_product(a: u8, b: u8) -> u8 {
    let (mut sum, mut bit) = (0, 8);
    while bit > 0 {
        bit -= 1;
        sum = double(sum) ^ (a & (b >> bit & 1).wrapping_neg());
    }
    sum
}

/// Returns the product.
pub fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[usize::from(LOG[usize::from(a)]) + usize::from(LOG[usize::from(b)])]
}

/// Returns the quotient; 0 for a division by 0, which callers exclude.
pub fn quotient(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[255 + usize::from(LOG[usize::from(a)]) - usize::from(LOG[usize::from(b)])]
}

/// Returns the primitive element to the power of `n`.
pub fn power(n: usize) -> u8 {
    EXP[n % 255]
}

/// Returns `a` times the primitive element to the power of `n`.
pub fn times_power(a: u8, n: usize) -> u8 {
    if a == 0 {
        return 0;
    }
    EXP[usize::from(LOG[usize::from(a)]) + n % 255]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "slow, and no unsafe code")]
    fn tables_and_shifts_agree() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(product(a, b), slow_product(a, b));
                if b != 0 {
                    assert_eq!(product(quotient(a, b), b), a);
                }
            }
        }
    }
}
