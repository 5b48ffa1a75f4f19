//! The console as its user observes it, on the model of the port.

use std::cell::RefCell;

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, Faulty, VirtualClock};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::registers::{FCR, IER, IIR, LCR, LSR, SCR, THR, ier, iir, lcr};
use nostall_uart::{
    Console, ConsoleSettings, LineError, LineSettings, Newline, OpenError, Strategy, WriteReport,
};
use proptest::prelude::*;

const BOOT_LOG: &[u8] =
    include_bytes!("../../../../lab/nostall-lab/fixtures/console/linux-boot.log");
const LINE: LineSettings = LineSettings::baud(115_200);

type Port = VirtualPort<Vec<u8>>;

fn crlf(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).replace('\n', "\r\n").into()
}

fn open(profile: Profile, strategy: Strategy) -> Console<Counting<Port>, VirtualClock> {
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    let mut console = Console::open(Counting::new(port), clock, LINE).unwrap();
    console.set_strategy(strategy);
    console
}

/// Returns the cost of the boot log in one write: (register instructions, bus accesses).
fn cost_of_boot_log(profile: Profile, strategy: Strategy) -> (u64, u64) {
    let mut console = open(profile, strategy);
    let before = console.registers().counts();
    let report = console.write(BOOT_LOG);
    let counts = console.registers().counts() - before;
    let expected = crlf(BOOT_LOG);
    assert_eq!(
        report,
        WriteReport {
            written: expected.len(),
            text: BOOT_LOG.len(),
            ..WriteReport::default()
        }
    );
    let port = console.registers().inner();
    assert_eq!(port.with(|uart| uart.lost()), 0);
    assert!(port.with(|uart| std::mem::take(uart.sink_mut())) == expected);
    (counts.register_instructions(), counts.bus_accesses())
}

/// Polls of the transmitter at the end of each write.
const OF_EACH_WRITE: u64 = 1;

#[test]
fn byte_polled_is_two_accesses_a_byte() {
    let bytes = crlf(BOOT_LOG).len() as u64;
    let cost = 2 * bytes + OF_EACH_WRITE;
    assert_eq!(
        cost_of_boot_log(Profile::VM, Strategy::BytePolled),
        (cost, cost)
    );
    assert_eq!(bytes, 22_454);
}

#[test]
fn fifo_polled_is_one_access_a_byte_and_one_a_fifo() {
    let bytes = crlf(BOOT_LOG).len() as u64;
    let cost = bytes + bytes.div_ceil(16) + OF_EACH_WRITE;
    assert_eq!(
        cost_of_boot_log(Profile::VM, Strategy::FifoPolled),
        (cost, cost)
    );
    assert!(cost as f64 / bytes as f64 <= 1.07);
}

#[test]
fn fifo_burst_is_two_instructions_a_fifo_and_the_same_accesses() {
    let bytes = crlf(BOOT_LOG).len() as u64;
    // The last load has 6 bytes, and is also a burst.
    let instructions = 2 * bytes.div_ceil(16) + OF_EACH_WRITE;
    let accesses = bytes + bytes.div_ceil(16) + OF_EACH_WRITE;
    assert_eq!(
        cost_of_boot_log(Profile::VM, Strategy::FifoBurst),
        (instructions, accesses)
    );
    assert!(instructions as f64 / bytes as f64 <= 0.13);
}

#[test]
fn on_a_real_line_every_strategy_delivers_the_log_at_the_lines_rate() {
    for strategy in Strategy::ALL {
        let mut console = open(Profile::PC_16550A, strategy);
        let start = console.clock().now();
        assert!(console.write(BOOT_LOG).is_complete());
        console.flush().unwrap();
        let took = console.clock().now() - start;
        let line = LINE.frame_time() * crlf(BOOT_LOG).len() as u64;
        assert!(took >= line, "{strategy}: faster than the line");
        assert!(took < line + line / 10, "{strategy}: {took} for {line}");
        let sent = console.registers().inner().with(|u| u.sink_mut().clone());
        assert!(sent == crlf(BOOT_LOG), "{strategy}");
    }
}

#[test]
fn a_write_or_a_flush_returns_when_the_last_bit_is_on_the_line() {
    for strategy in Strategy::ALL {
        let mut console = open(Profile::PC_16550A, strategy);
        assert!(console.write(b"0123456789abcdef-").is_complete());
        if strategy == Strategy::FifoPaced {
            console.flush().unwrap();
        }
        let sent = console.registers().inner().with(|u| u.sink_mut().clone());
        assert_eq!(sent, b"0123456789abcdef-", "{strategy}");
    }
}

#[test]
fn a_cr_in_the_last_slot_has_its_lf_in_the_next_burst() {
    let mut console = open(Profile::VM, Strategy::FifoBurst);
    let before = console.registers().counts();
    assert!(console.write(b"fifteen letters\nmore").is_complete());
    let counts = console.registers().counts() - before;
    assert_eq!((counts.bursts, counts.burst_values), (2, 21));
    let sent = console.registers().inner().with(|u| u.sink_mut().clone());
    assert_eq!(sent, b"fifteen letters\r\nmore");
}

/// Returns the bus accesses of a write of `len` bytes, with its flush if the write has none.
fn accesses_of(strategy: Strategy, len: usize, receives: bool) -> u64 {
    let mut console = open(Profile::VM, strategy);
    if receives {
        console.enable_receive();
    }
    // Pacing measures that the line takes no time.
    let text = vec![b'x'; len];
    let mut write = || {
        let before = console.registers().counts();
        assert!(console.write(&text).is_complete());
        console.flush().unwrap();
        (console.registers().counts() - before).bus_accesses()
    };
    (0..20).map(|_| write()).last().unwrap_or_default()
}

#[test]
fn a_short_write_costs_its_bytes_and_one_poll_before_and_after_them() {
    for strategy in [
        Strategy::FifoPolled,
        Strategy::FifoBurst,
        Strategy::FifoPaced,
    ] {
        // The crate `uart_16550` also has 1.125 accesses per byte.
        assert_eq!(accesses_of(strategy, 16, false), 18, "{strategy}");
        assert_eq!(accesses_of(strategy, 1, false), 3, "{strategy}");
        assert_eq!(accesses_of(strategy, 80, false), 80 + 5 + 1, "{strategy}");
        // The receive interrupt is masked and enabled again. The driver knows its enables, so it
        // need not read them.
        assert_eq!(accesses_of(strategy, 16, true), 18 + 2, "{strategy}");
    }
}

/// A port that records every value of the interrupt enables, and counts the bytes sent with each.
struct Enables<'a> {
    port: &'a Port,
    seen: RefCell<Vec<(u8, usize)>>,
}

impl Registers for Enables<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.port.read8(offset)
    }
    fn write8(&self, offset: usize, value: u8) {
        if self.port.read8(LCR) & lcr::DLAB == 0 {
            match offset {
                IER => self.seen.borrow_mut().push((value, 0)),
                THR => self.seen.borrow_mut().last_mut().unwrap().1 += 1,
                _ => {}
            }
        }
        self.port.write8(offset, value);
    }
}

#[test]
fn interrupts_are_masked_during_a_write_and_restored_after_it() {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let registers = Enables {
        port: &port,
        seen: RefCell::default(),
    };
    let mut console = Console::open(&registers, &clock, LINE).unwrap();
    console.enable_receive();
    registers.seen.borrow_mut().clear();
    assert!(console.write(b"x\n").is_complete());
    let enabled = ier::RECEIVED_DATA | ier::LINE_STATUS;
    assert_eq!(registers.seen.take(), [(0, 3), (enabled, 0)]);
    // Without enabled interrupts, there is nothing to mask.
    console.disable_receive();
    registers.seen.borrow_mut().clear();
    registers.seen.borrow_mut().push((0, 0));
    assert!(console.write(b"x\n").is_complete());
    assert_eq!(registers.seen.take(), [(0, 3)]);
}

#[test]
fn a_write_does_not_take_a_pending_transmit_interrupt() {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    assert!(
        console
            .write(b"a whole FIFO and more of it\n")
            .is_complete()
    );
    port.write8(IER, ier::TRANSMITTER_EMPTY);
    assert!(
        console
            .write(b"a whole FIFO and more of it\n")
            .is_complete()
    );
    assert_eq!(port.read8(IIR) & iir::ID, iir::TRANSMITTER_EMPTY);
}

#[test]
fn with_crlf_off_every_byte_is_sent_unchanged_and_a_report_of_lost_bytes_ends_in_lf() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Faulty::after(u64::MAX, Fault::StuckStatus, port);
    let settings = ConsoleSettings {
        newline: Newline::Lf,
        ..LINE.into()
    };
    let mut console = Console::open(&port, &clock, settings).unwrap();
    let report = console.write(b"one\n\r\n\xff");
    assert_eq!((report.written, report.text, report.dropped), (7, 7, 0));
    port.recover_for(0);
    assert_eq!(console.write(b"lost\n").dropped, 5);
    port.recover_for(u64::MAX);
    let mut text: &[u8] = b"\noffered\n";
    while !text.is_empty() {
        let offered = console.offer(text);
        text = &text[offered.taken..];
        clock.wait_until(offered.ready_at.unwrap());
    }
    console.flush().unwrap();
    let sent = port.inner().with(|uart| uart.sink_mut().clone());
    assert_eq!(sent, b"one\n\r\n\xff\n[5 bytes lost]\n\noffered\n");
}

#[test]
fn a_report_of_a_write_counts_the_text_without_its_crs() {
    let mut console = open(Profile::PC_16550A, Strategy::FifoBurst);
    let report = console.write(b"two\nlines\n");
    assert_eq!((report.text, report.written), (10, 12));
    for strategy in Strategy::ALL {
        for good in 0..60 {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let port = Faulty::after(u64::MAX, Fault::StuckStatus, port);
            let mut console = Console::open(&port, &clock, LINE).unwrap();
            console.set_strategy(strategy);
            port.recover_for(good);
            let text = b"a\n\nb\n0123456789\n0123456789\n0123456789\n";
            let report = console.write(text);
            let on_line = crlf(&text[..report.text]).len();
            // The CR of the next LF may already have been sent.
            let cr = report.written - on_line;
            assert!(
                cr == 0 || cr == 1 && text[report.text] == b'\n',
                "{report:?}"
            );
            assert_eq!(
                report.is_complete(),
                report.text == text.len() && !report.timed_out
            );
        }
    }
}

#[cfg(feature = "embedded-io")]
#[test]
fn embedded_io_writes_the_text_once_even_if_the_port_pauses_in_the_middle() {
    use embedded_io::Write;
    use nostall_uart::IoError;

    for strategy in Strategy::ALL {
        for good in 0..60 {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let port = Faulty::after(u64::MAX, Fault::StuckStatus, port);
            let mut console = Console::open(&port, &clock, LINE).unwrap();
            console.set_strategy(strategy);
            let text = b"a\n\nb\n0123456789\n0123456789\n0123456789\n";
            port.recover_for(good);
            let mut rest: &[u8] = text;
            while !rest.is_empty() {
                match Write::write(&mut console, rest) {
                    Ok(taken) => rest = &rest[taken..],
                    Err(error) => assert_eq!(error, IoError::TimedOut),
                }
                port.recover_for(u64::MAX);
            }
            Write::flush(&mut console).unwrap();
            assert_eq!(console.lost(), 0);
            let sent = port.inner().with(|uart| uart.sink_mut().clone());
            assert_eq!(sent, crlf(text), "{strategy} after {good}");
        }
    }
}

#[test]
fn an_empty_write_accesses_no_register() {
    let mut console = open(Profile::VM, Strategy::FifoBurst);
    let before = console.registers().counts();
    assert_eq!(console.write(b""), WriteReport::default());
    assert_eq!(console.registers().counts(), before);
}

/// A 16450, or a 16550 with a broken FIFO: the IIR never shows it enabled.
struct NoFifo<'a>(&'a Port);

impl Registers for NoFifo<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.0.read8(offset)
    }
    fn write8(&self, offset: usize, value: u8) {
        if offset != FCR {
            self.0.write8(offset, value);
        }
    }
}

#[test]
fn without_a_working_fifo_every_strategy_sends_byte_by_byte() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let mut console = Console::open(NoFifo(&port), &clock, LINE).unwrap();
        console.set_strategy(strategy);
        assert_eq!(console.transmit_load(), 1);
        assert!(console.write(b"one at a time\n").is_complete());
        console.flush().unwrap();
        assert_eq!(port.with(|uart| uart.lost()), 0, "{strategy}");
        assert_eq!(port.into_sink(), b"one at a time\r\n");
    }
}

#[test]
fn a_stuck_line_status_costs_one_time_limit_and_is_reported() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let port = Faulty::after(u64::MAX, Fault::StuckStatus, port);
        let mut console = Console::open(&port, &clock, LINE).unwrap();
        console.set_strategy(strategy);
        assert!(console.write(b"before\n").is_complete());
        port.recover_for(0);

        let start = clock.now();
        let report = console.write(b"lost\nlost\n");
        let took = clock.now() - start;
        let all_lost = WriteReport {
            written: 0,
            text: 0,
            dropped: 12,
            timed_out: true,
        };
        assert_eq!(report, all_lost, "{strategy}");
        assert!(took >= console.longest_wait(), "{took}");
        // Pacing first waits for the transmission time of a FIFO.
        let first = match strategy {
            Strategy::FifoPaced => LINE.frame_time() * 16,
            _ => Nanos::ZERO,
        };
        let late = took / 100 + Nanos::from_micros(50);
        assert!(took < first + console.longest_wait() + late, "{took}");

        // The second write does not wait for the time limit again.
        let start = clock.now();
        assert_eq!(console.write(b"lost\nlost\n"), all_lost);
        let took = clock.now() - start;
        assert!(took < Nanos::from_micros(200), "{strategy}: {took}");

        // When the port works again, the console does too.
        port.recover_for(u64::MAX);
        assert!(console.write(b"after\n").is_complete(), "{strategy}");
    }
}

#[test]
fn a_port_that_vanishes_in_mid_write_ends_the_write_and_is_reported() {
    for strategy in Strategy::ALL {
        for good in [0, 1, 2, 3, 30, 31, 32, 33, 34, 35] {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let port = Faulty::after(u64::MAX, Fault::AllOnes, port);
            let mut console = Console::open(&port, &clock, LINE).unwrap();
            console.set_strategy(strategy);
            port.recover_for(good);
            let start = clock.now();
            let report = console.write(&[b'x'; 100]);
            assert_eq!(report.written + report.dropped, 100);
            assert_eq!(report.text, report.written);
            assert!(report.dropped > 0, "{strategy} after {good}: {report:?}");
            assert!(!report.timed_out, "gone, not slow");
            assert!(clock.now() - start < console.longest_wait() * 3);
        }
    }
}

#[test]
fn a_port_that_returns_is_waited_for_again_and_keeps_its_interrupts_disabled() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Faulty::after(u64::MAX, Fault::AllOnes, port);
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    port.recover_for(0);
    assert_eq!(console.write(b"lost").dropped, 4);
    port.recover_for(u64::MAX);
    port.write_burst(0, b"busy meanwhile");
    assert!(console.write(b", and then ours").is_complete());
    assert_eq!(port.read8(IER), 0);
}

#[test]
fn bytes_in_a_port_that_vanishes_are_reported_as_lost() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Faulty::after(u64::MAX, Fault::AllOnes, port);
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    port.recover_for(1 + 8); // one poll, eight bytes
    let report = console.write(b"8 bytes.");
    assert_eq!((report.written, report.dropped), (0, 8));
    assert!(!report.timed_out, "gone, not slow");
}

#[test]
fn an_absent_port_is_an_error_at_once() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Faulty::after(0, Fault::AllOnes, port);
    let error = Console::open(&port, &clock, LINE).unwrap_err();
    assert_eq!(error, OpenError::NotFound);
    assert!(clock.now() < Nanos::from_micros(50));
}

#[test]
fn a_port_stuck_from_the_start_opens_in_bounded_time_and_reports_on_write() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Faulty::after(0, Fault::StuckStatus, port);
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    assert!(clock.now() < Nanos::from_millis(25), "{}", clock.now());
    let report = console.write(b"x");
    assert!(report.timed_out && report.dropped == 1);
}

#[test]
fn an_impossible_rate_is_refused_before_the_port_is_accessed() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Counting::new(port);
    let error = Console::open(&port, &clock, LineSettings::baud(1_000_000)).unwrap_err();
    assert!(matches!(error, OpenError::Line(LineError::RateOff { .. })));
    assert_eq!(port.counts().bus_accesses(), 0);
}

#[test]
fn opening_a_slow_port_again_loses_no_byte_and_a_stuck_one_counts_its_load() {
    for baud in [300, 1_200, 4_800, 9_600] {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let line = LineSettings::baud(baud);
        let mut before = Console::open(&port, &clock, line).unwrap();
        assert_eq!(before.offer(b"sixteen bytes...").taken, 16);
        let mut after = Console::open(&port, &clock, line).unwrap();
        assert!(after.write(b" and more").is_complete());
        assert_eq!(after.lost(), 0);
        let sent = port.with(|uart| std::mem::take(uart.sink_mut()));
        assert_eq!(sent, b"sixteen bytes... and more", "{baud}");
    }
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Faulty::after(0, Fault::StuckStatus, port);
    let line = LineSettings::baud(4_800);
    let console = Console::open(&port, &clock, line).unwrap();
    assert_eq!(console.lost(), console.transmit_load() as u64);
}

#[test]
fn a_port_that_takes_bytes_faster_than_its_line_is_recognized() {
    // (profile, load that the driver assumes, baud)
    let cases = [
        (Profile::PC_16550A, 16, 115_200, false),
        (Profile::PC_16550A, 16, 4_800, false),
        (Profile::PC_16550A, 64, 115_200, true),
        (Profile::PC_16550A, 64, 4_800, true),
        (Profile::VM, 16, 115_200, true),
    ];
    for (profile, load, baud, is_faster) in cases {
        for pause in [Nanos::ZERO, Nanos::from_micros(900), Nanos::from_millis(9)] {
            let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
            let line = LineSettings::baud(baud);
            let mut settings = ConsoleSettings::from(line);
            settings.transmit_load = Some(load);
            let mut console = Console::open(&port, &clock, settings).unwrap();
            let mut offered = 0;
            while offered < 4_000 {
                let result = console.offer(&[b'x'; 64]);
                offered += result.taken;
                clock.wait_until(result.ready_at.unwrap() + pause);
            }
            // A caller that pauses for longer than the line needs sees nothing.
            let frames = clock.now().0 / line.frame_time().0;
            let can_see = offered as u64 * 3 > 4 * frames;
            assert_eq!(
                console.outruns_line(),
                is_faster && can_see,
                "{} {load} {baud} {pause}",
                profile.name
            );
        }
    }
}

#[test]
fn opening_waits_for_the_previous_users_bytes() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let mut firmware = Console::open(&port, &clock, LINE).unwrap();
    assert!(firmware.write(b"firmware, ").is_complete());
    port.write_burst(0, b"its last line");
    let mut ours = Console::open(&port, &clock, LineSettings::baud(9_600)).unwrap();
    assert!(ours.write(b", ours").is_complete());
    assert_eq!(port.into_sink(), b"firmware, its last line, ours");
}

#[test]
fn the_time_limit_is_the_set_one_unless_the_line_is_slower() {
    let bound = |baud, give_up_after| {
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let line = LineSettings::baud(baud);
        let settings = ConsoleSettings {
            give_up_after,
            ..line.into()
        };
        let console = Console::open(&port, &clock, settings).unwrap();
        (console.longest_wait(), line.frame_time())
    };
    assert_eq!(
        ConsoleSettings::from(LINE).give_up_after,
        ConsoleSettings::GIVE_UP_AFTER
    );
    let (fast, _) = bound(115_200, ConsoleSettings::GIVE_UP_AFTER);
    assert_eq!(fast, Nanos::from_millis(500));
    assert_eq!(bound(115_200, Nanos(1_000_000_000)).0.0, 1_000_000_000);
    let (slow, frame) = bound(1_200, Nanos::ZERO);
    assert_eq!(slow, frame * 34, "a FIFO of 1,200 baud lasts 142 ms");
}

#[test]
fn the_console_takes_formatted_text() {
    use std::fmt::Write;
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    writeln!(console, "cpu {} of {}", 1, 4).unwrap();
    assert_eq!(port.into_sink(), b"cpu 1 of 4\r\n");
}

/// A port whose line status is all ones once, as if all receive errors occurred together. A read
/// clears it, unlike the status of an absent port.
struct EveryErrorOnce<'a>(&'a Port, std::cell::Cell<bool>);

impl Registers for EveryErrorOnce<'_> {
    fn read8(&self, offset: usize) -> u8 {
        if offset == LSR && self.1.take() {
            return !0;
        }
        self.0.read8(offset)
    }
    fn write8(&self, offset: usize, value: u8) {
        self.0.write8(offset, value);
    }
}

#[test]
fn every_receive_error_at_once_is_not_a_port_that_is_gone() {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let noisy = EveryErrorOnce(&port, std::cell::Cell::new(false));
    let mut console = Console::open(&noisy, &clock, LINE).unwrap();
    noisy.1.set(true);
    assert!(console.write(b"still here\n").is_complete());
    assert_eq!(port.into_sink(), b"still here\r\n");
}

proptest! {
    /// Writes any bytes in any pieces to either port. Each byte arrives, and the transmitter is
    /// never overfilled.
    #[test]
    fn every_byte_arrives(
        writes in prop::collection::vec(
            prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..70), 0..8),
        strategy in prop::sample::select(Strategy::ALL.to_vec()),
        profile in prop::sample::select(Profile::ALL.to_vec()),
    ) {
        let mut console = open(profile, strategy);
        let mut expected = Vec::new();
        for text in &writes {
            prop_assert!(console.write(text).is_complete());
            for &byte in text {
                if byte == b'\n' {
                    expected.push(b'\r');
                }
                expected.push(byte);
            }
        }
        prop_assert_eq!(console.flush(), Ok(()));
        let port = console.registers().inner();
        prop_assert_eq!(port.with(|uart| uart.lost()), 0);
        prop_assert_eq!(port.with(|uart| uart.sink_mut().clone()), expected);
    }

    /// Lets a port fail at any point, in either way. A write ends in bounded time, and its report
    /// accounts for every byte.
    #[test]
    fn a_failure_anywhere_is_bounded_and_accounted_for(
        good in 0u64..200,
        fault in prop::sample::select(vec![Fault::StuckStatus, Fault::AllOnes]),
        strategy in prop::sample::select(Strategy::ALL.to_vec()),
        profile in prop::sample::select(Profile::ALL.to_vec()),
    ) {
        let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
        let port = Faulty::after(u64::MAX, fault, port);
        let mut console = Console::open(&port, &clock, LINE).unwrap();
        console.set_strategy(strategy);
        port.recover_for(good);
        let start = clock.now();
        let report = console.write(&[b'x'; 100]);
        let line = LINE.frame_time() * 100;
        prop_assert_eq!(report.written + report.dropped, 100);
        prop_assert!(clock.now() - start < line + console.longest_wait() * 2);
        port.write8(SCR, 0);
    }
}

/// Returns the number of polls per load of the boot log. The log is offered in slices, as a
/// kernel's sink does, with `from_idle` bytes at a time from an idle port.
fn polls_per_fifo_full(profile: Profile, from_idle: usize) -> f64 {
    let mut console = open(profile, Strategy::FifoBurst);
    let clock = console.clock().clone();
    let (mut offers, mut fulls) = (0, 0);
    for text in crlf(BOOT_LOG).chunks(from_idle) {
        // The text already contains CRs.
        let text: Vec<u8> = text.iter().map(|&byte| byte.max(b' ')).collect();
        let mut rest = &text[..];
        while !rest.is_empty() {
            let offered = console.offer(rest);
            offers += 1;
            fulls += usize::from(offered.taken > 0);
            rest = &rest[offered.taken..];
            clock.wait_until(offered.ready_at.unwrap());
        }
        clock.wait_until(clock.now() + Nanos::from_millis(20));
    }
    offers as f64 / fulls as f64
}

#[test]
fn a_slice_polls_three_times_a_fifo_full_however_often_the_port_was_idle() {
    let of_each = [
        (Profile::PC_16550A, &[16, 32, 48, 160, 22_454][..]),
        // The line of this port has two speeds: one until a buffer of 256 bytes is full, and
        // another one later.
        (Profile::HP_DL380_GEN9, &[16, 32, 48, 22_454]),
    ];
    for (profile, texts) in of_each {
        for &from_idle in texts {
            let looks = polls_per_fifo_full(profile, from_idle);
            assert!(looks < 3.3, "{} {from_idle}: {looks}", profile.name);
        }
    }
}
