//! A HAL's bus and pins: two devices, each with its own clock, share the bus. The module `hal`
//! represents yours.
//!
//!     cargo run -p nostall-spi --features std --example own_bus

// ANCHOR: program
use std::error::Error;
use std::thread;
use std::time::Duration;

use embedded_hal::spi::{MODE_0, MODE_3};
use hal::{Pin, Spi};
use nostall_spi::controllers::{Configure, Hal};
use nostall_spi::{Bus, Capabilities, Fault, Settings, Threads, Wire};

/// Clock, mode and sleep of the bus, which embedded-hal's `SpiBus` does not cover.
struct Clocked;

impl Configure<Spi> for Clocked {
    fn capabilities(&self, lines: u8) -> Capabilities {
        let modes = &[MODE_0, MODE_3];
        let range = Capabilities::least(lines).modes(modes).slowest(100_000);
        range.fastest(20_000_000)
    }

    fn configure(&mut self, spi: &mut Spi, wire: &Wire) -> Result<u32, Fault> {
        spi.set(wire.mode, wire.clock);
        Ok(wire.clock) // the actual clock
    }

    fn prepare(&mut self, spi: &mut Spi) -> Result<(), Fault> {
        spi.power(true);
        Ok(())
    }

    fn unprepare(&mut self, spi: &mut Spi) {
        spi.power(false);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pins = [Pin(4), Pin(5)]; // a tuple if their types differ
    let controller = Hal::new(Spi, pins, Clocked);
    let bus = Bus::new(controller, Threads::new());
    let flash = bus.device(Settings::new(8_000_000, 0))?;
    let sensor = bus.device(Settings::new(1_000_000, 1).mode(MODE_3))?;
    flash.write(&[0x9f])?;
    sensor.write(&[0x20, 0x57])?;
    // A `Worker` does this for a bus in a `static`.
    while bus.poll().is_some() {
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
// ANCHOR_END: program

/// Prints all that reaches the wires.
mod hal {
    use std::convert::Infallible;

    use embedded_hal::digital::{self, OutputPin};
    use embedded_hal::spi::{self, Mode, SpiBus};

    pub struct Spi;

    impl Spi {
        pub fn set(&mut self, mode: Mode, hertz: u32) {
            println!("{hertz} Hz, clock {:?}", mode.polarity);
        }
        pub fn power(&mut self, on: bool) {
            println!("{}", if on { "awake" } else { "asleep" });
        }
    }

    impl spi::ErrorType for Spi {
        type Error = Infallible;
    }

    impl SpiBus for Spi {
        fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
            self.transfer_in_place(words)
        }
        fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
            println!("{words:02x?}");
            Ok(())
        }
        fn transfer(&mut self, _: &mut [u8], words: &[u8]) -> Result<(), Infallible> {
            self.write(words)
        }
        fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
            self.write(words)
        }
        fn flush(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    pub struct Pin(pub u8);

    impl digital::ErrorType for Pin {
        type Error = Infallible;
    }

    impl OutputPin for Pin {
        fn set_low(&mut self) -> Result<(), Infallible> {
            println!("pin {} low", self.0);
            Ok(())
        }
        fn set_high(&mut self) -> Result<(), Infallible> {
            println!("pin {} high", self.0);
            Ok(())
        }
    }
}
