//! `nostall uart probe`: model of a port, and its cost.

use std::io::ErrorKind;

use anyhow::{Result, anyhow, bail, ensure};
use nostall_io::{DevPort, HostClock};
use nostall_uart::LineSettings;

use super::measure::{self, Care};
use super::tty::{Linux, number};

/// The PC's first serial port.
const COM1: u16 = 0x3f8;

/// Registers of a 16550.
const REGISTERS: u16 = 8;

/// Identify a serial port of this machine, and measure the cost of its use
///
/// Reads only, unless --send is given: writes no register, does not open the tty (which would write
/// to its port), and takes no received byte. The result shows whether the FIFOs are enabled, and
/// the cost of reading the line status. The model, the divisor and the real rate of the line need
/// --send.
///
/// If Linux uses the port, only registers whose reads take no interrupt are read, and --send is
/// refused. Needs root (CAP_SYS_RAWIO) and /dev/port.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the port; the default is 0x3f8
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "tty")]
    port: Option<u16>,

    /// Port of this Linux tty, such as /dev/ttyS0
    #[arg(long, value_name = "NAME")]
    tty: Option<String>,

    /// Probe by writing, and send about 1.5 s of text at the rate that is set
    ///
    /// Afterwards the port has its old settings and empty FIFOs. The other end of the line receives
    /// the text.
    #[arg(long)]
    send: bool,

    /// Rate of the line, which is unknown without --send; the default is that of Linux's console
    #[arg(long, value_name = "RATE", conflicts_with = "send",
          value_parser = clap::value_parser!(u32).range(50..=4_000_000))]
    baud: Option<u32>,
}

fn address(text: &str) -> Result<u16, String> {
    let last = u16::MAX - (REGISTERS - 1);
    number(text)
        .ok()
        .and_then(|port| u16::try_from(port).ok())
        .filter(|&port| port <= last)
        .ok_or_else(|| format!("not an I/O port from 0 to {last:#x}"))
}

/// Runs the command with these arguments.
///
/// # Errors
///
/// Any failure to measure the port, as one line for the user.
pub fn run(args: &Args) -> Result<()> {
    let linux = Linux::here();
    let port = args.port.unwrap_or(COM1);
    let tty = match &args.tty {
        Some(name) => Some(linux.tty(name)?),
        None => linux.tty_at(port),
    };
    let port = tty.as_ref().map_or(port, |tty| tty.port);
    let user = tty.as_ref().and_then(|tty| linux.user(tty));
    if args.send
        && let Some(user) = &user
    {
        bail!(
            "port {port:#x} is used by {user}, which --send would disturb: stop that first, \
             or leave out --send"
        );
    }
    let registers = open(port)?;
    let clock_rate = tty.as_ref().and_then(|tty| tty.clock);
    let clock_rate = clock_rate.unwrap_or(LineSettings::PC_CLOCK);
    let clock = HostClock::new();

    let findings = if args.send {
        measure::by_sending(&registers, &clock, clock_rate)
    } else {
        let care = user.as_ref().map_or(Care::Free, |_| Care::Used);
        let rate = args.baud.or_else(|| linux.console_rate(tty.as_ref()?));
        measure::by_reading(&registers, &clock, care, rate)
    };
    let findings = findings.map_err(|error| anyhow!("port {port:#x}: {error}"))?;
    let name = tty.map_or_else(String::new, |tty| format!(", {}", tty.name));
    println!("uart at {port:#x}{name}, through /dev/port");
    println!();
    println!("{findings}");
    if let Some(user) = user {
        println!();
        println!(
            "Used by {user}. Reading IIR and MSR could take interrupts from it: they were left"
        );
        println!("alone. It may have missed a receive error that the LSR showed meanwhile.");
    }
    ensure!(!findings.lost(), "the port did not take every byte in time");
    Ok(())
}

fn open(port: u16) -> Result<DevPort> {
    DevPort::open(port, REGISTERS).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => anyhow!(
            "/dev/port: {error}: run it as root (it takes CAP_SYS_RAWIO, and a kernel that is \
             not locked down)"
        ),
        ErrorKind::NotFound => anyhow!(
            "there is no /dev/port: this kernel has none (CONFIG_DEVPORT), or this is a \
             container; run it on the host itself"
        ),
        _ => anyhow!("/dev/port: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_decimal_or_hexadecimal_and_has_room_for_eight_registers() {
        assert_eq!(address("0x3f8"), Ok(0x3f8));
        assert_eq!(address("1016"), Ok(0x3f8));
        assert_eq!(address("0xfff8"), Ok(0xfff8));
        for wrong in ["0xfff9", "3f8", "-1", "", "0x", "99999999999999999999"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
