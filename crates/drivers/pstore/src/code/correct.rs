//! Detection and correction of errors: syndromes, Berlekamp-Massey, Chien search, Forney.
//!
//! Source: R. E. Blahut, Algebraic Codes for Data Transmission, chapters 6 and 7.

use core::fmt;

use super::Code;
use super::field::{power, product, quotient, times_power};
use crate::format::MAX_PARITY;

/// Polynomial over the field, lowest power first.
type Polynomial = [u8; MAX_PARITY + 1];

/// Error: more errors than the parity can correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncorrectable;

impl fmt::Display for Uncorrectable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more errors than the parity bytes can correct")
    }
}

impl core::error::Error for Uncorrectable {}

impl Code {
    /// Corrects `data` and `parity` if at most half as many bytes are wrong as there are parity
    /// bytes. Returns the number of wrong bytes.
    ///
    /// # Errors
    ///
    /// [`Uncorrectable`]; nothing is changed then.
    pub fn correct(&self, data: &mut [u8], parity: &mut [u8]) -> Result<usize, Uncorrectable> {
        self.mend(data, parity, self.parity() / 2)
    }

    /// Corrects like [`correct`](Self::correct), with Linux's rule: any number of errors that
    /// explains the parity is accepted, even more than half the number of parity bytes.
    ///
    /// # Errors
    ///
    /// [`Uncorrectable`]; nothing is changed then.
    pub fn correct_like_linux(
        &self,
        data: &mut [u8],
        parity: &mut [u8],
    ) -> Result<usize, Uncorrectable> {
        self.mend(data, parity, self.parity())
    }

    fn mend(
        &self,
        data: &mut [u8],
        parity: &mut [u8],
        most: usize,
    ) -> Result<usize, Uncorrectable> {
        let Some(parity) = parity.get_mut(..self.parity()) else {
            return Err(Uncorrectable);
        };
        let len = data.len() + parity.len();
        if len > 255 {
            return Err(Uncorrectable);
        }
        if self.check(data, parity) {
            return Ok(0);
        }
        let syndromes = self.syndromes(data, parity);
        let locator = self.locator(&syndromes);
        let errors = degree(&locator);
        if errors == 0 || errors > most {
            return Err(Uncorrectable);
        }

        // The inverse of each error's position is a root of the locator.
        let mut found = [(0, 0); MAX_PARITY];
        let mut roots = 0;
        for log in 1..=255 {
            if value(&locator[..=errors], log) != 0 {
                continue;
            }
            // Number of bytes of the codeword after the error.
            let behind = (255 - log) % 255;
            if behind >= len {
                return Err(Uncorrectable);
            }
            let wrong_by = error_value(&syndromes, &locator[..=errors], log);
            found[roots] = (behind, wrong_by.ok_or(Uncorrectable)?);
            roots += 1;
            if roots == errors {
                break;
            }
        }
        let found = &found[..roots];
        if roots != errors || !explains(found, &syndromes[..self.parity()]) {
            return Err(Uncorrectable);
        }
        for &(behind, wrong_by) in found {
            let at = len - 1 - behind;
            match at.checked_sub(data.len()) {
                None => data[at] ^= wrong_by,
                Some(at) => parity[at] ^= wrong_by,
            }
        }
        Ok(found.iter().filter(|(_, wrong_by)| *wrong_by != 0).count())
    }

    /// Returns the values of the received word at the roots of the generator.
    fn syndromes(&self, data: &[u8], parity: &[u8]) -> Polynomial {
        let mut syndromes = [0; MAX_PARITY + 1];
        for (root, syndrome) in syndromes[..self.parity()].iter_mut().enumerate() {
            let bytes = data.iter().chain(parity);
            *syndrome = bytes.fold(0, |sum, &byte| times_power(sum, root) ^ byte);
        }
        syndromes
    }

    /// Returns the shortest recurrence that produces the syndromes (Berlekamp-Massey).
    fn locator(&self, syndromes: &Polynomial) -> Polynomial {
        let (mut locator, mut previous) = ([0; MAX_PARITY + 1], [0; MAX_PARITY + 1]);
        locator[0] = 1;
        previous[0] = 1;
        let (mut length, mut shift, mut scale) = (0, 1, 1);
        for step in 0..self.parity() {
            let terms = (0..=length).map(|i| product(locator[i], syndromes[step - i]));
            let discrepancy = terms.fold(0, |sum, term| sum ^ term);
            if discrepancy == 0 {
                shift += 1;
                continue;
            }
            let before = locator;
            let factor = quotient(discrepancy, scale);
            for i in shift..=self.parity() {
                locator[i] ^= product(factor, previous[i - shift]);
            }
            if 2 * length <= step {
                length = step + 1 - length;
                (previous, scale, shift) = (before, discrepancy, 1);
            } else {
                shift += 1;
            }
        }
        locator
    }
}

/// Returns the highest power with a coefficient.
fn degree(polynomial: &Polynomial) -> usize {
    polynomial.iter().rposition(|&term| term != 0).unwrap_or(0)
}

/// Returns the polynomial's value at the primitive element to the power of `log`.
fn value(polynomial: &[u8], log: usize) -> u8 {
    let terms = polynomial.iter().enumerate();
    terms.fold(0, |sum, (i, &term)| sum ^ times_power(term, i * log))
}

/// Returns the error of the byte at the inverse of 2^`log` (Forney).
fn error_value(syndromes: &Polynomial, locator: &[u8], log: usize) -> Option<u8> {
    let evaluator = |i: usize| {
        let terms = (0..=i).map(|j| product(syndromes[i - j], locator[j]));
        terms.fold(0, |sum, term| sum ^ term)
    };
    let numerator =
        (0..locator.len() - 1).fold(0, |sum, i| sum ^ times_power(evaluator(i), i * log));
    // Derivative: in this field only odd powers leave a term.
    let odd = locator.iter().enumerate().filter(|(i, _)| i % 2 == 1);
    let slope = odd.fold(0, |sum, (i, &term)| sum ^ times_power(term, (i - 1) * log));
    if numerator == 0 {
        return Some(0);
    }
    // The first root is 2^0, so the position itself is a factor.
    (slope != 0).then(|| product(quotient(numerator, slope), power(255 - log)))
}

/// Returns whether these errors produce these syndromes.
fn explains(errors: &[(usize, u8)], syndromes: &[u8]) -> bool {
    syndromes.iter().enumerate().all(|(root, &syndrome)| {
        let terms = errors
            .iter()
            .map(|&(behind, by)| times_power(by, root * behind));
        terms.fold(0, |sum, term| sum ^ term) == syndrome
    })
}
