//! One run of Linux, its serial line connected.

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

/// Bytes typed that wait for the guest: as many as a terminal keeps.
const MOST_TYPED: usize = 4096;

/// Bytes that the guest can send before it waits until `LinuxConsole::output` takes them.
const MOST_UNTAKEN: u64 = 1 << 20;

/// What is to be booted.
#[derive(Clone, Copy, Debug)]
pub struct Linux<'a> {
    /// A bzImage of 64 bits (Linux 3.8 or newer), or a vmlinux with a PVH entry
    /// (`CONFIG_PVH`).
    pub kernel: &'a [u8],
    /// The initial RAM disk; empty for none.
    pub initrd: &'a [u8],
    /// The kernel's command line.
    pub command_line: &'a str,
    /// Bytes of RAM.
    pub memory: u64,
    /// Where it finds PCI configuration space.
    pub pci: PciAccess,
}

/// Where Linux is to find PCI configuration space. How much that costs is
/// [`Options`](crate::kvm::Options)' business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciAccess {
    /// By ports alone.
    Ports,
    /// By ECAM alone: where there are ports, Linux uses them for the registers below
    /// 256, which are all that matter.
    Ecam,
}

/// The other end of the guest's serial line, and when it is to end.
pub struct LinuxConsole<'a> {
    /// Where goes what it sends, as soon as it does.
    pub output: &'a mut dyn std::io::Write,
    /// Where it reads from, if from anywhere.
    pub input: Option<BorrowedFd<'a>>,
    /// Whether Ctrl-A and x in the input ends the run.
    pub escape: bool,
    /// Bound on the run. It is not checked while `output` takes nothing.
    pub limit: Option<Duration>,
    /// Signals that end the run.
    pub signals: Option<&'a Signals>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Linux turned the machine off.
    Off,
    /// Linux reset it, or died by a triple fault.
    Reset,
    /// A guest wrote this to port 0xf4, times two and one more.
    Status(i32),
    /// Ctrl-A and x were typed.
    Left,
    /// A signal came.
    Signal,
    /// The time was over.
    TooLong,
}

/// A run that came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub ended: Ended,
    /// From the machine's start to its end.
    pub took: Duration,
    /// From the machine's start to the first byte over the serial line.
    pub first_byte: Option<Duration>,
    /// Bytes over the serial line.
    pub bytes: u64,
    /// VM exits, and what needed none.
    pub exits: Exits,
}

impl Kvm {
    /// Boots Linux, and runs it until it ends, or has to.
    ///
    /// # Errors
    ///
    /// [`Error`]: the reason that kept it from running. The machine is gone by then.
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
            // In this order: what was sent before the end is seen.
            let ended = running.ended();
            // Without a turn at it the time limit holds all the same.
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
    // A driver would wait for the card's answers.
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
            // Nobody stops it but us, and then we know why.
            End::Stopped => Self::Signal,
        }
    }
}

/// The line's other end.
struct Line<'a, 'b> {
    console: &'a mut LinuxConsole<'b>,
    start: Instant,
    escape: Escape,
    /// What has been typed and not been taken.
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

    /// What the guest has sent goes out.
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
                // Who ends the run need not wait until somebody reads.
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

    /// The guest gets what was typed, as far as it takes it.
    fn give(&mut self, bus: &mut KvmBus) -> Result<(), Error> {
        if !self.typed.is_empty() {
            let taken = bus.receive(self.typed.make_contiguous())?;
            self.typed.drain(..taken);
        }
        Ok(())
    }

    /// Waits for input, but no longer than `span`. Tells if the run has to end.
    fn wait(&mut self, span: Duration) -> Result<Option<Ended>, Error> {
        // A file waits where it is while the guest takes none; of what is typed
        // meanwhile, only the wish to leave counts.
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
            // Its end, or a terminal that is gone: there will be no more.
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
