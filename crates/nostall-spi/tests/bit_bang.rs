//! Pins that the CPU moves, on wires that are looked at.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, InputPin, OutputPin};
use nostall_devices::VirtualClock;
use nostall_io::Nanos;
use nostall_spi::controllers::BitBang;
use nostall_spi::{
    Bare, BitOrder, Bus, Config, Invalid, Mode, Select, Settings, Transfer, WordSize,
};
use proptest::prelude::*;

/// 1 MHz.
fn slow() -> Settings {
    Settings::new(1_000_000, Select::line(0))
}

/// Wires that pins pull, and a device that samples and shifts as its mode says.
struct Wires {
    mode: Mode,
    clock: bool,
    out: bool,
    selected: bool,
    /// What the device sampled.
    bits: Vec<bool>,
    clocked: u32,
    waited: u64,
}

#[derive(Clone, Copy)]
enum Which {
    Clock,
    Out,
    Select,
}

#[derive(Clone)]
struct Pin(Rc<RefCell<Wires>>, Which);

impl ErrorType for Pin {
    type Error = Infallible;
}

impl Pin {
    fn set(&mut self, level: bool) {
        let mut wires = self.0.borrow_mut();
        match self.1 {
            Which::Out => wires.out = level,
            Which::Select => wires.selected = !level,
            Which::Clock => {
                if wires.clock != level && wires.selected {
                    wires.clocked += 1;
                    let away = level != wires.mode.idles_high();
                    if away != wires.mode.samples_second() {
                        let out = wires.out;
                        wires.bits.push(out);
                    }
                }
                wires.clock = level;
            }
        }
    }
}

impl OutputPin for Pin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.set(false);
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        self.set(true);
        Ok(())
    }
}

/// The data wires are joined.
impl InputPin for Pin {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(self.0.borrow().out)
    }
    fn is_low(&mut self) -> Result<bool, Infallible> {
        Ok(!self.0.borrow().out)
    }
}

struct Half(Rc<RefCell<Wires>>);

impl DelayNs for Half {
    fn delay_ns(&mut self, ns: u32) {
        self.0.borrow_mut().waited += u64::from(ns);
    }
}

proptest! {
    /// Whatever the mode, the bit order and the word size, the device samples the bits
    /// in their order, and what comes back is what was sent.
    #[test]
    fn bit_banged_words_are_sampled_on_the_right_edges(
        words in prop::collection::vec(any::<u32>(), 1..40),
        mode in 0..4_usize,
        lsb in any::<bool>(),
        size in 0..3_usize,
    ) {
        let (mode, size) = (Mode::ALL[mode], WordSize::ALL[size]);
        let wires = Rc::new(RefCell::new(Wires {
            mode, clock: mode.idles_high(), out: false, selected: false,
            bits: Vec::new(), clocked: 0, waited: 0,
        }));
        let pin = |which| Pin(wires.clone(), which);
        let (clock, out, input) = (pin(Which::Clock), pin(Which::Out), pin(Which::Out));
        let lines = [pin(Which::Select)];
        let bang = BitBang::new(clock, out, input, lines, Half(wires.clone()));
        let clock = VirtualClock::new();
        let bus: Bus<_, _, 1, 1> = Bus::new(bang, Bare(clock), Config::DEFAULT);
        let order = if lsb { BitOrder::LsbFirst } else { BitOrder::MsbFirst };
        let settings = Settings { order, word: size, ..slow().mode(mode) };
        let device = bus.device(settings).unwrap();

        let bits = size.bits() as usize;
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for word in &words {
            match size {
                WordSize::Bits8 => bytes.push(*word as u8),
                WordSize::Bits16 => bytes.extend((*word as u16).to_ne_bytes()),
                WordSize::Bits32 => bytes.extend(word.to_ne_bytes()),
            }
            for index in 0..bits {
                let bit = if lsb { index } else { bits - 1 - index };
                expected.push(word >> bit & 1 != 0);
            }
        }
        let before = bytes.clone();
        device.sync(&mut [Transfer::in_place(&mut bytes)]).unwrap();
        prop_assert_eq!(&bytes, &before);
        let wires = wires.borrow();
        prop_assert_eq!(wires.clocked as usize, 2 * expected.len());
        prop_assert_eq!(wires.waited, 1_000 * expected.len() as u64);
        prop_assert_eq!(&wires.bits, &expected);
        prop_assert!(!wires.selected && wires.clock == mode.idles_high());
    }
}

/// Pins that are behind something slow.
struct Slowly(VirtualClock);

impl DelayNs for Slowly {
    fn delay_ns(&mut self, ns: u32) {
        self.0.advance(Nanos::from_micros(100) + Nanos(ns.into()));
    }
}

#[test]
fn bit_banged_messages_may_take_as_long_as_the_pins_do() {
    let wires = Rc::new(RefCell::new(Wires {
        mode: Mode::Mode0,
        clock: false,
        out: false,
        selected: false,
        bits: Vec::new(),
        clocked: 0,
        waited: 0,
    }));
    let pin = |which| Pin(wires.clone(), which);
    let (clock, out, input) = (pin(Which::Clock), pin(Which::Out), pin(Which::Out));
    let time = VirtualClock::new();
    let bang = BitBang::new(
        clock,
        out,
        input,
        [pin(Which::Select)],
        Slowly(time.clone()),
    );
    let bus: Bus<_, _, 1, 1> = Bus::new(bang, Bare(time), Config::DEFAULT);
    let device = bus.device(slow()).unwrap();
    assert_eq!(device.write(&[0x55; 256]), Ok(()));
}

/// A wire that both ends pull low, and a resistor high; the device answers with
/// `answer` while it is clocked.
#[derive(Clone)]
struct OneWire {
    wires: Rc<RefCell<Wires>>,
    answer: Rc<RefCell<Vec<bool>>>,
}

impl ErrorType for OneWire {
    type Error = Infallible;
}

impl OutputPin for OneWire {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.wires.borrow_mut().out = false;
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        self.wires.borrow_mut().out = true;
        Ok(())
    }
}

impl InputPin for OneWire {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        let wires = self.wires.borrow();
        // As many edges as bits, away from rest: in mode 0, sampled there.
        let bit = (wires.clocked as usize - 1) / 2;
        let device = self.answer.borrow().get(bit).copied().unwrap_or(true);
        Ok(wires.out && device)
    }
    fn is_low(&mut self) -> Result<bool, Infallible> {
        self.is_high().map(|high| !high)
    }
}

#[test]
fn three_wires_are_released_while_the_device_answers() {
    let wires = Rc::new(RefCell::new(Wires {
        mode: Mode::Mode0,
        clock: false,
        out: false,
        selected: false,
        bits: Vec::new(),
        clocked: 0,
        waited: 0,
    }));
    // A byte is sent to it first.
    let mut answer = vec![true; 8];
    answer.extend([true, false, true, false, false, true, false, true]);
    let data = OneWire {
        wires: wires.clone(),
        answer: Rc::new(RefCell::new(answer)),
    };
    let pin = |which| Pin(wires.clone(), which);
    let lines = [pin(Which::Select)];
    let bang = BitBang::three_wire(pin(Which::Clock), data, lines, Half(wires.clone()));
    let bus: Bus<_, _, 1, 1> = Bus::new(bang, Bare(VirtualClock::new()), Config::DEFAULT);
    assert_eq!(bus.device(slow()).unwrap_err(), Invalid::FourWire);
    let settings = Settings {
        wires: nostall_spi::Wires::Three,
        ..slow()
    };
    let device = bus.device(settings).unwrap();
    let mut came = [0];
    device.write_then_read(&[0x9a], &mut came).unwrap();
    assert_eq!(came, [0b1010_0101]);
    let sent: Vec<bool> = (0..8).rev().map(|bit| 0x9a_u8 >> bit & 1 != 0).collect();
    assert_eq!(wires.borrow().bits[..8], sent);
    // Nobody pulled at it while the device answered.
    assert_eq!(wires.borrow().bits[8..], [true; 8]);
}
