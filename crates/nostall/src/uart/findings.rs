//! Findings of a port, for the user.

use std::fmt;

use nostall_io::Nanos;
use nostall_uart::registers::iir;
use nostall_uart::{LineSettings, Parity, Probed};

use nostall_figures::numbers::grouped;

/// The texts whose cost is reported: a boot's log, and the log of a kernel in trouble.
const BOOT_LOG: u64 = 25_000;
const FLOOD: u64 = 720_000;

/// Findings of a port.
#[derive(Clone, Debug)]
pub struct Findings {
    pub shown: Shown,
    pub line: LineSettings,
    /// Whether the rate is the port's own, or given; else it is the usual one.
    pub rate_known: bool,
    pub cost: Cost,
    pub probe: Option<Probe>,
    pub sent: Option<Sent>,
}

/// Its registers at first sight.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    pub lcr: u8,
    pub mcr: u8,
    pub lsr: u8,
    pub scr: u8,
    /// `None` if the divisor latch covers it.
    pub ier: Option<u8>,
    /// `None`, as the MSR, if it was left to the port's user.
    pub iir: Option<u8>,
    pub msr: Option<u8>,
}

/// Cost of a read of the line status.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub looks: usize,
    pub median: Nanos,
    /// 99 of 100 take no longer.
    pub p99: Nanos,
    pub max: Nanos,
}

/// Findings of probing.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub probed: Probed,
    /// Measured depth of the receive FIFO; `None` where it cannot be measured.
    pub receive_depth: Option<usize>,
}

/// Results of the texts sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub byte_by_byte: Sending,
    /// Two halves, the second after any buffer there is has filled.
    pub bursts: [Sending; 2],
    pub paced: Sending,
}

/// Result of one text.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    pub bytes: u64,
    pub time: Nanos,
    /// Part of that time in which the CPU could do nothing else.
    pub held: Nanos,
    pub whole: bool,
}

impl Shown {
    /// Whether the port's interrupts are enabled.
    pub fn has_interrupts(&self) -> bool {
        self.ier.is_some_and(|ier| ier & 0x0f != 0)
    }
}

impl Cost {
    /// Returns the cost from the times of at least one look.
    pub fn of(mut looks: Vec<Nanos>) -> Self {
        looks.sort_unstable();
        let at = |percent| looks[(looks.len() - 1) * percent / 100];
        Self {
            looks: looks.len(),
            median: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

impl Sending {
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.time.0.max(1) as f64
    }
}

impl Sent {
    /// For how many nanoseconds `bytes` hold a CPU, in each of the three ways.
    fn held(&self, bytes: u64) -> [f64; 3] {
        let bytes = bytes as f64;
        let each = |sending: &Sending| sending.held.0 as f64 / sending.bytes.max(1) as f64;
        let [first, second] = &self.bursts;
        let at_first = bytes.min(first.bytes as f64);
        [
            bytes * each(&self.byte_by_byte),
            at_first * each(first) + (bytes - at_first) * each(second),
            bytes * each(&self.paced),
        ]
    }
}

impl Findings {
    /// Whether the port did not take every byte in time.
    pub fn lost(&self) -> bool {
        self.sent.is_some_and(|sent| {
            let [first, second] = sent.bursts;
            let all = [sent.byte_by_byte, first, second, sent.paced];
            all.iter().any(|sending| !sending.whole)
        })
    }

    /// The same as [`Sent::held`] without having sent. It is the line's time, or the bus's where
    /// that is slower, at one look a load and a byte an access.
    fn reckoned(&self, bytes: u64) -> [f64; 3] {
        let (bytes, look) = (bytes as f64, self.cost.median.0 as f64);
        let frame = self.line.frame_time().0 as f64;
        let load = self.load() as f64;
        let burst = look + look / load;
        [
            bytes * frame.max(2.0 * look),
            bytes * frame.max(burst),
            // Waking up takes a second look now and then.
            bytes * (look + 2.0 * look / load).min(frame.max(burst)),
        ]
    }

    /// Bytes that the transmitter takes at once, as far as reading shows.
    fn load(&self) -> usize {
        match (self.probe, self.shown.iir) {
            (Some(probe), _) => probe.probed.transmit_load,
            (None, Some(iir)) if iir & iir::FIFOS != iir::FIFOS => 1,
            _ => 16,
        }
    }

    fn model(&self) -> String {
        let Some(iir) = self.shown.iir else {
            return "not asked for: IIR and MSR are left to the port's user".to_owned();
        };
        if let Some(probe) = self.probe {
            return probe.probed.model.to_string();
        }
        let shows = match (iir & iir::FIFOS, iir & iir::FIFO_64) {
            (iir::FIFOS, 0) => "a 16550a or better: its FIFOs are enabled",
            (iir::FIFOS, _) => "a 16750, probably: FIFOs of 64 bytes are enabled",
            (0, _) => "any: FIFOs are off, or there are none",
            _ => "a 16550 whose FIFOs do not work",
        };
        format!("{shows} (--send finds out)")
    }

    fn fifo(&self) -> String {
        let Some(probe) = self.probe else {
            return format!("transmit {} at once, assumed", self.load());
        };
        let receives = match probe.receive_depth {
            Some(depth) => format!("{depth} bytes, measured"),
            None => "not measurable".to_owned(),
        };
        let load = probe.probed.transmit_load;
        format!("receive {receives}; transmit {load} at once, by the model")
    }

    fn rate(&self) -> String {
        let baud = grouped(self.line.baud);
        match (self.probe, self.rate_known) {
            (Some(probe), true) => {
                let clock = grouped(self.line.input_clock);
                let divisor = probe.probed.divisor;
                format!("{divisor}: {baud} baud, of a clock of {clock} Hz")
            }
            (Some(_), false) => format!("0: no rate is set; {baud} baud were, for this"),
            (None, true) => format!("cannot be read without writing; {baud} baud, as given"),
            (None, false) => {
                format!("cannot be read without writing; {baud} baud assumed (--baud)")
            }
        }
    }

    fn frame(&self) -> String {
        let line = &self.line;
        let parity = match line.parity {
            Parity::None => 'N',
            Parity::Odd => 'O',
            Parity::Even => 'E',
            Parity::Mark => 'M',
            Parity::Space => 'S',
        };
        let stop = line.stop_bits as u8 + 1;
        let bits = line.data_bits as u8 + 5;
        let rate = grouped(self.line_rate().round() as u64);
        format!("{bits}{parity}{stop}, {}: {rate} B/s", line.frame_time())
    }

    fn line_rate(&self) -> f64 {
        1e9 / self.line.frame_time().0.max(1) as f64
    }

    fn reached(&self, sending: &Sending) -> String {
        let rate = sending.bytes_per_second();
        let percent = 100.0 * rate / self.line_rate();
        let rate = grouped(rate.round() as u64);
        let of = match percent > 200.0 {
            true => "no line holds it up".to_owned(),
            false => format!("{percent:.1} % of the line"),
        };
        format!("{rate} B/s, {of} ({} bytes)", grouped(sending.bytes))
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: String| writeln!(f, "{name:<12} {value}");
        row("registers", self.shown.to_string())?;
        row("model", self.model())?;
        row("FIFOs", self.fifo())?;
        row("divisor", self.rate())?;
        row("frame", self.frame())?;
        row("LSR read", self.cost.to_string())?;
        if let Some(sent) = &self.sent {
            row("first half", self.reached(&sent.bursts[0]))?;
            row("second half", self.reached(&sent.bursts[1]))?;
        }
        if self.lost() {
            return write!(f, "\nBytes were lost, so their cost means nothing.");
        }
        let held = |bytes| match &self.sent {
            Some(sent) => sent.held(bytes),
            None => self.reckoned(bytes),
        };
        let how = match self.sent {
            Some(_) => "from the text that was sent",
            None => "reckoned from the line's rate and the LSR read",
        };
        let (log, flood) = (held(BOOT_LOG), held(FLOOD));
        writeln!(
            f,
            "\n{:<14} {:>16} {:>16}",
            "a CPU is held", "25 KB boot log", "720 KB flood"
        )?;
        for (i, way) in ["byte by byte", "by bursts", "paced"].iter().enumerate() {
            let [log, flood] = [log[i], flood[i]].map(|ns| format!("{:.2} s", ns / 1e9));
            writeln!(f, "{way:<14} {log:>16} {flood:>16}")?;
        }
        write!(f, "({how})")
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "median {}, 99 % within {}, longest {} (of {}; the system call included)",
            self.median, self.p99, self.max, self.looks
        )
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in [
            ("LCR", Some(self.lcr)),
            (" MCR", Some(self.mcr)),
            (" LSR", Some(self.lsr)),
            (" SCR", Some(self.scr)),
            (" IER", self.ier),
            (" IIR", self.iir),
            (" MSR", self.msr),
        ] {
            if let Some(value) = value {
                write!(f, "{name} {value:#04x}")?;
            }
        }
        Ok(())
    }
}
