//! A run of Linux with a connected serial line.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use kvm_ioctls::{Cap, VcpuFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::acpi::{Configuration, Description, SerialLocation, TimerPin};
use super::board::LinuxBoard;
use super::boot::{self, Image};
use super::cpu;
use super::escape::{Escape, Typed};
use super::signals::Signals;
use crate::Error;
use crate::exits::Exits;
use crate::guest::{LOOK, Limits};
use crate::kvm::pc::{
    BASE, BUSES, ECAM, End, Kvm, KvmBus, KvmMachine, RunningMachine, UartMode, devices, identify,
    stuck,
};

/// Limit for typed bytes that wait for the guest: a terminal's buffer size.
const MOST_TYPED: usize = 4096;

/// Number of output bytes above which the guest waits for `LinuxConsole::output`.
const MOST_UNTAKEN: u64 = 1 << 20;

/// A Linux system to boot.
#[derive(Clone, Copy, Debug)]
pub struct Linux<'a> {
    /// Kernel: a 64-bit bzImage (Linux 3.8 or newer), or a vmlinux with a PVH entry
    /// (`CONFIG_PVH`).
    pub kernel: &'a [u8],
    /// Initial RAM disk; empty for none.
    pub initrd: &'a [u8],
    /// Kernel command line.
    pub command_line: &'a str,
    /// Size of RAM in bytes.
    pub memory: u64,
    /// Access to PCI configuration space.
    pub pci: PciAccess,
}

/// Linux's access method for PCI configuration space. [`Options`](crate::kvm::Options) determines
/// its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciAccess {
    /// Ports only.
    Ports,
    /// ECAM only. If ports exist, Linux uses them for registers below 256, and the devices have no
    /// others in use.
    Ecam,
}

/// The other end of the guest's serial line, and conditions that end a run.
pub struct LinuxConsole<'a> {
    /// Destination of the guest's output. New bytes are written and flushed about every 2 ms.
    pub output: &'a mut dyn std::io::Write,
    /// Source of the guest's input, if any.
    pub input: Option<BorrowedFd<'a>>,
    /// Ends the run if Ctrl-A and x are read from the input.
    pub escape: bool,
    /// Time limit of the run. It is not checked while a write to `output` blocks.
    pub limit: Option<Duration>,
    /// Signals that end the run.
    pub signals: Option<&'a Signals>,
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Linux turned the machine off.
    Off,
    /// Linux reset the machine, or crashed with a triple fault.
    Reset,
    /// A guest wrote to port 0xf4. The status is twice the written value, plus one.
    Status(i32),
    /// The user typed Ctrl-A and x.
    Left,
    /// A signal was received.
    Signal,
    /// The time limit was reached.
    TooLong,
}

/// Result of a run that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Reason for the end.
    pub ended: Ended,
    /// Time from the machine's start to its end.
    pub took: Duration,
    /// Time from the machine's start to the first byte on the serial line.
    pub first_byte: Option<Duration>,
    /// Number of bytes on the serial line.
    pub bytes: u64,
    /// VM exits, and accesses without exits.
    pub exits: Exits,
}

impl Kvm {
    /// Boots Linux and runs it until it ends or must be ended.
    ///
    /// # Errors
    ///
    /// [`Error`] if the machine could not run. It no longer exists then.
    pub fn linux(
        &self,
        linux: &Linux<'_>,
        mut console: LinuxConsole<'_>,
    ) -> Result<Finished, Error> {
        let machine = machine(self, linux)?;
        let start = Instant::now();
        let mut line = Line::new(&mut console, start);
        let mut running = RunningMachine::start(machine)?;
        let ended = loop {
            // The order matters: output from before the end is then delivered.
            let ended = running.ended();
            // The time limit also holds when the bus is never free.
            if let Some(mut bus) = running.bus() {
                bus.tend()?;
                line.give(&mut bus)?;
                let sent = bus.serial.sent().take();
                drop(bus);
                line.put(&sent)?;
            }
            if let Some(end) = ended {
                break end?.into();
            }
            if let Some(end) = line.wait(LOOK)? {
                break end;
            }
        };
        let took = start.elapsed();
        running.cpu.stop();
        let mut bus = running.bus().ok_or_else(stuck)?;
        bus.tend()?;
        let rest = bus.serial.sent().take();
        let exits = bus.exit_log().total;
        drop(bus);
        line.put(&rest)?;
        Ok(Finished {
            ended,
            took,
            first_byte: line.first_byte,
            bytes: line.bytes,
            exits,
        })
    }
}

fn machine(kvm: &Kvm, linux: &Linux<'_>) -> Result<KvmMachine, Error> {
    if !kvm.capabilities().interrupts {
        let none = "this KVM has no interrupt controllers and timer, and Linux needs them";
        return Err(Error::Unbootable(none.to_owned()));
    }
    let description = description(kvm.options().uart, linux);
    let memory = boot::memory(linux.memory)?;
    let image = Image {
        kernel: linux.kernel,
        initrd: linux.initrd,
        command_line: linux.command_line,
        memory: linux.memory,
    };
    let entry = boot::load(&memory, &image, &description)?;
    let mut topology = devices()?;
    // A driver would wait forever for the network card.
    topology.bridge.remove(topology.virtio_net);
    let set_up = |vcpu: &VcpuFd, tsc_khz| {
        let deadline = kvm.system.check_extension(Cap::TscDeadlineTimer);
        identify(&kvm.system, vcpu, tsc_khz, |leaves| {
            cpu::be_alone(leaves, deadline);
        })?;
        cpu::set_up(vcpu, entry)
    };
    let limits = Limits {
        serial_bytes: MOST_UNTAKEN,
        ..Limits::of(0, 0)
    };
    let board = LinuxBoard::new(kvm.options().uart, description.configuration);
    let equip = |bus: KvmBus| bus.with(board);
    KvmMachine::new(kvm, (memory, topology.bridge), &limits, set_up, equip)
}

fn description(uart: UartMode, linux: &Linux<'_>) -> Description {
    Description {
        serial: match uart {
            UartMode::Ports | UartMode::PortsCoalesced => SerialLocation::Ports,
            UartMode::MmioReadonly => SerialLocation::Memory(BASE as u32),
        },
        configuration: match linux.pci {
            PciAccess::Ports => Configuration::Ports,
            PciAccess::Ecam => Configuration::Ecam(ECAM as u32),
        },
        last_bus: *BUSES.end(),
        timer: TimerPin::Zero,
    }
}

impl From<End> for Ended {
    fn from(end: End) -> Self {
        match end {
            End::Off => Self::Off,
            End::Reset => Self::Reset,
            End::Status(status) => Self::Status(status),
            // Only this process stops the guest, and it then knows the reason.
            End::Stopped => Self::Signal,
        }
    }
}

/// The other end of the serial line.
struct Line<'a, 'b> {
    console: &'a mut LinuxConsole<'b>,
    start: Instant,
    escape: Escape,
    /// Typed bytes that the guest has not read yet.
    typed: VecDeque<u8>,
    left: bool,
    first_byte: Option<Duration>,
    bytes: u64,
}

impl<'a, 'b> Line<'a, 'b> {
    fn new(console: &'a mut LinuxConsole<'b>, start: Instant) -> Self {
        Self {
            console,
            start,
            escape: Escape::default(),
            typed: VecDeque::new(),
            left: false,
            first_byte: None,
            bytes: 0,
        }
    }

    /// Writes the guest's output.
    fn put(&mut self, sent: &[u8]) -> io::Result<()> {
        if sent.is_empty() {
            return Ok(());
        }
        self.first_byte.get_or_insert(self.start.elapsed());
        self.bytes += sent.len() as u64;
        let mut rest = sent;
        while !rest.is_empty() {
            match self.console.output.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                // A signal ends the run even if the reader of the output is slow.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if self.signal_came() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.console.output.flush()
    }

    fn signal_came(&self) -> bool {
        self.console.signals.is_some_and(Signals::came)
    }

    /// Delivers as many typed bytes to the guest as it has room for.
    fn give(&mut self, bus: &mut KvmBus) -> Result<(), Error> {
        if !self.typed.is_empty() {
            let taken = bus.receive(self.typed.make_contiguous())?;
            self.typed.drain(..taken);
        }
        Ok(())
    }

    /// Waits for input for at most `span`. Returns a reason if the run must end.
    fn wait(&mut self, span: Duration) -> Result<Option<Ended>, Error> {
        // While the guest reads nothing, a file is not read further. With the escape enabled, input
        // is still read, to detect it.
        let reads = self.console.escape || self.typed.is_empty();
        match self.console.input.filter(|_| reads) {
            Some(input) => self.read_within(input, span)?,
            None => sleep(span),
        }
        let limit = self.console.limit;
        let over = limit.is_some_and(|limit| self.start.elapsed() >= limit);
        Ok(match () {
            () if self.left => Some(Ended::Left),
            () if self.signal_came() => Some(Ended::Signal),
            () if over => Some(Ended::TooLong),
            () => None,
        })
    }

    fn read_within(&mut self, input: BorrowedFd<'_>, span: Duration) -> io::Result<()> {
        let mut ready = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        let span = Timespec {
            tv_sec: 0,
            tv_nsec: span.subsec_nanos().into(),
        };
        match poll(&mut ready, Some(&span)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 256];
        match rustix::io::read(input, &mut bytes) {
            // The input has ended, or the terminal was closed.
            Ok(0) | Err(rustix::io::Errno::IO) => self.console.input = None,
            Ok(count) => self.take(&bytes[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        if !self.console.escape {
            self.typed.extend(bytes);
            return;
        }
        match self.escape.typed(bytes) {
            Typed::Bytes(bytes) => {
                let room = MOST_TYPED.saturating_sub(self.typed.len());
                self.typed.extend(bytes.into_iter().take(room));
            }
            Typed::Leave => self.left = true,
        }
    }
}
