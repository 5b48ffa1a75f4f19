//! The rate of a serial line that is a console.
//!
//! Source: Linux 6.1, `uart_parse_options` (`drivers/tty/serial/serial_core.c`),
//! `serial8250_console_setup`, `pl011_console_setup`.

use super::machine::Machine;
use super::system::System;

/// Settings of a line.
#[derive(Clone, Copy)]
pub struct Line {
    /// Bits a second; never 0.
    pub baud: u64,
    /// Bits of a frame, which carries a byte.
    pub frame: u64,
    /// Whether the console waits for the other end's permission to send.
    pub has_flow_control: bool,
    /// Where the settings come from, behind the rate; empty for the command line.
    pub origin: &'static str,
}

impl Line {
    /// Returns the settings of that console; `default` is its driver's rate without options. `None`
    /// if nothing says them.
    pub fn of(
        system: &System,
        machine: &Machine,
        name: &str,
        default: Option<u64>,
    ) -> Option<Self> {
        let named = machine.option("console").filter_map(|value| {
            let (device, options) = value.split_once(',').unwrap_or((value, ""));
            (device == name).then_some(options)
        });
        if let Some(options) = named.last() {
            let line = Self::parse(options, "");
            return line.or_else(|| Self::default_of(default));
        }
        let tree = "sys/firmware/devicetree/base/chosen/stdout-path";
        if let Some(path) = system.read(tree, "the console's rate") {
            return Self::parse(path.split_once(':')?.1, " (device tree)");
        }
        let is_named = machine.option("console").next().is_some();
        let by_firmware = system.exists("sys/firmware/acpi/tables/SPCR");
        match is_named || by_firmware {
            true => None,
            false => Self::default_of(default),
        }
    }

    /// Returns the settings of the last console with a rate on the command line.
    pub fn named(machine: &Machine) -> Option<Self> {
        let options = machine
            .option("console")
            .filter_map(|value| value.split_once(','));
        options
            .filter_map(|(_, options)| Self::parse(options, ""))
            .last()
    }

    fn default_of(baud: Option<u64>) -> Option<Self> {
        Some(Self {
            baud: baud?,
            frame: 10,
            has_flow_control: false,
            origin: " (Linux's default: no option says a rate)",
        })
    }

    /// Reads options such as `115200n8r`.
    fn parse(options: &str, origin: &'static str) -> Option<Self> {
        let end = options.find(|c: char| !c.is_ascii_digit());
        let (baud, rest) = options.split_at(end.unwrap_or(options.len()));
        let mut rest = rest.chars();
        let has_parity = matches!(rest.next(), Some('o' | 'e'));
        let data_bits = rest.next().filter(|c| ('5'..='8').contains(c));
        let data_bits = data_bits.and_then(|c| c.to_digit(10)).unwrap_or(8);
        Some(Self {
            baud: baud.parse().ok().filter(|&baud| baud != 0)?,
            frame: 2 + u64::from(data_bits) + u64::from(has_parity),
            has_flow_control: rest.next() == Some('r'),
            origin,
        })
    }

    /// Returns the nanoseconds that these bytes take on the line.
    pub fn nanoseconds(&self, bytes: u64) -> u64 {
        let bits = u128::from(bytes) * u128::from(self.frame);
        let time = bits * 1_000_000_000 / u128::from(self.baud);
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Returns the bytes that the line sends in that time.
    pub const fn bytes_in(&self, seconds: u64) -> u64 {
        self.baud.saturating_mul(seconds) / self.frame
    }
}
