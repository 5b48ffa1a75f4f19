//! Chip-select lines: output pins of one or several types.

use embedded_hal::digital::{OutputPin, PinState};
use embedded_hal::spi::ErrorKind;

use crate::controller::Level;
use crate::error::Fault;
use crate::settings::{Polarity, Select};

/// Chip-select lines, numbered from 0: an array of pins, or a tuple of up to 8 pins of different
/// types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of chip-select pins",
    note = "pins of one type are an array, `[pin]`; pins of several types a tuple, `(a, b)` or `(pin,)`"
)]
pub trait Lines {
    /// Number of lines.
    const COUNT: u8;

    /// Drives a line.
    ///
    /// # Errors
    ///
    /// [`Fault::Refused`] if there is no such line, [`Fault::Bus`] if driving it fails.
    fn drive(&mut self, line: u8, state: PinState) -> Result<(), Fault>;
}

#[inline]
fn driven<P: OutputPin>(pin: &mut P, state: PinState) -> Result<(), Fault> {
    pin.set_state(state)
        .map_err(|_| Fault::Bus(ErrorKind::ChipSelectFault))
}

impl<P: OutputPin, const N: usize> Lines for [P; N] {
    const COUNT: u8 = if N > 255 { 255 } else { N as u8 };

    #[inline]
    fn drive(&mut self, line: u8, state: PinState) -> Result<(), Fault> {
        let pin = self.get_mut(usize::from(line));
        driven(pin.ok_or(Fault::Refused)?, state)
    }
}

macro_rules! lines {
    ($count:literal $($pin:ident $index:tt)*) => {
        impl<$($pin: OutputPin),*> Lines for ($($pin,)*) {
            const COUNT: u8 = $count;

            #[inline]
            fn drive(&mut self, line: u8, state: PinState) -> Result<(), Fault> {
                match line {
                    $($index => driven(&mut self.$index, state),)*
                    _ => Err(Fault::Refused),
                }
            }
        }
    };
}

lines!(1 A 0);
lines!(2 A 0 B 1);
lines!(3 A 0 B 1 C 2);
lines!(4 A 0 B 1 C 2 D 3);
lines!(5 A 0 B 1 C 2 D 3 E 4);
lines!(6 A 0 B 1 C 2 D 3 E 4 F 5);
lines!(7 A 0 B 1 C 2 D 3 E 4 F 5 G 6);
lines!(8 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);

/// Asserts or releases the line of `select`.
#[inline]
pub(super) fn set<L: Lines>(lines: &mut L, select: Select, level: Level) -> Result<(), Fault> {
    let Select::Line(number, polarity) = select else {
        return Ok(());
    };
    let asserted = matches!(level, Level::Asserted);
    let high = asserted == matches!(polarity, Polarity::ActiveHigh);
    lines.drive(number, PinState::from(high))
}
