//! The PCI jobs on a machine's configuration space.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::hint::black_box;
use core::ops::Range;

use nostall_io::{Clock, Counts};
use nostall_pci::registers::{INTERRUPT_LINE, VENDOR_ID};
use nostall_pci::{
    Address, BarSlot, BridgeWindows, BusFault, ConfigAccess, Decoding, ExtendedCapabilities,
    Function, Ranges, Scan, ScanFault, Selector, VirtioDrivers, assign, bars,
};

use virtio_drivers::transport::pci::bus::PciRoot;

use super::found::{FoundCapability, FoundFunction};
use super::job::{Method, Operation, Room};
use super::job_result::{Capabilities, JobResult, PciMeasured, Tree};
use crate::checksum::Checksum;
use crate::text;

/// Address under which the copy in memory is accessed.
pub const RAM_AT: Address = Address::from_devfn(0, 0, 0);

/// First register that ports cannot reach.
const FIRST_OUT_OF_REACH: u16 = 256;

/// I/O addresses for devices. Lower addresses belong to the board.
const IO: Range<u64> = 0x1000..0x1_0000;

/// Maximum number of assigned BARs: more than these machines have.
const BARS: usize = 256;

/// Maximum number of reported faults of a walk; others are only counted.
const FAULTS: u32 = 32;

/// A machine's configuration space, with every available method.
pub struct Space<'a, P, E, M, C> {
    ports: Option<P>,
    ecam: Option<E>,
    auto: Selector<P, E>,
    /// A function's registers in plain memory, at [`RAM_AT`].
    ram: M,
    /// Function that the measurements read and write.
    at: Address,
    /// Interrupt line before the measurements.
    line: u8,
    segments: &'a [u32],
    clock: C,
    counts: &'a dyn Counted,
}

/// Register windows that count their accesses.
pub trait Counted {
    /// Returns all accesses so far.
    fn counts(&self) -> Counts;
}

impl<'a, P, E, M, C> Space<'a, P, E, M, C>
where
    P: ConfigAccess + Clone,
    E: ConfigAccess + Clone,
    M: ConfigAccess,
    C: Clock,
{
    /// Creates the space from the selector `auto`, its methods and `ram`, which holds one
    /// function's registers at [`RAM_AT`]. Walks visit `segments`. `counts` counts the accesses of
    /// all methods.
    ///
    /// Reads and writes use the first function of segment 0, which is copied to `ram`. Returns
    /// `None` if there is no function.
    pub fn new(
        auto: Selector<P, E>,
        ram: M,
        segments: &'a [u32],
        clock: C,
        counts: &'a dyn Counted,
    ) -> Option<Self> {
        let first = Scan::new(&auto, 0, 0..=255).find_map(Result::ok)?;
        let at = first.address;
        for register in (0..FIRST_OUT_OF_REACH).step_by(4) {
            let value = auto.at(at).read32(register).unwrap_or(!0);
            let _ = ram.at(RAM_AT).write32(register, value); // reads all ones then
        }
        let (ports, ecam) = auto.methods();
        Some(Self {
            ports: ports.cloned(),
            ecam: ecam.cloned(),
            auto,
            ram,
            at,
            line: first.interrupt.line,
            segments,
            clock,
            counts,
        })
    }

    /// Measures `operation` with `method`; `None` if the method is not available.
    pub fn measure(&self, operation: Operation, method: Method) -> Option<PciMeasured> {
        let (at, from) = (self.at, RAM_AT);
        Some(match method {
            Method::Ports => self.timed(operation, self.ports.as_ref()?, at),
            Method::Ecam => self.timed(operation, self.ecam.as_ref()?, at),
            Method::Ram => self.timed(operation, &self.ram, from),
            Method::Auto => self.timed(operation, &self.auto, at),
        })
    }

    /// Measures `operation` with one access method.
    ///
    /// Not inlined: the constant addresses of one method must not shorten its code.
    #[inline(never)]
    fn timed<A: ConfigAccess>(&self, operation: Operation, access: &A, at: Address) -> PciMeasured {
        let before = self.counts.counts();
        let start = self.clock.now();
        let done = match operation {
            Operation::Read(n) => read(access, at, n),
            Operation::Write(n) => write(access, at, n, self.line),
            Operation::Scan => self.scan(access),
            Operation::Init => self.init(access),
        };
        PciMeasured {
            ns: (self.clock.now() - start).0,
            bus_accesses: (self.counts.counts() - before).bus_accesses(),
            ..done
        }
    }

    fn scan<A: ConfigAccess>(&self, access: &A) -> PciMeasured {
        self.walk(access, |_| 0)
    }

    fn init<A: ConfigAccess>(&self, access: &A) -> PciMeasured {
        self.walk(access, |function| {
            let sized = bars(access, function).map_or(1, |bars| {
                bars.iter().filter(|bar| black_box(bar).is_err()).count()
            });
            let list = nostall_pci::Capabilities::new(access, function);
            sized + list.filter(|one| black_box(one).is_err()).count()
        })
    }

    /// Walks all segments that `access` reaches. `look` returns the number of faults of a function.
    fn walk<A: ConfigAccess>(&self, access: &A, look: impl Fn(&Function) -> usize) -> PciMeasured {
        let mut sum = PciMeasured {
            operations: 1,
            ..PciMeasured::default()
        };
        for segment in self.reached(access) {
            sum.buses += 1;
            for found in Scan::new(access, segment, 0..=255) {
                match found {
                    Ok(function) => {
                        sum.value += 1;
                        sum.buses += u32::from(function.buses().is_some());
                        sum.faults += look(&function) as u32;
                    }
                    Err(fault) => {
                        sum.faults += 1;
                        sum.buses = sum.buses.saturating_sub(is_unentered(&fault).into());
                    }
                }
            }
        }
        sum
    }

    fn reached<A: ConfigAccess>(&self, access: &A) -> impl Iterator<Item = u32> {
        let root = |segment| Address::from_devfn(segment, 0, 0);
        let segments = self.segments.iter().copied();
        segments.filter(move |segment| access.reaches(root(*segment), 0))
    }

    /// Returns the address ranges to assign in segment 0.
    pub fn ranges(&self, room: Room) -> Ranges {
        let (memory, prefetchable) = (room.memory, room.prefetchable);
        Ranges {
            buses: 0..=self.last_bus(),
            io: IO,
            memory: memory.0..memory.1,
            prefetchable: prefetchable.0..prefetchable.1,
        }
    }

    /// Assigns bus numbers, windows and BARs in segment 0. It replaces earlier values, and enables
    /// the functions that have addresses.
    ///
    /// Not inlined: it needs about 13 KiB of stack, which the other jobs do not.
    #[inline(never)]
    pub fn assign(&self, ranges: &Ranges, tell: &mut impl FnMut(JobResult)) {
        let method = Method::Auto;
        let mut fault = |what: fmt::Arguments<'_>| {
            let what = text(what);
            tell(JobResult::Fault { method, what });
        };
        let mut slots = [BarSlot::EMPTY; BARS];
        let assigned = assign(&self.auto, 0, ranges, Decoding::On, &mut slots, |why| {
            fault(format_args!("{why}"));
        });
        match assigned {
            Ok(assigned) => tell(JobResult::Assigned {
                last_bus: assigned.last_bus,
                placed: assigned.placed,
                left: assigned.left,
            }),
            Err(bad) => fault(format_args!("{bad}")),
        }
    }

    /// Returns the last bus of segment 0 that ECAM reaches; without ECAM the last bus of all.
    fn last_bus(&self) -> u8 {
        let reached = |bus: &u8| {
            let address = Address::from_devfn(0, *bus, 0);
            self.ecam
                .as_ref()
                .is_none_or(|ecam| ecam.reaches(address, 0))
        };
        (0..=255).take_while(reached).last().unwrap_or(0)
    }

    /// Reports every function with each method, and whether all methods agree on segment 0.
    pub fn enumerate(&self, tell: &mut impl FnMut(JobResult)) {
        let trees = [
            self.ports
                .as_ref()
                .map(|ports| self.tree(Method::Ports, ports, tell)),
            self.ecam
                .as_ref()
                .map(|ecam| self.tree(Method::Ecam, ecam, tell)),
            Some(self.tree(Method::Auto, &self.auto, tell)),
        ];
        let mut trees = trees
            .iter()
            .flatten()
            .map(|tree| (tree.functions, tree.digest));
        let first = trees.next();
        tell(JobResult::Compared {
            equal: trees.all(|tree| Some(tree) == first),
        });
    }

    /// Reports every function that the `virtio-drivers` crate finds on the buses of segment 0, with
    /// the selected method.
    pub fn virtio_drivers(&self, tell: &mut impl FnMut(JobResult)) {
        let mut buses = [false; 256];
        buses[0] = true;
        for function in Scan::new(&self.auto, 0, 0..=255).filter_map(Result::ok) {
            if let Some(behind) = function.buses() {
                buses[usize::from(behind.secondary)] = true;
            }
        }
        let mut functions = 0;
        let root = PciRoot::new(VirtioDrivers::new(&self.auto, 0));
        for (bus, _) in (0..=255).zip(buses).filter(|(_, is_there)| *is_there) {
            for (place, function) in root.enumerate_bus(bus) {
                functions += 1;
                tell(JobResult::VirtioDrivers {
                    bus: place.bus,
                    devfn: place.device << 3 | place.function,
                    vendor: function.vendor_id,
                    device: function.device_id,
                    class: u32::from_be_bytes([
                        0,
                        function.class,
                        function.subclass,
                        function.prog_if,
                    ]),
                });
            }
        }
        tell(JobResult::VirtioDriversDone { functions });
    }

    fn tree<A: ConfigAccess>(
        &self,
        method: Method,
        access: &A,
        tell: &mut impl FnMut(JobResult),
    ) -> Tree {
        let mut walk = Walk {
            method,
            sum: Tree {
                method,
                functions: 0,
                buses: 0,
                faults: 0,
                digest: 0,
            },
            digest: Checksum::default(),
            tell,
        };
        for segment in self.reached(access) {
            walk.sum.buses += 1;
            for found in Scan::new(access, segment, 0..=255) {
                match found {
                    Ok(function) => walk.function(access, &function),
                    Err(fault) => {
                        let unentered = is_unentered(&fault).into();
                        walk.sum.buses = walk.sum.buses.saturating_sub(unentered);
                        walk.fault(format_args!("{fault}"));
                    }
                }
            }
        }
        let tree = Tree {
            digest: walk.digest.finish(),
            ..walk.sum
        };
        tell(JobResult::Tree(tree));
        tree
    }
}

/// One method's walk, which reports its findings.
struct Walk<'a, T> {
    method: Method,
    sum: Tree,
    digest: Checksum,
    tell: &'a mut T,
}

impl<T: FnMut(JobResult)> Walk<'_, T> {
    fn function<A: ConfigAccess>(&mut self, access: &A, function: &Function) {
        let address = function.address;
        let bars = bars(access, function);
        let sized = bars.unwrap_or_default();
        let windows = BridgeWindows::read(access, function);
        let found = FoundFunction::new(
            function,
            windows.as_ref().unwrap_or(&BridgeWindows::default()),
            &sized,
        );
        self.sum.buses += u32::from(function.buses().is_some());
        // Ports only reach segment 0, so that only this segment can be compared.
        if address.segment() == 0 {
            found.hash(&mut self.digest);
        }
        self.sum.functions += 1;
        let method = self.method;
        (self.tell)(JobResult::Function { method, found });
        for error in [bars.err(), windows.err()].into_iter().flatten() {
            self.fault(format_args!("{address}: {error}"));
        }
        for wrong in sized.iter().filter_map(Result::err) {
            self.fault(format_args!("{address}: {wrong}"));
        }
        let mut some = Capabilities::new();
        for one in nostall_pci::Capabilities::new(access, function) {
            match one {
                Ok(one) => {
                    let one = FoundCapability::from(one);
                    if address.segment() == 0 {
                        one.hash(&mut self.digest);
                    }
                    self.collect(&mut some, one);
                }
                Err(wrong) => self.fault(format_args!("{address}: {wrong}")),
            }
        }
        for one in ExtendedCapabilities::new(access, function) {
            match one {
                Ok(one) => self.collect(&mut some, one.into()),
                Err(wrong) => self.fault(format_args!("{address}: {wrong}")),
            }
        }
        if !some.is_empty() {
            (self.tell)(JobResult::Capabilities(some));
        }
    }

    /// Adds `one` to `some`. Full capabilities are reported first.
    fn collect(&mut self, some: &mut Capabilities, one: FoundCapability) {
        if some.is_full() {
            (self.tell)(JobResult::Capabilities(core::mem::take(some)));
        }
        let _ = some.push(one); // there is room now
    }

    fn fault(&mut self, what: fmt::Arguments<'_>) {
        self.sum.faults += 1;
        if self.sum.faults <= FAULTS {
            let (method, what) = (self.method, text(what));
            (self.tell)(JobResult::Fault { method, what });
        }
    }
}

fn read<A: ConfigAccess>(access: &A, at: Address, n: u32) -> PciMeasured {
    let mut done = PciMeasured {
        operations: n,
        ..PciMeasured::default()
    };
    for _ in 0..n {
        match access.at(at).read32(VENDOR_ID) {
            Ok(value) => done.value = black_box(value),
            Err(_) => done.faults += 1,
        }
    }
    done
}

/// Writes the interrupt line `n` times; the last write restores the value `before`.
fn write<A: ConfigAccess>(access: &A, at: Address, n: u32, before: u8) -> PciMeasured {
    let mut done = PciMeasured {
        operations: n,
        ..PciMeasured::default()
    };
    for left in (0..n).rev() {
        let value = if left == 0 { before } else { left as u8 };
        if access.at(at).write8(INTERRUPT_LINE, value).is_err() {
            done.faults += 1;
        }
    }
    done
}

/// Returns whether the scan counted the bus below a bridge but did not visit it.
const fn is_unentered(fault: &ScanFault) -> bool {
    match fault {
        ScanFault::Buses { why, .. } => !matches!(why, BusFault::Beyond(_)),
        ScanFault::OutOfReach(_) => true,
        _ => false,
    }
}
