//! The consoles that /proc/consoles lists.
//!
//! Source: Linux 6.1, 6.12: `fs/proc/consoles.c` (flags), `drivers/tty/hvc/hvc_console.c`,
//! `fs/pstore/platform.c`, `drivers/net/netconsole.c`.

use super::machine::Machine;
use super::printed::Printed;
use super::report::{Finding, Verdict};
use super::serial::Port;
use super::system::System;

/// An enabled console.
struct Console<'a> {
    name: &'a str,
    flags: &'a str,
}

impl<'a> Console<'a> {
    /// Reads a line such as `ttyS0                -W- (EC  p a)    4:64`.
    fn parse(line: &'a str) -> Option<Self> {
        let (name, rest) = line.split_once(char::is_whitespace)?;
        let flags = rest.split_once('(')?.1.split_once(')')?.0;
        let is_enabled = flags.contains('E') && !name.is_empty();
        is_enabled.then_some(Self { name, flags })
    }

    fn is(&self, prefix: &str) -> bool {
        let index = self.name.strip_prefix(prefix);
        index.is_some_and(|index| index.parse::<u32>().is_ok())
    }
}

/// Returns the findings of all consoles.
pub fn examine(system: &System, machine: &Machine) -> Vec<Finding> {
    let Some(list) = system.read("proc/consoles", "which consoles there are") else {
        let reason = "/proc/consoles cannot be read.";
        return vec![Finding::new("console", Verdict::Unknown, reason)];
    };
    let consoles: Vec<_> = list.lines().filter_map(Console::parse).collect();
    if consoles.is_empty() {
        let reason = "No console is enabled: the kernel prints nowhere.";
        return vec![Finding::new("console", Verdict::Absent, reason)];
    }
    let printed = Printed::of(system);
    let backend = system.read("sys/module/pstore/parameters/backend", "pstore's backend");
    let each = consoles.iter().map(|console| {
        if console.flags.contains('B') {
            return boot(console);
        }
        if console.is("ttyS") || console.is("ttyAMA") {
            let has_own_thread = console.flags.contains('N');
            return Port::new(system, machine, console.name, has_own_thread).examine(&printed);
        }
        other(console, machine, backend.as_deref())
    });
    each.collect()
}

/// A boot console that stayed.
fn boot(console: &Console) -> Finding {
    let reason = "A boot console (earlycon) that stayed: it prints every message again, byte by \
                  byte, while its caller waits.";
    let mut finding = Finding::new(path(console), Verdict::Stalls, reason);
    finding
        .mend(5, "Take keep_bootcon from the kernel's command line.")
        .but("messages between the end of the boot console and the start of the real one.")
        .source("Linux 6.12, register_console (kernel/printk/printk.c).");
    finding
}

/// A console that is no serial line.
fn other(console: &Console, machine: &Machine, backend: Option<&str>) -> Finding {
    let index = |c: char| c == '-' || c.is_ascii_digit();
    let prefix = console.name.trim_end_matches(index);
    let (verdict, reason) = match prefix {
        "hvc" if machine.is_guest == Some(true) => (
            Verdict::Costs,
            "The hypervisor's console. printk's caller hands over 16 bytes at a time and waits \
             until the host has them: at most one exit for each 16 bytes.",
        ),
        _ => (Verdict::Unknown, unknown(console, prefix, backend)),
    };
    Finding::new(path(console), verdict, reason)
}

/// Describes a console whose time depends on a driver that is not examined.
fn unknown(console: &Console, prefix: &str, backend: Option<&str>) -> &'static str {
    match prefix {
        _ if console.is("tty") => {
            "The screen's text console. Drawing a line is work of printk's caller; its time on \
             this machine is not known."
        }
        "hvc" => {
            "A console of a hypervisor or of firmware. printk's caller hands over 16 bytes at a \
             time; the time of that is not known."
        }
        "netcon" | "netcon_ext" => {
            "The network console. Its time depends on the network card's driver, and is not known."
        }
        name if backend == Some(name) => {
            "pstore's console: each message is stored for the next boot. In RAM (ramoops) no \
             device is waited for; the time of other backends is not known."
        }
        _ => "A console of a driver that nostall does not know.",
    }
}

/// Returns a console's name in the report.
fn path(console: &Console) -> String {
    format!("console {}", console.name)
}
