//! A console on a serial port: a 16550's line, a PL011's, or their emulation.
//!
//! Source: Linux 6.1, 6.12: `serial8250_console_write` and `uart_config`
//! (`drivers/tty/serial/8250/8250_port.c`), `pl011_console_write`
//! (`drivers/tty/serial/amba-pl011.c`), `force_legacy_kthread` (`kernel/printk/internal.h`, 6.12),
//! `console_verbose` in `panic`, `is_softlockup` (`kernel/watchdog.c`).

use nostall_figures::numbers::grouped;
use nostall_figures::table::time;

use super::line::Line;
use super::machine::Machine;
use super::printed::Printed;
use super::report::{Finding, Verdict};
use super::system::System;

/// Bytes of the panic that is calculated: 200 lines of 70 on the port. Debian's 6.1 boots in QEMU
/// with 319 lines of 22,038 bytes.
const PANIC: u64 = 200 * 70;

/// Names of the first types of ports, by their numbers (`include/uapi/linux/serial_core.h`).
const CHIPS: &str = "unknown 8250 16450 16550 16550A Cirrus ST16650 ST16650V2 TI16750";

/// How the console's text reaches the transmitter.
#[derive(Debug, PartialEq, Eq)]
enum Fifo {
    Used,
    /// Byte by byte, for that reason.
    No(&'static str),
    Unknown(&'static str),
}

/// Reasons that can be mended.
const UNOPENED: &str = "no program has opened the port yet";
const OLD: &str = "Linux does that since 5.19";

/// A serial console.
pub struct Port<'a> {
    system: &'a System,
    machine: &'a Machine,
    name: &'a str,
    is_8250: bool,
    /// Whether the console is an nbcon one.
    has_own_thread: bool,
    line: Option<Line>,
    fifo: Fifo,
}

impl<'a> Port<'a> {
    pub fn new(
        system: &'a System,
        machine: &'a Machine,
        name: &'a str,
        has_own_thread: bool,
    ) -> Self {
        let is_8250 = name.starts_with("ttyS");
        let mut port = Self {
            system,
            machine,
            name,
            is_8250,
            has_own_thread,
            line: Line::of(system, machine, name, is_8250.then_some(9600)),
            fifo: Fifo::No("the driver reads the port's flags before each byte"),
        };
        if is_8250 {
            port.fifo = match has_own_thread {
                true => Fifo::Unknown("nostall knows that of drivers without a thread"),
                false => port.fifo(),
            };
        }
        port
    }

    fn file(&self, attribute: &str) -> String {
        format!("sys/class/tty/{}/{attribute}", self.name)
    }

    fn number(&self, attribute: &str, answer: &'static str) -> Option<u64> {
        self.system.number(&self.file(attribute), answer)
    }

    /// Returns the finding of the console.
    pub fn examine(&self, printed: &Printed) -> Finding {
        let thread = match self.has_own_thread {
            true => Some("The console's own thread prints (nbcon)"),
            false if self.machine.realtime && self.machine.since(6, 12) == Some(true) => {
                Some("The thread pr/legacy prints (PREEMPT_RT)")
            }
            false => None,
        };
        let is_guest = self.machine.is_guest == Some(true);
        let verdict = match (thread, is_guest, self.line) {
            (Some(_), ..) => Verdict::Fine,
            (None, true, _) => Verdict::Costs,
            (None, false, Some(_)) => Verdict::Stalls,
            (None, false, None) => Verdict::Unknown,
        };
        let mut finding = Finding::new(format!("console {}", self.name), verdict, self.title());
        let add = &mut finding;
        add.reason += &match thread {
            Some(thread) => format!(" {thread}: printk's caller does not wait, but a panic does."),
            None => " printk's caller pays for each byte.".to_owned(),
        };
        match (is_guest, self.line) {
            (true, _) => self.exits(add),
            (false, Some(line)) => self.times(add, line, thread.is_none()),
            (false, None) => {}
        }
        add.reason += &match &self.fifo {
            Fifo::Used => String::new(),
            Fifo::No(reason) => format!(" The FIFO is not used: {reason}."),
            Fifo::Unknown(reason) => format!(" Whether the FIFO is used is not known: {reason}."),
        };
        add.reason += &format!(" {}", printed.sentence());
        if let Some(bytes) = self.sent() {
            add.figures.insert("sent_by_programs", bytes);
            add.reason += &format!(
                " Since boot, programs sent {} bytes; Linux does not count the console's own.",
                grouped(bytes)
            );
        }
        if thread.is_none() {
            self.mend(&mut finding, is_guest, printed);
        }
        finding
    }

    /// Returns the first sentence: line, chip, kernel.
    fn title(&self) -> String {
        let rate = match self.line {
            Some(Line { baud, origin, .. }) => format!("{} baud{origin}", grouped(baud)),
            None => "Rate not known".to_owned(),
        };
        let kind = self.number("type", "the port's type");
        let name = kind.and_then(|kind| CHIPS.split(' ').nth(usize::try_from(kind).ok()?));
        let chip = match (self.is_8250, name, kind) {
            (false, ..) => "PL011".to_owned(),
            (true, Some(name), _) => name.to_owned(),
            (true, None, Some(kind)) => format!("8250 family, type {kind}"),
            (true, None, None) => "8250 family".to_owned(),
        };
        format!("{rate}, {chip}, {}.", self.machine.linux())
    }

    /// Adds the exits of an emulated port.
    fn exits(&self, finding: &mut Finding) {
        let (thousand, each) = match self.fifo {
            Fifo::Used => (1063, "about 1.06 exits"),
            Fifo::Unknown(_) => (2000, "1.06 to 2 exits"),
            _ => (2000, "2 exits"),
        };
        let panic = PANIC * thousand / 1000;
        let figures = [("exits_per_1000_bytes", thousand), ("panic_exits", panic)];
        finding.figures.extend(figures);
        finding.reason += &format!(
            " An emulated port takes {each} to the host a byte, and no line time unless the host \
             paces it. A panic of 200 lines of 70 bytes takes {} exits.",
            grouped(panic)
        );
    }

    /// Adds the times of a real line.
    fn times(&self, finding: &mut Finding, line: Line, caller_prints: bool) {
        let (byte, panic) = (line.nanoseconds(1), line.nanoseconds(PANIC));
        let figures = [("baud", line.baud), ("byte_ns", byte), ("panic_ns", panic)];
        finding.figures.extend(figures);
        finding.reason += &format!(
            " A byte takes {}; a panic of 200 lines of 70 bytes holds the CPU {}.",
            time(byte as f64),
            time(panic as f64)
        );
        if self.machine.is_guest.is_none() {
            finding.reason += " (In a virtual machine, an emulated port takes exits instead.)";
        }
        let threshold = "proc/sys/kernel/watchdog_thresh";
        let answer = "the soft lock-up watchdog's time";
        let threshold = self.system.number(threshold, answer);
        if let Some(seconds @ 1..=600) = threshold.filter(|_| caller_prints) {
            let bytes = line.bytes_in(2 * seconds);
            finding.figures.insert("watchdog_bytes", bytes);
            finding.reason += &format!(
                " After {} KB without a pause, a CPU that waits for this one reaches the {} s of \
                 the soft lock-up watchdog.",
                grouped(bytes / 1000),
                2 * seconds
            );
        }
    }

    /// Returns the bytes that programs sent. Linux does not count those of the console.
    fn sent(&self) -> Option<u64> {
        let index = self.name.strip_prefix("ttyS")?;
        let answer = "the bytes that programs sent to the port";
        let ports = self.system.read("proc/tty/driver/serial", answer)?;
        let mut rows = ports.lines();
        let row = rows.find_map(|row| row.strip_prefix(index)?.strip_prefix(": "))?;
        let sent = row
            .split_whitespace()
            .find_map(|word| word.strip_prefix("tx:"));
        sent?.parse().ok()
    }

    /// Returns whether console text goes into a 16550's FIFO.
    fn fifo(&self) -> Fifo {
        let depth = self.number("xmit_fifo_size", "the FIFO's depth");
        let tree = self.file("device/of_node/compatible");
        let tree = self.system.read(&tree, "the port's driver");
        let tree = tree.unwrap_or_default();
        let (machine, line) = (self.machine, self.line);
        match (machine.since(5, 19), depth) {
            (Some(false), _) if machine.release.contains(".el") => {
                Fifo::Unknown("Red Hat's kernels have patches that the version does not show")
            }
            (Some(false), _) => Fifo::No(OLD),
            (None, _) => Fifo::Unknown("the kernel's version is not known"),
            (_, None) => Fifo::Unknown("its depth is not known"),
            (_, Some(..=1)) => Fifo::No("the port has none"),
            _ if line.is_some_and(|line| line.has_flow_control) => Fifo::No("flow control is on"),
            _ if tree.contains("bcm2835-aux-uart") => Fifo::No("it is a BCM283x's mini UART"),
            _ => match self.was_opened() {
                Some(true) => Fifo::Used,
                Some(false) => Fifo::No(UNOPENED),
                None => Fifo::Unknown("whether a program has opened the port is not known"),
            },
        }
    }

    /// Returns whether a program has opened the port. Linux requests the interrupt then, in the port's
    /// name, and keeps that of a console after the last close (`tty_port_shutdown`). Ports that share
    /// an interrupt have it in the name of the first.
    fn was_opened(&self) -> Option<bool> {
        let answer = "whether a program has opened the port";
        let irq = self.number("irq", answer)?;
        let table = self.system.read("proc/interrupts", answer)?;
        let row = table.lines().find_map(|row| {
            let (number, rest) = row.trim_start().split_once(':')?;
            (number == irq.to_string()).then_some(rest)
        });
        let words = row.unwrap_or_default().split([' ', ',']);
        let ports: Vec<_> = words.filter(|word| word.starts_with("ttyS")).collect();
        match irq {
            0 => None,
            _ if ports.contains(&self.name) => Some(true),
            _ => ports.is_empty().then_some(false),
        }
    }

    /// Adds the ways to mend a console that its caller pays for.
    fn mend(&self, finding: &mut Finding, is_guest: bool, printed: &Printed) {
        let name = self.name;
        if printed.are_many() {
            let text = "Print only errors and worse: now, and from the kernel's command line on.";
            finding
                .mend(5, text)
                .command("dmesg -n 4")
                .command("quiet (without ignore_loglevel)")
                .but(
                    "dmesg keeps all messages, but a machine that dies takes them with it. A panic \
                     prints all of its own.",
                )
                .source(
                    "measured: 3.16 us a hidden message, 115 us a printed one, on 6.1 (book, \
                     \"Linux beside nostall\", Printing).",
                );
        }
        let clock = self.number("uartclk", "the port's clock");
        let clock = clock.filter(|&clock| clock != 0);
        let can_be_faster = clock.is_none_or(|clock| clock / 16 >= 115_200);
        let slow = self.line.filter(|line| line.baud < 115_200);
        if let Some(line) = slow.filter(|_| !is_guest && can_be_faster) {
            let byte = time(line.nanoseconds(1) as f64);
            let text = format!("115,200 baud, so that a byte takes 86.8 us instead of {byte}.");
            finding
                .mend(line.baud * 100 / 115_200, text)
                .command(format!("console={name},115200n8"))
                .but("the other end of the line, and a login prompt, need the same rate.")
                .source("Linux 6.1, serial8250_console_setup, uart_parse_options.");
        }
        if is_guest {
            let text = "A virtio console, which takes 16 bytes an exit: for QEMU, and for the \
                        kernel.";
            finding
                .mend(7, text)
                .command("-device virtio-serial-pci -device virtconsole,chardev=ID")
                .command("console=hvc0")
                .but("messages before the driver's start, which is a module in Debian.")
                .source("Linux 6.1 and 6.12, hvc_console_print (N_OUTBUF). Not measured here.");
        }
        let (text, source) = match self.is_8250 {
            true => (
                "A kernel whose thread prints: PREEMPT_RT 6.12 or newer, or 7.3 or newer.",
                "Linux 6.12, force_legacy_kthread; measured: 2.36 us a message, not 114 us (book, \
                 \"Linux beside nostall\", Printing). Commit d3539347022a \"serial: 8250: Switch \
                 to nbcon console, take 2\"; seen: flag N in Debian's 7.3.4.",
            ),
            false => (
                "A kernel whose thread prints: PREEMPT_RT 6.12 or newer.",
                "Linux 6.12, force_legacy_kthread. Not measured with a PL011.",
            ),
        };
        let late = "the text comes later, and a panic still waits for the line.";
        finding.mend(10, text).but(late).source(source);
        let text = match self.fifo {
            Fifo::No(UNOPENED) => {
                "A program that opens the port once a boot: Linux then fills the FIFO."
            }
            Fifo::No(OLD) => "Linux 5.19 or newer, and a program that opens the port once a boot.",
            _ => "",
        };
        let (left, loses) = match is_guest {
            true => (53, "1.06 exits a byte are left, of 2."),
            false => (
                75,
                "a quarter is won on a slow bus, and nothing on a fast one.",
            ),
        };
        if !text.is_empty() {
            finding
                .mend(left, text)
                .command(format!("true >/dev/{name}"))
                .but(loses)
                .source(
                    "commit 8f3631f0f6eb \"serial/8250: Use fifo in 8250 console driver\" and its \
                     figures; exits counted here (book, \"A guest's serial console without \
                     exits\").",
                );
        }
        if self.system.exists(&self.file("console")) {
            let text = "Take the console away, at once. Before, plan memory for a panic's text.";
            finding
                .mend(99, text)
                .command(format!("echo N > /sys/class/tty/{name}/console"))
                .command("nostall pstore plan --help")
                .but("the port gets no message any more, not even a panic's.")
                .source("Linux 6.1 and 6.12, console_store (drivers/tty/serial/serial_core.c).");
        }
    }
}
