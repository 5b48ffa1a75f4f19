//! PCI configuration space: its access methods, and the jobs that use them.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::slice;

use heapless::Vec;
use nostall_io::{Counting, Counts};
use nostall_pci::mcfg::Segment;
use nostall_pci::{Choice, ConfigPorts, Ecam, Known, Policy, REGISTERS, Selector};
use nostall_work::pci::{Counted, Job, JobResult, Method, RAM_AT, Room, Space};
use nostall_work::text;
use spin::mutex::SpinMutex;

use crate::arch::pci::{self as machine, EcamWindow, PortWindow};
use crate::arch::{Cpu, MachineClock};
use crate::report;

/// Maximum number of used ECAM windows. Further windows of the machine are ignored.
const MOST: usize = 16;

/// Access through I/O ports, under their lock.
type ByPorts<'a> = ConfigPorts<SpinMutex<()>, &'a Counting<PortWindow>, Cpu>;

/// Access through one ECAM window.
type EcamAccess<'a> = Ecam<&'a Counting<EcamWindow>>;

/// The machine's register windows, with counters.
pub struct Windows {
    ports: Option<Counting<PortWindow>>,
    ecam: Vec<(Segment, Counting<EcamWindow>), MOST>,
    ram: Counting<EcamWindow>,
}

impl Windows {
    /// Finds the windows. Must be called once, because all calls share one page for a function in
    /// memory.
    pub fn find() -> Self {
        let mut ecam = Vec::new();
        machine::each_window(|segment, window| {
            if let Ok(window) = window {
                let _ = ecam.push((segment, Counting::new(window))); // without room, ignored
            }
        });
        Self {
            ports: machine::ports().map(Counting::new),
            ecam,
            ram: Counting::new(ram()),
        }
    }

    /// Returns an access method for each window.
    pub fn methods(&self) -> Methods<'_> {
        let ecam = self.ecam.iter();
        Methods {
            windows: self,
            ports: self
                .ports
                .as_ref()
                .map(|ports| ConfigPorts::new(ports, Cpu)),
            ecam: ecam
                .map(|(segment, window)| Ecam::new(window, segment.number, segment.buses.clone()))
                .collect(),
            ram: Ecam::new(&self.ram, RAM_AT.segment(), RAM_AT.bus()..=RAM_AT.bus()),
            segments: self.segments(),
        }
    }

    /// Returns segment 0, and the other segments that have an ECAM window.
    fn segments(&self) -> Vec<u32, { MOST + 1 }> {
        let mut segments = Vec::new();
        let others = self.ecam.iter().map(|(segment, _)| segment.number);
        for number in [0].into_iter().chain(others) {
            if !segments.contains(&number) {
                let _ = segments.push(number); // there is room for all
            }
        }
        segments
    }
}

impl Counted for Windows {
    fn counts(&self) -> Counts {
        let ports = self.ports.iter().map(Counting::counts);
        let ecam = self.ecam.iter().map(|(_, window)| window.counts());
        let all = ports.chain(ecam).chain([self.ram.counts()]);
        all.fold(Counts::default(), |sum, one| Counts {
            reads: sum.reads + one.reads,
            writes: sum.writes + one.writes,
            ..sum
        })
    }
}

/// The access methods of a machine.
pub struct Methods<'a> {
    windows: &'a Windows,
    ports: Option<ByPorts<'a>>,
    ecam: Vec<EcamAccess<'a>, MOST>,
    /// Used as a slice of one element, so that it runs the same code as ECAM.
    ram: EcamAccess<'a>,
    /// Segments that may contain functions.
    segments: Vec<u32, { MOST + 1 }>,
}

impl<'w> Methods<'w> {
    /// Chooses one of the access methods.
    ///
    /// Panics if there is none, or if it finds no function.
    pub fn choose<'a>(&'a self, clock: &'a MachineClock) -> ConfigurationSpace<'a, 'w> {
        let ports = self.ports.as_ref();
        let ecam = (!self.ecam.is_empty()).then_some(&self.ecam[..]);
        let policy = Policy::of(machine::environment(), Known::TABLE);
        let (auto, choice) = Selector::choose(ports, ecam, policy);
        let space = Space::new(
            auto,
            slice::from_ref(&self.ram),
            &self.segments,
            clock,
            self.windows,
        );
        let Some(space) = space else {
            panic!("no PCI device: {choice}");
        };
        ConfigurationSpace {
            space,
            policy,
            choice,
        }
    }
}

/// The configuration space of a machine, with the chosen access method.
pub struct ConfigurationSpace<'a, 'w> {
    space: Space<'a, &'a ByPorts<'w>, &'a [EcamAccess<'w>], &'a [EcamAccess<'w>], &'a MachineClock>,
    policy: Policy,
    choice: Choice,
}

impl ConfigurationSpace<'_, '_> {
    /// Runs one job of the list, number `item`.
    pub fn run(&self, job: Job, item: u16) {
        let mut tell = |result| report::tell(item, result);
        match job {
            Job::Enumerate => {
                self.describe(&mut tell);
                self.space.enumerate(&mut tell);
            }
            Job::Assign(room) => self.assign(room, &mut tell),
            Job::VirtioDrivers => self.space.virtio_drivers(&mut tell),
            Job::Measure(operation, method) => {
                tell(JobResult::Measured(self.space.measure(operation, method)));
            }
        }
    }

    fn assign(&self, room: Option<Room>, tell: &mut impl FnMut(JobResult)) {
        let ranges = match room {
            Some(room) => Some(self.space.ranges(room)),
            None => machine::ranges(),
        };
        match ranges {
            Some(ranges) => self.space.assign(&ranges, tell),
            None => {
                panic!("pci:assign: the firmware does not describe the address ranges to assign")
            }
        }
    }

    fn describe(&self, tell: &mut impl FnMut(JobResult)) {
        let environment = machine::environment();
        tell(JobResult::Machine {
            environment: text(format_args!("{environment}")),
            ecam_first: self.policy == Policy::EcamFirst,
            chosen: Method::chosen(self.choice),
            why: text(format_args!("{}", self.choice)),
        });
        let none = machine::each_window(|segment, window| {
            tell(JobResult::Window {
                segment: segment.number,
                buses: (*segment.buses.start(), *segment.buses.end()),
                start: segment.start,
                doubt: window.err(),
            });
        });
        if let Some(why) = none {
            tell(JobResult::NoWindows(why));
        }
    }
}

/// Returns a page of memory as a function's registers.
fn ram() -> EcamWindow {
    #[repr(align(4096))]
    struct Page(UnsafeCell<[u8; REGISTERS as usize]>);
    // SAFETY: used only through the window.
    unsafe impl Sync for Page {}
    static PAGE: Page = Page(UnsafeCell::new([0; REGISTERS as usize]));

    let base = NonNull::from(&PAGE.0).cast();
    // SAFETY: plain memory without another user.
    unsafe { machine::window(base, REGISTERS.into()) }
}
