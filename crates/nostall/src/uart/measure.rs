//! Finding out about a port, by reading alone or by sending.

use std::cell::Cell;

use anyhow::{Result, ensure};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{
    DLL, DLM, FCR, IER, IIR, LCR, LSR, MCR, MSR, SCR, fcr, iir, lcr, lsr,
};
use nostall_uart::{
    Console, ConsoleSettings, DataBits, LineSettings, NotFound, Parity, StopBits, Strategy, probe,
    receive_fifo_depth,
};

use super::findings::{Cost, Findings, Probe, Sending, Sent, Shown};

/// How many reads of the line status are timed, and for how long at most.
const LOOKS: usize = 1_000;
const LOOKING: Nanos = Nanos::from_secs(2);

/// How long the port may take to send the bytes that it holds.
const EMPTYING: Nanos = Nanos::from_secs(1);

/// The rate for a port that has none.
const USUAL_RATE: u32 = 115_200;

/// Whether a read could take an interrupt from a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// No driver uses the port.
    Free,
    /// Reading the IIR would take its user's transmit interrupt, reading the MSR
    /// a change of CTS that it may be waiting for: neither is read.
    Used,
}

/// Returns the findings of reading. Writes nothing, and takes no received byte. `rate` is the
/// line's, if it is known.
pub fn by_reading(
    registers: &impl Registers,
    clock: &impl Clock,
    care: Care,
    rate: Option<u32>,
) -> Result<Findings> {
    let shown = shown(registers, care)?;
    let baud = rate.unwrap_or(USUAL_RATE);
    Ok(Findings {
        shown,
        line: line(shown.lcr, baud, LineSettings::PC_CLOCK),
        rate_known: rate.is_some(),
        cost: cost(registers, clock),
        probe: None,
        sent: None,
    })
}

/// Probes the port and sends text. When it returns, the port's settings are as before and its
/// FIFOs empty. No driver may use the port meanwhile.
pub fn by_sending(
    registers: &impl Registers,
    clock: &impl Clock,
    input_clock: u32,
) -> Result<Findings> {
    let shown = shown(registers, Care::Free)?;
    ensure!(
        !shown.has_interrupts(),
        "its interrupts are enabled, so a driver uses it, which --send would disturb: \
         stop that first, or leave out --send"
    );
    wait_until_empty(registers, clock)?;
    let ier = interrupt_enables(registers, shown.lcr);
    let probed = probe(registers)?;
    let line = match probed.divisor {
        // Nor is a frame set, then.
        0 => line(0b11, USUAL_RATE, input_clock),
        divisor => {
            let baud = input_clock / 16 / u32::from(divisor);
            line(shown.lcr, baud, input_clock)
        }
    };
    ensure!(
        probed.divisor == 0 || line.divisor() == Ok(probed.divisor),
        "its divisor, {}, is of no usual rate: set one first, for example with stty",
        probed.divisor
    );
    let cost = cost(registers, clock);
    let settings = ConsoleSettings {
        model: Some(probed.model),
        transmit_load: Some(probed.transmit_load),
        ..ConsoleSettings::from(line)
    };
    let slept = Cell::new(Nanos::ZERO);
    let console = Console::open(registers, SleepCountingClock { clock, slept }, settings);
    let measured = console.map(|mut console| {
        let works = console.transmit_load() > 1;
        let depth = works.then(|| receive_fifo_depth(registers, clock, line.frame_time()));
        (depth.filter(|&depth| depth > 0), send(&mut console, &line))
    });
    restore(registers, &shown, ier, probed.divisor);
    let (receive_depth, sent) = measured?;
    Ok(Findings {
        shown,
        line,
        rate_known: probed.divisor != 0,
        cost,
        probe: Some(Probe {
            probed,
            receive_depth,
        }),
        sent: Some(sent),
    })
}

/// A quarter of a second's text byte by byte, a second's by bursts, and another
/// quarter paced. In this order, so that a buffer behind the FIFO is empty when
/// the bursts come, whose halves then show how it fills.
fn send<R: Registers, C: Clock>(
    console: &mut Console<R, SleepCountingClock<C>>,
    line: &LineSettings,
) -> Sent {
    let frame = line.frame_time().0.max(1);
    let second = (1_000_000_000 / frame).max(8) as usize;
    let mut send = |strategy, bytes| {
        console.set_strategy(strategy);
        let (start, slept) = (console.clock().now(), console.clock().slept.get());
        let report = console.write(&text(bytes));
        let flushed = console.flush().is_ok();
        let time = console.clock().now() - start;
        Sending {
            bytes: report.written as u64,
            time,
            held: time - (console.clock().slept.get() - slept),
            whole: report.is_complete() && flushed,
        }
    };
    Sent {
        byte_by_byte: send(Strategy::BytePolled, second / 4),
        bursts: [second / 2, second / 2].map(|bytes| send(Strategy::FifoBurst, bytes)),
        paced: send(Strategy::FifoPaced, second / 4),
    }
}

/// Lines of 78 characters.
fn text(bytes: usize) -> Vec<u8> {
    let line = (b' '..=b'~').cycle().take(78).chain([b'\n']);
    let lines: Vec<u8> = line.collect();
    lines.into_iter().cycle().take(bytes).collect()
}

fn shown(registers: &impl Registers, care: Care) -> Result<Shown> {
    let (lcr, mcr) = (registers.read8(LCR), registers.read8(MCR));
    // No model has all these bits set.
    ensure!(lcr != !0 || mcr != !0, NotFound);
    let mut shown = Shown {
        lcr,
        mcr,
        lsr: registers.read8(LSR),
        scr: registers.read8(SCR),
        ier: (lcr & lcr::DLAB == 0).then(|| registers.read8(IER)),
        iir: None,
        msr: None,
    };
    if care == Care::Free && !shown.has_interrupts() {
        shown.iir = Some(registers.read8(IIR));
        shown.msr = Some(registers.read8(MSR));
    }
    Ok(shown)
}

fn cost(registers: &impl Registers, clock: &impl Clock) -> Cost {
    let deadline = clock.now() + LOOKING;
    let mut looks = Vec::with_capacity(LOOKS);
    while looks.len() < LOOKS && (looks.is_empty() || clock.now() < deadline) {
        let start = clock.now();
        registers.read8(LSR);
        looks.push(clock.now() - start);
    }
    Cost::of(looks)
}

fn wait_until_empty(registers: &impl Registers, clock: &impl Clock) -> Result<()> {
    let deadline = clock.now() + EMPTYING;
    while registers.read8(LSR) & lsr::TEMT == 0 {
        ensure!(
            clock.now() < deadline,
            "the transmitter does not become empty within a second: is it held off, or stuck?"
        );
        clock.sleep_until(clock.now() + Nanos::from_millis(1));
    }
    Ok(())
}

/// The line at `baud`, with the frame that the LCR has.
fn line(frame: u8, baud: u32, input_clock: u32) -> LineSettings {
    use DataBits::{Eight, Five, Seven, Six};
    LineSettings {
        baud,
        input_clock,
        data_bits: [Five, Six, Seven, Eight][usize::from(frame & lcr::WORD_LENGTH)],
        parity: match (frame & lcr::PARITY, frame & lcr::STICK, frame & lcr::EVEN) {
            (0, ..) => Parity::None,
            (_, 0, 0) => Parity::Odd,
            (_, 0, _) => Parity::Even,
            (_, _, 0) => Parity::Mark,
            _ => Parity::Space,
        },
        stop_bits: match frame & lcr::STOP {
            0 => StopBits::One,
            _ => StopBits::Two,
        },
    }
}

/// Returns the interrupt enables, which lie under the divisor latch.
fn interrupt_enables(registers: &impl Registers, lcr: u8) -> u8 {
    registers.write8(LCR, lcr & !lcr::DLAB);
    let ier = registers.read8(IER);
    registers.write8(LCR, lcr);
    ier
}

/// Restores the registers that a console changes and leaves changed.
fn restore(registers: &impl Registers, shown: &Shown, ier: u8, divisor: u16) {
    let [low, high] = divisor.to_le_bytes();
    let fifos = shown.iir.is_some_and(|iir| iir & iir::FIFOS == iir::FIFOS);
    registers.write8(LCR, lcr::DLAB);
    registers.write8(DLL, low);
    registers.write8(DLM, high);
    registers.write8(FCR, if fifos { fcr::ENABLE } else { 0 });
    registers.write8(LCR, shown.lcr & !lcr::DLAB);
    registers.write8(MCR, shown.mcr);
    registers.write8(IER, ier);
    registers.write8(LCR, shown.lcr);
}

/// A clock that counts the time slept: other tasks' share of the CPU.
struct SleepCountingClock<C> {
    clock: C,
    slept: Cell<Nanos>,
}

impl<C: Clock> Clock for SleepCountingClock<C> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn wait_until(&self, deadline: Nanos) {
        self.clock.wait_until(deadline);
    }

    fn sleep_until(&self, deadline: Nanos) {
        let start = self.now();
        self.clock.sleep_until(deadline);
        self.slept.set(self.slept.get() + (self.now() - start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostall_devices::Fault as Broken;
    use nostall_devices::uart::{Profile, Uart};
    use nostall_io::Counting;
    use nostall_uart::Model;

    /// Sets the registers as Linux leaves them.
    fn set_up(port: &impl Registers, divisor: u8) {
        for (offset, value) in [
            (LCR, lcr::DLAB),
            (DLL, divisor),
            (LCR, 0b11),
            (FCR, fcr::ENABLE),
            (MCR, 0x0b),
        ] {
            port.write8(offset, value);
        }
    }

    fn reached(bytes_per_second: f64, expected: f64) {
        let off = (bytes_per_second / expected - 1.0).abs();
        assert!(off < 0.02, "{bytes_per_second} B/s, not {expected}");
    }

    #[test]
    fn by_reading_nothing_is_written_and_no_byte_is_taken() {
        for care in [Care::Free, Care::Used] {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            set_up(&port, 1);
            port.with(|uart| uart.receive(b'x'));
            let counting = Counting::new(&port);
            let findings = by_reading(&counting, &clock, care, Some(115_200)).unwrap();
            let counts = counting.counts();
            assert_eq!((counts.writes, counts.bursts), (0, 0));
            assert_eq!(findings.cost.median, Nanos(1_700));
            assert_eq!(findings.cost.looks, LOOKS);
            assert_eq!(port.read8(0), b'x', "still there");
            println!("{findings}\n");
        }
    }

    #[test]
    fn of_a_used_port_the_transmit_interrupt_is_left_alone_and_nothing_is_sent() {
        // A driver that has enabled interrupts uses the port, whether Linux reports it or not.
        for care in [Care::Used, Care::Free] {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            port.write8(IER, 0b10);
            let counting = Counting::new(&port);
            by_reading(&counting, &clock, care, None).unwrap();
            let error = by_sending(&counting, &clock, LineSettings::PC_CLOCK).unwrap_err();
            assert!(error.to_string().contains("a driver uses it"), "{error}");
            assert_eq!(counting.counts().writes, 0);
            assert_eq!(port.read8(IIR) & !iir::FIFOS, iir::TRANSMITTER_EMPTY);
        }
    }

    #[test]
    fn a_line_is_found_as_fast_as_it_is_and_left_as_it_was() {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        set_up(&port, 12);
        let findings = by_sending(&port, &clock, LineSettings::PC_CLOCK).unwrap();
        println!("{findings}");
        let probe = findings.probe.unwrap();
        assert_eq!(probe.probed.model, Model::Uart16550A);
        assert_eq!((probe.probed.divisor, probe.receive_depth), (12, Some(16)));
        assert_eq!(findings.line, LineSettings::baud(9_600));
        let sent = findings.sent.unwrap();
        assert!(!findings.lost());
        for sending in [sent.byte_by_byte, sent.bursts[0], sent.bursts[1]] {
            reached(sending.bytes_per_second(), 960.0);
            assert_eq!(sending.held, sending.time, "nothing else ran");
        }
        assert!(sent.paced.held * 20 < sent.paced.time, "{:?}", sent.paced);

        assert_eq!(port.read8(LCR), 0b11);
        assert_eq!(port.read8(MCR), 0x0b);
        assert_eq!(port.read8(IER), 0);
        assert_eq!(port.read8(IIR) & iir::FIFOS, iir::FIFOS);
        port.write8(LCR, lcr::DLAB);
        assert_eq!((port.read8(DLL), port.read8(DLM)), (12, 0));
        assert_eq!(port.with(|uart| uart.lost()), 0);
        let total = [
            sent.byte_by_byte,
            sent.bursts[0],
            sent.bursts[1],
            sent.paced,
        ];
        let total: u64 = total.iter().map(|sending| sending.bytes).sum();
        assert_eq!(port.into_sink().len() as u64, total);
    }

    #[test]
    fn a_buffer_behind_the_fifo_shows_in_the_second_half() {
        let profile = Profile::HP_DL380_GEN9;
        let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
        set_up(&port, 1);
        // The port is idle, as after a boot: earlier bytes have long drained.
        clock.advance(profile.settling_time());
        let findings = by_sending(&port, &clock, LineSettings::PC_CLOCK).unwrap();
        println!("{findings}");
        let sent = findings.sent.unwrap();
        reached(sent.bursts[1].bytes_per_second(), 1e9 / 336_700.0);
        assert!(sent.bursts[0].bytes_per_second() > 1.3 * sent.bursts[1].bytes_per_second());
        // The published 0.997 s for 2,500 bytes.
        reached(sent.byte_by_byte.bytes_per_second(), 2_500.0 / 0.997);
        assert!(findings.cost.max > findings.cost.median * 7, "a tail");
    }

    #[test]
    fn every_model_is_named_and_none_has_a_deeper_fifo_than_it_says() {
        for model in Model::ALL {
            let (port, clock) = Uart::in_virtual_time_as(model, Profile::PC_16550A, Vec::new());
            set_up(&port, 1);
            let findings = by_sending(&port, &clock, LineSettings::PC_CLOCK).unwrap();
            let probe = findings.probe.unwrap();
            if model != Model::Bcm2835Mini {
                // Only registers beyond the eight of a 16550 identify a DesignWare.
                let found = match model {
                    Model::DesignWare => Model::Uart16550A,
                    model => model,
                };
                assert_eq!(probe.probed.model, found);
                let depth = probe.receive_depth.unwrap_or(1);
                assert_eq!(depth, model.fifo_depth(), "{model}");
            }
            assert!(!findings.lost(), "{model}");
        }
    }

    #[test]
    fn a_port_without_a_rate_is_given_the_usual_one_for_the_time() {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let findings = by_sending(&port, &clock, LineSettings::PC_CLOCK).unwrap();
        assert!(findings.to_string().contains("no rate is set"));
        reached(
            findings.sent.unwrap().bursts[1].bytes_per_second(),
            11_520.0,
        );
        port.write8(LCR, lcr::DLAB);
        assert_eq!((port.read8(DLL), port.read8(DLM)), (0, 0));
    }

    #[test]
    fn every_fault_ends_in_bounded_time_with_an_error_or_a_report() {
        for fault in Broken::ALL {
            for after in [0, 30, 1_300] {
                let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
                set_up(&port, 1);
                let port = port.with_fault(after, fault);
                let reading = by_reading(&port, &clock, Care::Free, None);
                let sending = by_sending(&port, &clock, LineSettings::PC_CLOCK);
                assert!(
                    clock.now() < Nanos::from_secs(60),
                    "{fault:?}: {}",
                    clock.now()
                );
                for findings in [&reading, &sending].into_iter().flatten() {
                    let _ = findings.to_string();
                }
                if (after, fault) == (0, Broken::AllOnes) {
                    assert!(reading.unwrap_err().is::<NotFound>());
                    assert!(sending.unwrap_err().is::<NotFound>());
                } else if (after, fault) == (0, Broken::StuckStatus) {
                    let error = sending.unwrap_err().to_string();
                    assert!(error.contains("does not become empty"), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_divisor_of_no_usual_rate_is_refused_and_left() {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        set_up(&port, 1);
        port.write8(LCR, lcr::DLAB);
        port.write8(DLM, 0x9c);
        port.write8(LCR, 0b11);
        let error = by_sending(&port, &clock, LineSettings::PC_CLOCK).unwrap_err();
        assert!(error.to_string().contains("divisor, 39937"), "{error}");
        port.write8(LCR, lcr::DLAB);
        assert_eq!((port.read8(DLL), port.read8(DLM)), (1, 0x9c));
    }
}
