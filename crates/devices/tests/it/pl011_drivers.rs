//! Drivers of other crates, and drivers like those of other kernels, on the PL011's model.
//!
//! `arm-pl011-uart` runs as it is: `safe-mmio`, the crate below it, lets a program supply the
//! accesses. The crate `pl011-uart` is deprecated in favour of it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use arm_pl011_uart::{DataBits, Interrupts, LineConfig, PL011Registers, Parity, StopBits, Uart};
use nostall_devices::VirtualClock;
use nostall_devices::pl011::registers::*;
use nostall_devices::pl011::{Pl011, Profile, VirtualPort};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::{Console, LineSettings, Strategy};
use safe_mmio::{MmioOps, UniqueMmioPointer, set_mmio_ops};
use zerocopy::FromZeros;

type Port = Counting<VirtualPort<Vec<u8>>>;

/// The first 2,000 bytes of a boot log: 174 ms at 115,200 baud.
const TEXT: &[u8] = include_bytes!("../../../lab/nostall-lab/fixtures/console/linux-boot.log")
    .first_chunk::<2_000>()
    .expect("the log is longer");

/// Duration of a frame of 8N1 at 24 MHz with the divisor 13 + 1/64.
const FRAME: Nanos = Nanos(86_770);

thread_local! {
    /// The port that the accesses of `arm-pl011-uart` reach, and the address of its registers.
    static CONNECTED: RefCell<Option<(usize, Rc<Port>)>> = const { RefCell::new(None) };
}

struct Model;

set_mmio_ops!(Model);

/// Applies `access` to the connected port, at the offset of the register at `address`.
fn at<T>(address: usize, access: impl FnOnce(&Port, usize) -> T) -> T {
    CONNECTED.with_borrow(|connected| {
        let (base, port) = connected.as_ref().expect("a port is connected");
        access(port, address - base)
    })
}

impl MmioOps for Model {
    unsafe fn read_u8(src: *const u8) -> u8 {
        at(src.addr(), |port, offset| port.read8(offset))
    }

    unsafe fn read_u16(src: *const u16) -> u16 {
        at(src.addr(), |port, offset| port.read16(offset))
    }

    unsafe fn read_u32(src: *const u32) -> u32 {
        at(src.addr(), |port, offset| port.read32(offset))
    }

    unsafe fn read_u64(_: *const u64) -> u64 {
        unreachable!("no register has 64 bits")
    }

    unsafe fn write_u8(dst: *mut u8, value: u8) {
        at(dst.addr(), |port, offset| port.write8(offset, value));
    }

    unsafe fn write_u16(dst: *mut u16, value: u16) {
        at(dst.addr(), |port, offset| port.write16(offset, value));
    }

    unsafe fn write_u32(dst: *mut u32, value: u32) {
        at(dst.addr(), |port, offset| port.write32(offset, value));
    }

    unsafe fn write_u64(_: *mut u64, _: u64) {
        unreachable!("no register has 64 bits")
    }
}

/// Runs `drive` with the driver of `arm-pl011-uart` on a port that it has enabled.
fn with_peer(profile: Profile, drive: impl FnOnce(&mut Uart<'_>, &Port, &VirtualClock)) {
    let (port, clock) = Pl011::in_virtual_time(profile, Vec::new());
    let port = Rc::new(Counting::new(port));
    let mut registers = PL011Registers::new_zeroed();
    let base = (&raw const registers).addr();
    CONNECTED.set(Some((base, Rc::clone(&port))));
    let mut uart = Uart::new(UniqueMmioPointer::from(&mut registers));
    let line = LineConfig {
        data_bits: DataBits::Bits8,
        parity: Parity::None,
        stop_bits: StopBits::One,
    };
    uart.enable(line, 115_200, 24_000_000).unwrap();
    drive(&mut uart, &port, &clock);
    CONNECTED.set(None);
}

/// Result of writing [`TEXT`].
#[derive(Debug)]
struct Written {
    /// Accesses for each byte, rounded down.
    per_byte: u64,
    took: Nanos,
    lost: u64,
}

/// Measures `write`, and checks that the sink gets all bytes that were not lost.
fn measured(port: &Port, clock: &VirtualClock, write: impl FnOnce()) -> Written {
    let (start, before) = (clock.now(), port.counts().bus_accesses());
    write();
    let result = Written {
        per_byte: (port.counts().bus_accesses() - before) / TEXT.len() as u64,
        took: clock.now() - start,
        lost: port.inner().with(|uart| uart.lost()),
    };
    clock.advance(Nanos::from_secs(1));
    port.inner().with(|uart| {
        let sent = uart.sink_mut();
        assert_eq!(sent.len() as u64 + result.lost, TEXT.len() as u64);
        assert!(result.lost > 0 || sent == TEXT);
    });
    result
}

/// Returns a port that the firmware has enabled, at about 115,200 baud.
fn running(profile: Profile) -> (Port, VirtualClock) {
    let (port, clock) = Pl011::in_virtual_time(profile, Vec::new());
    port.write32(IBRD, 13);
    port.write32(FBRD, 1);
    port.write32(LCR_H, lcr_h::WLEN | lcr_h::FEN);
    port.write32(CR, cr::UARTEN | cr::TXE | cr::RXE);
    (Counting::new(port), clock)
}

/// Runs a driver that calls `before` and `after` around the write of each byte.
fn each_byte(profile: Profile, before: fn(&Port), after: fn(&Port)) -> Written {
    let (port, clock) = running(profile);
    measured(&port, &clock, || {
        for &byte in TEXT {
            before(&port);
            port.write32(DR, byte.into());
            after(&port);
        }
    })
}

fn nothing(_: &Port) {}

fn until_not_full(port: &Port) {
    while port.read32(FR) & fr::TXFF != 0 {}
}

fn until_empty(port: &Port) {
    while port.read32(FR) & fr::TXFE == 0 {}
}

fn until_idle(port: &Port) {
    while port.read32(FR) & fr::BUSY != 0 {}
}

#[test]
fn trusted_firmwares_driver_finds_the_port_and_loses_nothing() {
    for (profile, revision) in [(Profile::R1P5, 3), (Profile::R1P4, 2), (Profile::QEMU, 1)] {
        with_peer(profile, |uart, port, clock| {
            let id = uart.read_identification();
            assert!(id.is_valid());
            assert_eq!(id.revision_number, revision);
            let written = measured(port, clock, || {
                uart.write_str(std::str::from_utf8(TEXT).unwrap()).unwrap();
            });
            println!("{}: {written:?}", profile.name);
            assert_eq!(written.lost, 0);
            let expected = each_byte(profile, until_not_full, nothing);
            assert_eq!(written.per_byte, expected.per_byte);
            port.inner()
                .with(|uart| uart.receive_with(b'r', dr::PARITY));
            assert_eq!(uart.read_word(), Err(arm_pl011_uart::Error::Parity));
            port.inner().with(|uart| uart.receive(b's'));
            assert_eq!(uart.read_word(), Ok(Some(b's')));
            assert_eq!(uart.read_word(), Ok(None));
        });
    }
}

#[test]
fn drivers_that_poll_lose_nothing_and_keep_the_cpu_for_the_whole_line_time() {
    let line_time = FRAME * TEXT.len() as u64;
    for (name, before, after, per_byte) in [
        (
            "FIFO full",
            until_not_full as fn(&Port),
            nothing as fn(&Port),
            426,
        ),
        ("FIFO empty", until_empty, nothing, 433),
        ("busy", nothing, until_idle, 435),
    ] {
        let written = each_byte(Profile::R1P5, before, after);
        println!("{name}: {written:?}");
        assert_eq!((written.lost, written.per_byte), (0, per_byte), "{name}");
        assert!(written.took + FRAME * 33 > line_time);
        // QEMU's never makes them wait.
        let written = each_byte(Profile::QEMU, before, after);
        assert_eq!((written.lost, written.per_byte), (0, 2));
    }
}

#[test]
fn a_driver_that_never_checks_for_room_loses_text_on_a_line_with_a_rate() {
    for (profile, arrives) in [
        (Profile::QEMU, 2_000),
        (Profile::R1P5, 37),
        (Profile::R1P4, 21),
    ] {
        let written = each_byte(profile, nothing, nothing);
        println!("{}: {written:?}", profile.name);
        assert_eq!(
            TEXT.len() as u64 - written.lost,
            arrives,
            "{}",
            profile.name
        );
    }
}

/// Hermit's serial driver writes each byte like this (b0678ba0).
#[test]
fn hermits_loop_over_trusted_firmwares_driver_loses_text() {
    for (profile, arrives) in [
        (Profile::QEMU, 2_000),
        (Profile::R1P5, 37),
        (Profile::R1P4, 21),
    ] {
        with_peer(profile, |uart, port, clock| {
            let written = measured(port, clock, || {
                TEXT.iter().for_each(|&byte| uart.write_word(byte));
            });
            println!("{}: {written:?}", profile.name);
            assert_eq!(TEXT.len() as u64 - written.lost, arrives);
        });
    }
}

/// Returns the number of transmit interrupts until `pending` is written, or until no interrupt can
/// come any more. The handler fills the FIFO as Linux's does: half of it.
fn by_interrupt(port: &Port, clock: &VirtualClock, pending: &mut &[u8]) -> u32 {
    let mut interrupts = 0;
    while !pending.is_empty() {
        while port.inner().with(|uart| uart.interrupt()).is_none() {
            let Some(at) = port.inner().with(|uart| uart.next_event()) else {
                return interrupts;
            };
            clock.wait_until(at);
        }
        interrupts += 1;
        write_some(port, pending, 16);
    }
    interrupts
}

fn write_some(port: &Port, pending: &mut &[u8], most: usize) {
    let (now, later) = pending.split_at(most.min(pending.len()));
    now.iter().for_each(|&byte| port.write32(DR, byte.into()));
    *pending = later;
}

#[test]
fn a_driver_that_waits_for_the_interrupt_before_it_fills_the_fifo_hangs() {
    for profile in Profile::ALL {
        let (port, clock) = running(profile);
        port.write32(IMSC, int::TX);
        let mut pending = TEXT;
        assert_eq!(by_interrupt(&port, &clock, &mut pending), 0);
        assert_eq!(
            pending.len(),
            TEXT.len(),
            "nothing is sent, and nothing will happen"
        );
        assert_eq!(port.inner().with(|uart| uart.next_event()), None);
    }
}

#[test]
fn a_driver_that_fills_the_fifo_first_gets_an_interrupt_for_each_half() {
    let (port, clock) = running(Profile::R1P5);
    port.write32(IMSC, int::TX);
    let mut pending = TEXT;
    write_some(&port, &mut pending, 32);
    assert_eq!(by_interrupt(&port, &clock, &mut pending), 123);
    clock.advance(Nanos::from_secs(1));
    assert_eq!(port.inner().with(|uart| uart.lost()), 0);
    assert!(port.inner().with(|uart| uart.sink_mut() == TEXT));
}

#[test]
fn trusted_firmwares_driver_masks_and_clears_interrupts() {
    with_peer(Profile::R1P5, |uart, port, clock| {
        uart.set_interrupt_masks(Interrupts::TXI | Interrupts::RTI);
        (0..18).for_each(|_| uart.write_word(b'x'));
        clock.advance(FRAME);
        assert_eq!(uart.masked_interrupt_status(), Interrupts::TXI);
        uart.clear_interrupts(Interrupts::TXI);
        assert_eq!(uart.raw_interrupt_status(), Interrupts::empty());
        port.inner().with(|uart| uart.receive(b'r'));
        clock.advance(FRAME * 4);
        assert_eq!(uart.masked_interrupt_status(), Interrupts::RTI);
    });
}

#[test]
fn nostalls_driver_makes_little_more_than_an_access_a_byte() {
    for (profile, accesses) in [
        (Profile::R1P5, 2_217),
        (Profile::R1P4, 2404),
        (Profile::QEMU, 2153),
    ] {
        let (port, clock) = Pl011::in_virtual_time(profile, Vec::new());
        let port = Counting::new(port);
        let uart = nostall_uart::Pl011::new(&port, Some(24_000_000));
        let mut console = Console::open(uart, clock.clone(), LineSettings::baud(115_200)).unwrap();
        console.set_strategy(Strategy::FifoPaced);
        let before = port.counts().bus_accesses();
        assert!(console.write(TEXT).is_complete());
        assert!(console.flush().is_ok());
        let made = port.counts().bus_accesses() - before;
        println!("{}: {made} accesses for {} bytes", profile.name, TEXT.len());
        assert_eq!(made, accesses, "{}", profile.name);
        assert_eq!(port.inner().with(|uart| uart.lost()), 0);
    }
}
