//! Line settings: rate and frame.

use core::fmt;
use core::ops::RangeInclusive;

use nostall_io::Nanos;

use crate::registers::lcr;

/// Number of data bits in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataBits {
    /// Five data bits.
    Five,
    /// Six data bits.
    Six,
    /// Seven data bits.
    Seven,
    /// Eight data bits.
    Eight,
}

/// Parity bit of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// No parity bit.
    None,
    /// The parity bit makes the number of ones odd.
    Odd,
    /// The parity bit makes the number of ones even.
    Even,
    /// Always 1.
    Mark,
    /// Always 0.
    Space,
}

/// Number of stop bits of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopBits {
    /// One stop bit.
    One,
    /// Two stop bits; the 16550 sends 1.5 with 5 data bits.
    Two,
}

/// Rate and frame of the line, and the input clock that they derive from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSettings {
    /// Rate in bits per second.
    pub baud: u32,
    /// Input clock of the port in hertz. At divisor 1, a bit takes 16 of its cycles. A PC's is
    /// [`PC_CLOCK`](Self::PC_CLOCK).
    pub input_clock: u32,
    /// Number of data bits.
    pub data_bits: DataBits,
    /// Parity bit.
    pub parity: Parity,
    /// Number of stop bits.
    pub stop_bits: StopBits,
}

/// Reason for which a rate cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// The rate or the input clock is 0.
    Zero,
    /// The nearest possible rate differs by more than 3 %, at which receivers begin to misread.
    RateOff {
        /// Requested rate.
        asked: u32,
        /// Nearest rate that the input clock allows.
        nearest: u32,
    },
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("line rate and input clock must not be 0"),
            Self::RateOff { asked, nearest } => write!(
                f,
                "the port cannot make {asked} baud, its nearest rate is {nearest}: \
                 choose another rate, or correct the input clock"
            ),
        }
    }
}

impl core::error::Error for LineError {}

impl LineSettings {
    /// Input clock of a PC: 1.8432 MHz (PC16550D data sheet, Table III).
    pub const PC_CLOCK: u32 = 1_843_200;

    /// Creates settings with `baud`, 8 data bits, no parity and 1 stop bit, for a PC's input clock.
    pub const fn baud(baud: u32) -> Self {
        Self {
            baud,
            input_clock: Self::PC_CLOCK,
            data_bits: DataBits::Eight,
            parity: Parity::None,
            stop_bits: StopBits::One,
        }
    }

    /// Returns the value of the divisor latch: the nearest to `input_clock / (16 * baud)`.
    ///
    /// # Errors
    ///
    /// [`LineError::RateOff`] if no divisor comes within 3 % of the rate. [`LineError::Zero`] for a
    /// rate or an input clock of 0.
    pub fn divisor(&self) -> Result<u16, LineError> {
        let divisor = self.divide(self.input_clock.into(), 16, 1..=0xffff)?;
        Ok(divisor as u16)
    }

    /// Returns the divisor in `range` that is nearest to `clock / (cycles * baud)`.
    ///
    /// # Errors
    ///
    /// The errors of [`divisor`](Self::divisor).
    pub(crate) fn divide(
        &self,
        clock: u64,
        cycles: u64,
        range: RangeInclusive<u32>,
    ) -> Result<u32, LineError> {
        if self.baud == 0 || clock == 0 {
            return Err(LineError::Zero);
        }
        let per_step = cycles * u64::from(self.baud);
        let nearest = (clock + per_step / 2) / per_step;
        let divisor = nearest.clamp((*range.start()).into(), (*range.end()).into());
        // Computed in clock cycles, so that nothing is rounded.
        if (divisor * per_step).abs_diff(clock) * 100 > clock * 3 {
            return Err(LineError::RateOff {
                asked: self.baud,
                nearest: u32::try_from(clock / cycles / divisor).unwrap_or(u32::MAX),
            });
        }
        Ok(divisor as u32)
    }

    /// Returns the time of one frame on the line: start, data, parity and stop bits.
    ///
    /// For 0 baud, it is the longest [`Nanos`].
    pub fn frame_time(&self) -> Nanos {
        // Computed in half bits, for the one and a half stop bits of a 5-bit frame.
        let parity = if self.parity == Parity::None { 0 } else { 2 };
        let stop = match (self.stop_bits, self.data_bits) {
            (StopBits::One, _) => 2,
            (StopBits::Two, DataBits::Five) => 3,
            (StopBits::Two, _) => 4,
        };
        let data = match self.data_bits {
            DataBits::Five => 10,
            DataBits::Six => 12,
            DataBits::Seven => 14,
            DataBits::Eight => 16,
        };
        Nanos::from_secs(2 + data + parity + stop) / (2 * u64::from(self.baud))
    }

    /// Returns the value of the line control register.
    pub(crate) const fn lcr(&self) -> u8 {
        let data = match self.data_bits {
            DataBits::Five => 0,
            DataBits::Six => 1,
            DataBits::Seven => 2,
            DataBits::Eight => 3,
        };
        let parity = match self.parity {
            Parity::None => 0,
            Parity::Odd => lcr::PARITY,
            Parity::Even => lcr::PARITY | lcr::EVEN,
            Parity::Mark => lcr::PARITY | lcr::STICK,
            Parity::Space => lcr::PARITY | lcr::STICK | lcr::EVEN,
        };
        let stop = match self.stop_bits {
            StopBits::One => 0,
            StopBits::Two => lcr::STOP,
        };
        data | parity | stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_divisors_are_those_of_the_data_sheet() {
        // PC16550D, Table III, 1.8432 MHz.
        for (baud, divisor) in [
            (50, 2304),
            (300, 384),
            (1_200, 96),
            (9_600, 12),
            (19_200, 6),
            (38_400, 3),
            (56_000, 2), // the table's own error there: 2.86 %
            (115_200, 1),
        ] {
            assert_eq!(LineSettings::baud(baud).divisor(), Ok(divisor), "{baud}");
        }
    }

    #[test]
    fn a_rate_that_the_clock_cannot_produce_is_refused_with_the_nearest() {
        assert_eq!(
            LineSettings::baud(230_400).divisor(),
            Err(LineError::RateOff {
                asked: 230_400,
                nearest: 115_200
            })
        );
        assert_eq!(LineSettings::baud(0).divisor(), Err(LineError::Zero));
        let no_clock = LineSettings {
            input_clock: 0,
            ..LineSettings::baud(9_600)
        };
        assert_eq!(no_clock.divisor(), Err(LineError::Zero));
        assert!(LineSettings::baud(1).divisor().is_err(), "divisor 115200");
    }

    #[test]
    fn a_frame_lasts_as_long_as_its_bits() {
        let eight_n_one = LineSettings::baud(115_200);
        assert_eq!(eight_n_one.frame_time(), Nanos(86_805));
        let seven_e_two = LineSettings {
            data_bits: DataBits::Seven,
            parity: Parity::Even,
            stop_bits: StopBits::Two,
            ..LineSettings::baud(1_000)
        };
        assert_eq!(seven_e_two.frame_time(), Nanos::from_millis(11));
        let five_n_two = LineSettings {
            data_bits: DataBits::Five,
            stop_bits: StopBits::Two,
            ..LineSettings::baud(1_000)
        };
        assert_eq!(five_n_two.frame_time(), Nanos::from_micros(7_500));
    }

    proptest! {
        #[test]
        fn any_rate_is_within_3_percent_or_refused(baud: u32, input_clock: u32) {
            let settings = LineSettings { input_clock, ..LineSettings::baud(baud) };
            let _ = settings.frame_time();
            if let Ok(divisor) = settings.divisor() {
                let real = f64::from(input_clock) / 16.0 / f64::from(divisor);
                // Relative to the cycles of a bit, like the check in `divisor`.
                prop_assert!((f64::from(baud) / real - 1.0).abs() <= 0.030_001);
            }
        }
    }
}
