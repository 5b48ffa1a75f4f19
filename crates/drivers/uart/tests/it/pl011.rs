//! The console on a PL011, on the model of the port.

use nostall_devices::VirtualClock;
use nostall_devices::pl011::{self, Fault, Line, Profile, VirtualPort};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::registers::lsr;
use nostall_uart::registers::pl011::{CR, FR, IBRD, IFLS, LCR_H, cr, dr};
use nostall_uart::{
    Console, ConsoleSettings, FlowControl, LineError, LineSettings, Model, OpenError, Parity,
    Pl011, PowerLoss, Rs485, StopBits, Strategy, TriggerLevel,
};
use proptest::prelude::*;

const BOOT_LOG: &[u8] =
    include_bytes!("../../../../lab/nostall-lab/fixtures/console/linux-boot.log");
const LINE: LineSettings = LineSettings::baud(115_200);
const CLOCK: Option<u32> = Some(24_000_000);
const FRAME: Nanos = Nanos(86_806);

type Port = VirtualPort<Vec<u8>>;
type Opened = Console<Pl011<&'static Counting<Port>>, VirtualClock>;

fn crlf(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).replace('\n', "\r\n").into()
}

fn port(profile: Profile) -> (&'static Counting<Port>, VirtualClock) {
    let (port, clock) = pl011::Pl011::in_virtual_time(profile, Vec::new());
    (Box::leak(Box::new(Counting::new(port))), clock)
}

/// Returns the driver for the chip of `profile`.
fn driver<R>(profile: Profile, port: R) -> Pl011<R> {
    match profile {
        Profile::SBSA => Pl011::sbsa(port),
        _ => Pl011::new(port, CLOCK),
    }
}

fn open(
    profile: Profile,
    settings: impl Into<ConsoleSettings>,
) -> (&'static Counting<Port>, VirtualClock, Opened) {
    let (port, clock) = port(profile);
    let console = Console::open(driver(profile, port), clock.clone(), settings).unwrap();
    (port, clock, console)
}

fn sent(port: &Counting<Port>) -> Vec<u8> {
    port.inner().with(|uart| std::mem::take(uart.sink_mut()))
}

#[test]
fn a_boot_log_arrives_whole_and_costs_one_access_a_byte_and_one_a_fifo() {
    for (profile, fifo) in [
        (Profile::QEMU, 16),
        (Profile::SBSA.with_line(Line::AtOnce), 32),
    ] {
        let (port, clock) = port(profile);
        let uart = match fifo {
            32 => Pl011::sbsa(port),
            _ => Pl011::new(port, CLOCK),
        };
        let mut console = Console::open(uart, clock, LINE).unwrap();
        let before = port.counts();
        assert!(console.write(BOOT_LOG).is_complete());
        let bytes = crlf(BOOT_LOG).len() as u64;
        let polls = bytes.div_ceil(fifo) + 1; // one at the end
        assert_eq!((port.counts() - before).bus_accesses(), bytes + polls);
        assert_eq!(sent(port), crlf(BOOT_LOG));
    }
}

#[test]
fn a_line_with_a_rate_is_filled_and_loses_nothing() {
    let text = &BOOT_LOG[..4_000];
    for profile in Profile::ALL {
        for strategy in Strategy::ALL {
            let (port, clock, mut console) = open(profile, LINE);
            console.set_strategy(strategy);
            let start = clock.now();
            assert!(console.write(text).is_complete());
            console.flush().unwrap();
            assert_eq!(sent(port), crlf(text), "{} {strategy}", profile.name);
            assert_eq!(port.inner().with(|uart| uart.lost()), 0);
            if profile != Profile::QEMU {
                let line = FRAME * crlf(text).len() as u64;
                let took = clock.now() - start;
                assert!(
                    took < line * 102 / 100,
                    "{} {strategy}: {took}",
                    profile.name
                );
            }
        }
    }
}

#[test]
fn the_fifo_has_the_depth_of_its_revision() {
    for (profile, model, load) in [
        (Profile::R1P5, Model::Pl011, 32),
        (Profile::R1P4, Model::Pl011, 16),
        (Profile::QEMU, Model::Pl011, 16),
        (Profile::SBSA, Model::SbsaUart, 32),
    ] {
        let (_, _, console) = open(profile, LINE);
        assert_eq!((console.model(), console.transmit_load()), (model, load));
    }
}

#[test]
fn an_offer_never_waits_and_the_line_stays_in_use() {
    let text = &BOOT_LOG[..4_000];
    for profile in [Profile::R1P5, Profile::R1P4, Profile::SBSA] {
        let (port, clock, mut console) = open(profile, LINE);
        let (mut rest, start, mut longest) = (text, clock.now(), Nanos::ZERO);
        while !rest.is_empty() {
            let before = clock.now();
            let offered = console.offer(rest);
            longest = longest.max(clock.now() - before);
            rest = &rest[offered.taken..];
            clock.wait_until(offered.ready_at.unwrap());
        }
        console.flush().unwrap();
        assert_eq!(sent(port), crlf(text));
        let load = console.transmit_load() as u64;
        assert_eq!(longest, profile.access * (load + 1), "{}", profile.name);
        let line = FRAME * crlf(text).len() as u64;
        assert!(clock.now() - start < line * 102 / 100);
    }
}

#[test]
fn a_driver_that_does_not_look_at_the_flags_loses_text_and_this_one_does_not() {
    let (port, _) = port(Profile::R1P5);
    Pl011::new(port, CLOCK); // the firmware has set it up
    for (register, value) in [(IBRD, 13), (LCR_H, 0x70), (CR, cr::UARTEN | cr::TXE)] {
        port.write32(register, value);
    }
    (0..1000).for_each(|_| port.write32(0, u32::from(b'x')));
    assert!(port.inner().with(|uart| uart.lost()) > 900);
}

#[test]
fn rate_and_frame_are_set_and_a_rate_that_the_clock_cannot_make_is_refused() {
    let line = LineSettings {
        parity: Parity::Even,
        stop_bits: StopBits::Two,
        ..LineSettings::baud(9_600)
    };
    let (port, clock, mut console) = open(Profile::R1P5, line);
    assert_eq!(port.read32(IBRD), 156); // 24 MHz / 16 / 9,600 = 156.25
    assert_eq!(port.read32(LCR_H), 0b111_1110);
    let start = clock.now();
    console.write(&[b'x'; 32]);
    let frame = Nanos::from_secs(12) / 9_600;
    let took = clock.now() - start;
    assert!(took > frame * 32 && took < frame * 33, "{took}");

    let open = |baud, hz| {
        let (port, clock) = self::port(Profile::R1P5);
        Console::open(Pl011::new(port, Some(hz)), clock, LineSettings::baud(baud)).map(|_| ())
    };
    assert_eq!(open(0, 24_000_000), Err(LineError::Zero.into()));
    assert_eq!(open(9_600, 0), Err(LineError::Zero.into()));
    let off = LineError::RateOff {
        asked: 115_200,
        nearest: 62_500,
    };
    assert_eq!(open(115_200, 1_000_000), Err(off.into()));
    assert_eq!(open(1_500_000, 24_000_000), Ok(()));
}

#[test]
fn without_a_clock_the_line_keeps_the_rate_of_the_firmware() {
    let (port, clock, console) = open(Profile::R1P5, LineSettings::baud(9_600));
    drop(console);
    let before = [port.read32(IBRD), port.read32(LCR_H)];
    let mut console = Console::open(Pl011::new(port, None), clock.clone(), LINE).unwrap();
    assert_eq!([port.read32(IBRD), port.read32(LCR_H)], before);
    let start = clock.now();
    assert!(console.write(&[b'x'; 64]).is_complete());
    assert!(clock.now() - start > Nanos::from_secs(640) / 9_600);
}

#[test]
fn what_a_port_cannot_do_is_refused() {
    let settings = ConsoleSettings::from(LINE);
    let refused = |uart, settings: ConsoleSettings| {
        let (_, clock) = port(Profile::SBSA);
        Console::open(uart, clock, settings)
            .map(|_| ())
            .unwrap_err()
    };
    let sbsa = || Pl011::sbsa(port(Profile::SBSA).0);
    let cts = ConsoleSettings {
        flow_control: FlowControl::Cts,
        ..settings
    };
    assert_eq!(refused(sbsa(), cts), OpenError::NoModemLines);
    let rs485 = ConsoleSettings {
        rs485: Some(Rs485 {
            before: Nanos::ZERO,
            after: Nanos::ZERO,
        }),
        ..settings
    };
    assert_eq!(refused(sbsa(), rs485), OpenError::NoModemLines);
    let recover = ConsoleSettings {
        power_loss: PowerLoss::Recover,
        ..settings
    };
    assert_eq!(refused(sbsa(), recover), OpenError::NoScratch);
    let keeps = Pl011::new(port(Profile::R1P5).0, None);
    assert_eq!(refused(keeps, recover), OpenError::NoScratch);
    // Without the identification registers, it must be named.
    let (memory, _) = port(Profile::SBSA);
    let none = Pl011::new(memory, CLOCK);
    assert_eq!(refused(none, settings), OpenError::NotFound);
    let named = ConsoleSettings {
        model: Some(Model::Pl011),
        ..settings
    };
    let (port, clock) = port(Profile::R1P5);
    let console = Console::open(Pl011::new(port, CLOCK), clock, named).unwrap();
    assert_eq!(console.transmit_load(), 16);
}

#[test]
fn pasted_text_costs_few_interrupts_and_each_ends() {
    let text: Vec<u8> = (0..49).map(|n| b'A' + n).collect();
    for (profile, trigger, expected) in [
        (Profile::R1P5, TriggerLevel::NearlyFull, 2),
        (Profile::R1P5, TriggerLevel::Byte, 13),
        (Profile::R1P4, TriggerLevel::NearlyFull, 4),
        (Profile::SBSA, TriggerLevel::NearlyFull, 4), // at the half, which the reset has set
    ] {
        let settings = ConsoleSettings {
            trigger,
            ..LINE.into()
        };
        let (port, clock, mut console) = open(profile, settings);
        console.enable_receive();
        let (mut received, mut interrupts) = (Vec::new(), 0);
        let frames = text.iter().map(Some).chain([None; 8]);
        for byte in frames {
            clock.advance(FRAME);
            if let Some(&byte) = byte {
                port.inner().with(|uart| uart.receive(byte));
            }
            if port.inner().with(|uart| uart.interrupt()).is_some() {
                interrupts += 1;
                console.receive(|byte| received.push(byte));
            }
            assert_eq!(port.inner().with(|uart| uart.interrupt()), None);
        }
        assert_eq!(received, text);
        assert_eq!(interrupts, expected, "{} {trigger:?}", profile.name);
    }
}

#[test]
fn errors_come_with_their_bytes_and_a_break_is_no_byte() {
    let (port, _, mut console) = open(Profile::R1P5, LINE);
    console.enable_receive();
    let uart = port.inner();
    uart.with(|uart| {
        uart.receive(b'a');
        uart.receive_with(b'b', dr::PARITY);
        uart.receive_with(0, dr::BREAK | dr::FRAMING);
        uart.receive(b'c');
    });
    let mut received = Vec::new();
    assert_eq!(console.receive(|byte| received.push(byte)), 3);
    assert_eq!(received, b"abc");
    let seen = console.take_latched_status().line_status;
    assert_eq!(seen, lsr::PARITY | lsr::BREAK | lsr::FRAMING);
    uart.with(|uart| (0..40).for_each(|_| uart.receive(b'x')));
    assert_eq!(console.receive(|_| ()), 32);
    uart.with(|uart| uart.receive(b'y'));
    console.receive(|_| ());
    assert_eq!(console.take_latched_status().line_status, lsr::OVERRUN);
}

#[test]
fn a_write_masks_the_receive_interrupt_and_an_empty_one_ends() {
    let (port, clock, mut console) = open(Profile::R1P5, LINE);
    console.enable_receive();
    port.inner().with(|uart| uart.receive(b'a'));
    clock.advance(FRAME * 5);
    assert!(port.inner().with(|uart| uart.interrupt()).is_some());
    console.pause_receive();
    assert_eq!(port.inner().with(|uart| uart.interrupt()), None);
    console.resume_receive();
    clock.advance(FRAME * 5);
    assert!(port.inner().with(|uart| uart.interrupt()).is_some());
    console.disable_receive();
    assert_eq!(port.inner().with(|uart| uart.interrupt()), None);
    assert_eq!(port.read32(IFLS), 4 << 3);
}

#[test]
fn clear_to_send_is_awaited() {
    let settings = ConsoleSettings {
        flow_control: FlowControl::Cts,
        ..LINE.into()
    };
    let (port, _, mut console) = open(Profile::R1P5, settings);
    assert!(console.write(b"abc").is_complete());
    port.inner().with(|uart| uart.set_modem_lines(0));
    let report = console.write(b"abc");
    assert!(report.timed_out);
    assert_eq!(report.dropped, 3);
}

#[test]
fn an_rs485_line_is_released_after_each_write() {
    let after = Nanos::from_micros(100);
    let settings = ConsoleSettings {
        rs485: Some(Rs485 {
            before: after,
            after,
        }),
        ..LINE.into()
    };
    let (port, _, mut console) = open(Profile::R1P5, settings);
    assert_eq!(port.read32(CR) & cr::RTS, 0);
    assert!(console.write(b"abc").is_complete());
    assert_eq!(sent(port), b"abc");
    assert_eq!(port.read32(CR) & cr::RTS, 0);
}

fn with_fault(after: u64, fault: Fault) -> (&'static Port, VirtualClock) {
    let (port, clock) = pl011::Pl011::in_virtual_time(Profile::R1P5, Vec::new());
    let port = port.with_fault(after, fault);
    (Box::leak(Box::new(port)), clock)
}

#[test]
fn a_port_that_is_not_there_is_not_opened() {
    for fault in [Fault::AllOnes, Fault::AllZeros] {
        let (port, clock) = with_fault(0, fault);
        let opened = Console::open(Pl011::new(port, CLOCK), clock.clone(), LINE);
        assert_eq!(opened.map(|_| ()).unwrap_err(), OpenError::NotFound);
        let opened = Console::open(Pl011::sbsa(port), clock.clone(), LINE);
        assert_eq!(opened.map(|_| ()).unwrap_err(), OpenError::NotFound);
        assert!(clock.now() < Nanos::from_millis(100), "{}", clock.now());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_fault_at_any_access_is_bounded_and_its_loss_is_counted(after in 30_u64..600, fault in 0_usize..5) {
        let fault = Fault::ALL[fault];
        let (port, clock) = with_fault(after, fault);
        let settings = ConsoleSettings {
            power_loss: PowerLoss::Recover,
            ..LINE.into()
        };
        let Ok(mut console) = Console::open(Pl011::new(port, CLOCK), clock.clone(), settings) else {
            return Ok(());
        };
        let mut dropped = 0;
        for _ in 0..4 {
            let start = clock.now();
            dropped += console.write(&BOOT_LOG[..256]).dropped;
            prop_assert!(clock.now() - start < Nanos::from_millis(700), "{}", clock.now() - start);
        }
        match fault {
            Fault::StuckBusy => prop_assert_eq!(dropped, 0),
            Fault::PowerLoss => {
                prop_assert!(console.write(b"again\n").is_complete());
                let text = port.with(|uart| uart.sink_mut().clone());
                prop_assert!(text.ends_with(b"again\r\n"));
                prop_assert_eq!(console.lost() > 0, String::from_utf8_lossy(&text).contains("bytes lost"));
            }
            _ => prop_assert!(dropped > 0 || after > 500),
        }
    }
}

#[test]
fn a_panic_takes_over_a_port_in_the_middle_of_a_set_up() {
    let (port, clock, console) = open(Profile::R1P5, LINE);
    for leave in [
        || (CR, 0),
        || (CR, cr::UARTEN | cr::TXE | cr::LBE),
        || (LCR_H, 0),
    ] {
        let (register, value) = leave();
        port.write32(register, value);
        let mut spare = console.clone();
        spare.take_over();
        assert!(spare.write(b"panic\n").is_complete());
        assert!(sent(port).ends_with(b"panic\r\n"));
        assert_eq!(port.read32(FR) & 0x80, 0x80);
    }
    let mut unopened =
        Console::unopened(Pl011::new(port, CLOCK), clock, LINE).expect("possible settings");
    assert!(unopened.write(b"first\n").is_complete());
    assert!(sent(port).ends_with(b"first\r\n"));
}

#[test]
fn bytes_that_the_last_user_left_do_not_keep_the_receive_interrupt_away() {
    for (profile, level) in [(Profile::SBSA, 16), (Profile::R1P5, 28), (Profile::QEMU, 1)] {
        let (port, clock) = port(profile);
        if profile != Profile::SBSA {
            // The firmware has enabled it.
            port.write32(LCR_H, 0x70);
            port.write32(CR, cr::UARTEN | cr::RXE);
        }
        port.inner()
            .with(|uart| (0..32).for_each(|_| uart.receive(b'a')));
        let mut console = Console::open(driver(profile, port), clock, LINE).unwrap();
        console.enable_receive();
        port.inner()
            .with(|uart| (0..level).for_each(|_| uart.receive(b'b')));
        let name = profile.name;
        assert!(
            port.inner().with(|uart| uart.interrupt()).is_some(),
            "{name}"
        );
        let mut received = Vec::new();
        console.receive(|byte| received.push(byte));
        assert_eq!(received, vec![b'b'; level], "{name}");
    }
}

/// A port whose flags read 0 once.
struct Glitch<'p>(&'p Port, std::cell::Cell<bool>);

impl Registers for Glitch<'_> {
    fn read8(&self, _: usize) -> u8 {
        unreachable!("each register is a word")
    }

    fn write8(&self, _: usize, _: u8) {
        unreachable!("each register is a word")
    }

    fn read32(&self, offset: usize) -> u32 {
        match offset {
            FR if self.1.take() => 0,
            _ => self.0.read32(offset),
        }
    }

    fn write32(&self, offset: usize, value: u32) {
        self.0.write32(offset, value);
    }
}

#[test]
fn a_single_wrong_read_of_the_flags_takes_no_byte_and_invents_no_error() {
    let (port, clock) = port(Profile::R1P5);
    let glitch = Glitch(port.inner(), std::cell::Cell::new(false));
    let mut console = Console::open(Pl011::new(&glitch, CLOCK), clock, LINE).unwrap();
    console.enable_receive();
    port.inner().with(|uart| uart.receive(b'a'));
    glitch.1.set(true);
    let mut received = Vec::new();
    console.receive(|byte| received.push(byte));
    assert_eq!(received, b"a");
    assert_eq!(console.take_latched_status().line_status, 0);
}
