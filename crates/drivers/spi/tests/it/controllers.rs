//! The crate's own controllers on models of their hardware.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use embedded_hal::spi::Operation;
use embedded_hal_async::spi::SpiDevice;
use nostall_devices::VirtualClock;
use nostall_io::{Clock, Nanos, Registers};
use nostall_spi::controllers::sifive::{Completion, mask};
use nostall_spi::controllers::{Loopback, Sifive};
use nostall_spi::{
    Bare, Bus, Device, Error, Fault, Invalid, Platform, Select, Settings, Slots, Transfer,
};

/// A SiFive controller with its FIFOs and its line's speed, in virtual time. It receives each sent
/// word inverted.
struct Chip {
    clock: VirtualClock,
    registers: [u32; 32],
    transmit: VecDeque<u8>,
    receive: VecDeque<u8>,
    /// End time, value and selected line of the frame that is being shifted.
    shifting: Option<(Nanos, u8, Option<u32>)>,
    sent: Vec<u8>,
    /// Line that was selected during each frame, if any.
    selected: Vec<Option<u32>>,
    edges: Vec<u32>,
    gone: bool,
    stuck: bool,
    overrun: bool,
}

const SCKDIV: usize = 0;
const CSID: usize = 4;
const CSMODE: usize = 6;
const TXDATA: usize = 18;
const RXDATA: usize = 19;
const RXMARK: usize = 21;
const IE: usize = 28;
const INPUT: u32 = 500_000_000;

impl Chip {
    fn frame(&self) -> Nanos {
        let hertz = INPUT / (2 * (self.registers[SCKDIV] + 1));
        Nanos(8_000_000_000 / u64::from(hertz))
    }

    /// Advances the model to the present time.
    fn advance(&mut self) {
        if self.stuck {
            return;
        }
        loop {
            if self.shifting.is_none() {
                self.start(self.clock.now());
            }
            let Some((end, byte, selected)) = self.shifting else {
                return;
            };
            if self.clock.now() < end {
                return;
            }
            self.sent.push(byte);
            self.selected.push(selected);
            self.overrun |= self.receive.len() == 8;
            self.receive.push_back(!byte);
            self.start(end);
        }
    }

    /// Begins the next frame, if any. In mode 3 (`OFF`), no line is asserted.
    fn start(&mut self, at: Nanos) {
        let line = (self.registers[CSMODE] != 3).then_some(self.registers[CSID]);
        let next = self.transmit.pop_front();
        self.shifting = next.map(|byte| (at + self.frame(), byte, line));
    }

    /// Returns whether an interrupt is pending.
    fn interrupts(&mut self) -> bool {
        self.advance();
        self.registers[IE] & 2 != 0 && self.receive.len() as u32 > self.registers[RXMARK]
    }
}

#[derive(Clone)]
struct Window(Rc<RefCell<Chip>>);

impl Registers for Window {
    fn read8(&self, _offset: usize) -> u8 {
        panic!("only 32-bit accesses are possible");
    }
    fn write8(&self, _offset: usize, _value: u8) {
        panic!("only 32-bit accesses are possible");
    }
    fn read32(&self, offset: usize) -> u32 {
        let mut chip = self.0.borrow_mut();
        chip.advance();
        match offset {
            _ if chip.gone => u32::MAX,
            RXDATA => chip.receive.pop_front().map_or(1 << 31, u32::from),
            _ => chip.registers[offset],
        }
    }
    fn write32(&self, offset: usize, value: u32) {
        let mut chip = self.0.borrow_mut();
        chip.advance();
        if offset == TXDATA {
            assert!(chip.transmit.len() < 8, "a write into a full FIFO");
            chip.transmit.push_back(value as u8);
        } else {
            chip.registers[offset] = value;
            if offset == CSMODE {
                chip.edges.push(value);
            }
        }
        chip.advance();
    }
}

fn chip() -> (Window, VirtualClock) {
    let clock = VirtualClock::new();
    let chip = Chip {
        clock: clock.clone(),
        registers: [0; 32],
        transmit: VecDeque::new(),
        receive: VecDeque::new(),
        shifting: None,
        sent: Vec::new(),
        selected: Vec::new(),
        edges: Vec::new(),
        gone: false,
        stuck: false,
        overrun: false,
    };
    (Window(Rc::new(RefCell::new(chip))), clock)
}

type SifiveBus<P> = Bus<Sifive<Window>, P, Slots<4, 16>>;

/// A platform whose blocked task advances the time until the controller interrupts.
struct Interrupted {
    clock: VirtualClock,
    window: Window,
    /// Number of interrupts.
    seen: Rc<Cell<u32>>,
}

impl Clock for Interrupted {
    fn now(&self) -> Nanos {
        self.clock.now()
    }
    fn wait_until(&self, deadline: Nanos) {
        self.clock.wait_until(deadline);
    }
}

impl Platform for Interrupted {
    fn current(&self) -> Option<Waker> {
        Some(Waker::noop().clone())
    }
    fn block(&self, until: Nanos) {
        while self.clock.now() < until {
            self.clock.advance(Nanos(100));
            if self.window.0.borrow_mut().interrupts() {
                // Acts as the interrupt handler.
                mask(&self.window);
                self.seen.set(self.seen.get() + 1);
                return;
            }
        }
    }
}

fn polled() -> (SifiveBus<Bare<VirtualClock>>, Window, VirtualClock) {
    let (window, clock) = chip();
    let controller = Sifive::new(window.clone(), INPUT, 2, Completion::Polled);
    let bus = Bus::sized(controller, Bare(clock.clone()));
    (bus, window, clock)
}

type SifiveDevice<'b> = Device<'b, Sifive<Window>, Bare<VirtualClock>>;

/// Drops a message after its first poll.
fn give_up(device: &mut SifiveDevice<'_>, bytes: &[u8]) {
    let mut operations = [Operation::Write(bytes)];
    let future = SpiDevice::transaction(device, &mut operations);
    let mut context = std::task::Context::from_waker(Waker::noop());
    assert!(std::pin::pin!(future).poll(&mut context).is_pending());
}

/// Sends a message, whose answer from the chip is its inverse.
fn receives_its_own_bytes(device: &SifiveDevice<'_>) {
    let mut bytes = [9; 20];
    device.sync(&mut [Transfer::in_place(&mut bytes)]).unwrap();
    assert_eq!(bytes, [!9; 20]);
}

/// Returns settings of a device at 1 MHz.
fn slow() -> Settings {
    Settings::new(1_000_000, 0)
}

#[test]
fn sifive_transfers_whole_fifos_at_the_lines_speed() {
    let (bus, window, clock) = polled();
    let device = bus.device(slow()).unwrap();
    let mut bytes: Vec<u8> = (0..100).collect();
    let sent = bytes.clone();
    device.sync(&mut [Transfer::in_place(&mut bytes)]).unwrap();
    let chip = window.0.borrow();
    assert_eq!(chip.sent, sent);
    assert!(!chip.overrun);
    assert!(bytes.iter().zip(&sent).all(|(came, sent)| *came == !sent));
    // Each FIFO is waited for until it is empty, and not longer.
    assert_eq!(clock.now(), Nanos::from_micros(8 * 100));
    // The line at rest, held, and at rest again.
    assert_eq!(chip.edges, [0, 2, 0]);
}

#[test]
fn sifive_interrupts_once_a_fifo() {
    let (window, clock) = chip();
    let least = Nanos::from_micros(20);
    let controller = Sifive::new(window.clone(), INPUT, 1, Completion::Interrupt(least));
    let seen = Rc::new(Cell::new(0));
    let platform = Interrupted {
        clock: clock.clone(),
        window: window.clone(),
        seen: seen.clone(),
    };
    let bus: SifiveBus<_> = Bus::sized(controller, platform);
    let device = bus.device(slow()).unwrap();
    let mut bytes = [7; 64];
    device.sync(&mut [Transfer::in_place(&mut bytes)]).unwrap();
    assert_eq!((bytes, seen.get()), ([!7; 64], 8));
    // A transfer of 16 us is too short for an interrupt.
    device.write(&[1, 2]).unwrap();
    assert_eq!(seen.get(), 8);
    assert_eq!(window.0.borrow().registers[IE], 0);
}

#[test]
fn sifive_has_the_next_lower_clock() {
    for (wanted, div) in [
        (125_000_000, 1),
        (100_000_000, 2),
        (1_000_000, 249),
        (400_000, 624),
        (u32::MAX, 0),
    ] {
        let (bus, window, _) = polled();
        let device = bus.device(Settings::new(wanted, 0)).unwrap();
        device.write(&[1]).unwrap();
        assert_eq!(window.0.borrow().registers[SCKDIV], div, "{wanted} Hz");
    }
    let (bus, _, _) = polled();
    let refused = bus.device(Settings::new(61_035, 0));
    assert_eq!(
        refused.unwrap_err(),
        Invalid::TooSlow {
            asked: 61_035,
            slowest: 61_036
        }
    );
}

#[test]
fn sifive_clocks_an_sd_card_without_selecting_it() {
    let (bus, window, _) = polled();
    let settings = Settings {
        select: Select::None,
        ..slow()
    };
    bus.device(settings).unwrap().write(&[0xff; 10]).unwrap();
    let chip = window.0.borrow();
    assert_eq!(chip.sent, [0xff; 10]);
    assert!(!chip.edges.contains(&2));
}

#[test]
fn sifive_selects_a_device_with_an_edge_after_clocks_without_a_device() {
    let (bus, window, _) = polled();
    let none = Settings {
        select: Select::None,
        ..slow()
    };
    bus.device(none).unwrap().write(&[0xff; 10]).unwrap();
    window.0.borrow_mut().edges.clear();
    let device = bus.device(slow()).unwrap();
    device.write(&[1]).unwrap();
    device.write(&[2]).unwrap();
    // At rest, then asserted and released for each message.
    assert_eq!(window.0.borrow().edges, [0, 2, 0, 2, 0]);
}

#[test]
fn sifive_that_vanishes_is_an_error_and_no_endless_loop() {
    let (bus, window, clock) = polled();
    let device = bus.device(slow()).unwrap();
    device.write(&[1]).unwrap();
    window.0.borrow_mut().gone = true;
    let gone = Error::Failed {
        transfer: 0,
        fault: Fault::Gone,
    };
    assert_eq!(device.write(&[1]), Err(gone));
    bus.poll();
    clock.advance(Nanos::from_secs(10));
    bus.poll();
    // The hardware sleeps, and does not wake.
    assert_eq!(device.write(&[1]), Err(gone));
}

#[test]
fn sifive_that_is_stuck_times_out_and_the_next_message_has_its_own_bytes() {
    let (bus, window, _) = polled();
    let device = bus.device(slow()).unwrap();
    window.0.borrow_mut().stuck = true;
    let timeout = Err(Error::Timeout { transfer: 0 });
    assert_eq!(device.write(&[1, 2, 3]), timeout);
    // The line is not asserted while the words are in the FIFO.
    assert_eq!(window.0.borrow().edges.last(), Some(&3));
    assert_eq!(device.write(&[4]), timeout);
    window.0.borrow_mut().stuck = false;
    receives_its_own_bytes(&device);
    assert_eq!(window.0.borrow().sent[..4], [1, 2, 3, 9]);
}

#[test]
fn sifive_sends_no_word_of_a_message_that_was_given_up_to_any_device() {
    for awaited in [false, true] {
        let (bus, window, clock) = polled();
        let mut device = bus.device(slow()).unwrap();
        let fast = Settings::new(20_000_000, 1);
        let mut other = bus.device(fast).unwrap();
        give_up(&mut device, &[6; 8]);
        // The first word is on the wire when the message is given up.
        clock.advance(Nanos::from_micros(1));
        let mut came = [1, 2, 3];
        match awaited {
            false => other.sync(&mut [Transfer::in_place(&mut came)]).unwrap(),
            true => {
                let mut message = [Operation::TransferInPlace(&mut came)];
                let future = SpiDevice::transaction(&mut other, &mut message);
                let mut context = std::task::Context::from_waker(Waker::noop());
                let mut future = std::pin::pin!(future);
                while future.as_mut().poll(&mut context).is_pending() {
                    clock.advance(Nanos::from_micros(1));
                }
            }
        }
        assert_eq!(came, [!1, !2, !3]);
        let chip = window.0.borrow();
        assert_eq!(chip.sent, [6, 6, 6, 6, 6, 6, 6, 6, 1, 2, 3]);
        // The word on the wire ends with its device selected. The rest is sent to no device.
        let (first, rest) = chip.selected.split_at(1);
        assert_eq!(first, [Some(0)]);
        assert_eq!(rest[..7], [None; 7]);
        assert_eq!(rest[7..], [Some(1); 3]);
        // At the clocks of their messages.
        assert!(clock.now() >= Nanos::from_micros(8 * 8));
    }
}

#[test]
fn sifive_after_several_given_up_messages_gives_the_next_its_own_bytes() {
    let (window, clock) = chip();
    let completion = Completion::Interrupt(Nanos::ZERO);
    let controller = Sifive::new(window.clone(), INPUT, 1, completion);
    let bus: SifiveBus<_> = Bus::sized(controller, Bare(clock));
    let mut device = bus.device(slow()).unwrap();
    give_up(&mut device, &[1, 2]);
    give_up(&mut device, &[3, 4]);
    receives_its_own_bytes(&device);
}

#[test]
fn sifive_drops_the_answers_of_a_given_up_message_after_later_ones_that_sent_nothing() {
    let (bus, _, clock) = polled();
    let mut device = bus.device(slow()).unwrap();
    let setup = Nanos::from_millis(1);
    let mut delayed = bus.device(Settings { setup, ..slow() }).unwrap();
    // The first one fills the FIFO. The others wait until it is empty.
    give_up(&mut device, &[1; 8]);
    give_up(&mut device, &[1; 8]);
    give_up(&mut delayed, &[1; 8]);
    // A dropped message is activity, so the hardware does not sleep yet.
    assert!(bus.poll().is_some());
    assert_eq!(bus.statistics().teardowns, 0);
    assert_eq!(clock.now(), Nanos::ZERO);
    receives_its_own_bytes(&device);
}

#[test]
fn sifive_that_has_lost_answers_works_again_after_a_rest() {
    let (bus, window, clock) = polled();
    let device = bus.device(slow()).unwrap();
    window.0.borrow_mut().stuck = true;
    assert!(device.write(&[1; 8]).is_err());
    let mut chip = window.0.borrow_mut();
    chip.stuck = false;
    chip.transmit.clear();
    chip.shifting = None;
    drop(chip);
    assert!(device.write(&[2]).is_err());
    bus.poll();
    clock.advance(Nanos::from_secs(10));
    bus.poll();
    receives_its_own_bytes(&device);
}

#[test]
fn loopback_receives_the_sent_bytes() {
    let bus: Bus<_, _> = Bus::new(Loopback, Bare(VirtualClock::new()));
    let device = bus.device(slow()).unwrap();
    let (mut long, mut short, mut read) = ([0; 3], [0; 1], [9; 2]);
    device
        .sync(&mut [
            Transfer::transfer(&[1, 2], &mut long),
            Transfer::transfer(&[3, 4], &mut short),
            Transfer::read(&mut read),
        ])
        .unwrap();
    assert_eq!((long, short, read), ([1, 2, 0], [3], [0, 0]));
}

#[cfg(all(feature = "spidev", target_os = "linux"))]
#[test]
fn a_file_that_is_not_spidev_is_an_error() {
    use nostall_spi::controllers::Spidev;
    assert!(Spidev::open("/dev/there-is-no-such-device").is_err());
    // This file is not an SPI device.
    let null = Spidev::open("/dev/null").unwrap();
    let bus: Bus<_, _> = Bus::new(null, Bare(VirtualClock::new()));
    let device = bus.device(slow()).unwrap();
    let error = device.write(&[1]).unwrap_err();
    // The error is ENOTTY.
    let expected = Error::Failed {
        transfer: 0,
        fault: Fault::System(25),
    };
    assert_eq!(error, expected);
}

/// The benchmark prints these numbers, and the README lists them.
#[cfg(all(target_pointer_width = "64", not(miri)))]
#[test]
fn a_bus_takes_no_more_memory_than_the_documentation_says() {
    const fn bus<const W: usize, const S: usize, const B: usize>() -> usize {
        size_of::<Bus<Loopback, Bare<()>, Slots<W, S, B>>>()
    }
    assert_eq!(bus::<0, 0, 0>(), 176);
    assert_eq!(bus::<1, 0, 0>() - bus::<0, 0, 0>(), 32);
    assert_eq!(bus::<8, 0, 0>() - bus::<0, 0, 0>(), 8 * 32);
    assert_eq!(bus::<0, 1, 64>() - bus::<0, 0, 0>(), 576);
}
