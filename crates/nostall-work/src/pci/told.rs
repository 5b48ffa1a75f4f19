//! Reports of a PCI job.

use serde::{Deserialize, Serialize};

use super::found::{FoundCapability, FoundFunction};
use super::job::Method;
use crate::ReportText;

/// Report of a PCI job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Told {
    /// The guest's environment, and the method chosen for it.
    Machine {
        /// Bare metal, or a hypervisor and its name.
        environment: ReportText,
        /// Whether the policy for that is ECAM first.
        ecam_first: bool,
        /// The method that is used where both reach; `None` if there is none.
        chosen: Option<Method>,
        /// Why, in words.
        why: ReportText,
    },
    /// A range of buses that the firmware's table has an ECAM window for.
    Window {
        /// Their segment.
        segment: u32,
        /// The first and the last of them.
        buses: (u8, u8),
        /// The window's physical address.
        start: u64,
        /// Why it is not used, if it is not.
        doubt: Option<ReportText>,
    },
    /// Why there is no table of such windows.
    NoWindows(ReportText),
    /// A function.
    Function {
        /// The method that found it.
        method: Method,
        /// The function found.
        found: FoundFunction,
    },
    /// Capabilities of the function last reported; there may be more to come.
    Capabilities(Capabilities),
    /// Something that was wrong on the way.
    Fault {
        /// The method that found it.
        method: Method,
        /// Description of the fault.
        what: ReportText,
    },
    /// All functions that this method finds have been reported.
    Tree(Tree),
    /// Whether all methods there are have found the same.
    Compared {
        /// Whether they agree.
        equal: bool,
    },
    /// Bus numbers, windows and BARs have been given out.
    Assigned {
        /// The last bus.
        last_bus: u8,
        /// BARs that have a place.
        placed: u32,
        /// BARs that have none; a fault was reported for each.
        left: u32,
    },
    /// Measured figures; `None` if there is no such method here.
    Measured(Option<PciMeasured>),
    /// A function as the `virtio-drivers` crate found it.
    VirtioDrivers {
        /// Its bus.
        bus: u8,
        /// Device and function.
        devfn: u8,
        /// Vendor ID.
        vendor: u16,
        /// Device ID.
        device: u16,
        /// Base class, sub-class and interface.
        class: u32,
    },
    /// It has found no more than these.
    VirtioDriversDone {
        /// Number of functions found.
        functions: u32,
    },
}

/// A few capabilities.
pub type Capabilities = heapless::Vec<FoundCapability, 16>;

/// Summary of one method's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Method of the walk.
    pub method: Method,
    /// Number of functions found.
    pub functions: u32,
    /// On how many buses, counted with those that are empty.
    pub buses: u32,
    /// Number of faults on the way. Not all of them are reported.
    pub faults: u32,
    /// Of all that every method can find out about the functions.
    pub digest: u64,
}

/// Result of a measured operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciMeasured {
    /// How often it was done.
    pub operations: u32,
    /// Accesses on the bus, in all.
    pub bus_accesses: u64,
    /// Nanoseconds, in all.
    pub ns: u64,
    /// Accesses that were not made, and faults of a walk.
    pub faults: u32,
    /// For a walk, the number of functions. For reads, the value read last.
    pub value: u32,
    /// Of a walk: on how many buses.
    pub buses: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::{FoundBar, FoundBarKind};
    use crate::report::tests::{longest_text, result_survives};

    /// The longest that a function can come to.
    fn largest() -> FoundFunction {
        let bar = FoundBar {
            register: u16::MAX,
            kind: FoundBarKind::Prefetchable,
            bits: u8::MAX,
            address: u64::MAX,
            size: u64::MAX,
        };
        FoundFunction {
            segment: u32::MAX,
            bus: u8::MAX,
            devfn: u8::MAX,
            vendor: u16::MAX,
            device: u16::MAX,
            revision: u8::MAX,
            class: 0xff_ffff,
            header: 2,
            multi_function: false,
            subsystem: Some((u16::MAX, u16::MAX)),
            buses: Some((u8::MAX, u8::MAX, u8::MAX)),
            windows: [Some((u64::MAX, u64::MAX)); 3],
            interrupt: (u8::MAX, u8::MAX),
            bars: core::iter::repeat_n(bar, 7).collect(),
        }
    }

    #[test]
    fn every_result_of_pci_fits_its_line() {
        let text = longest_text();
        let capability = FoundCapability {
            register: u16::MAX,
            id: u16::MAX,
            word: u16::MAX,
        };
        let measured = PciMeasured {
            operations: u32::MAX,
            bus_accesses: u64::MAX,
            ns: u64::MAX,
            faults: u32::MAX,
            value: u32::MAX,
            buses: u32::MAX,
        };
        let method = Method::Ports;
        for told in [
            Told::Machine {
                environment: text.clone(),
                ecam_first: false,
                chosen: Some(method),
                why: text.clone(),
            },
            Told::Window {
                segment: u32::MAX,
                buses: (u8::MAX, u8::MAX),
                start: u64::MAX,
                doubt: Some(text.clone()),
            },
            Told::NoWindows(text.clone()),
            Told::Function {
                method,
                found: largest(),
            },
            Told::Capabilities(core::iter::repeat_n(capability, 16).collect()),
            Told::Fault { method, what: text },
            Told::Tree(Tree {
                method,
                functions: u32::MAX,
                buses: u32::MAX,
                faults: u32::MAX,
                digest: u64::MAX,
            }),
            Told::Compared { equal: false },
            Told::Measured(Some(measured)),
            Told::Measured(None),
        ] {
            result_survives(told);
        }
    }

    #[test]
    fn a_function_is_what_it_was_before_it_was_reported() {
        let found = largest();
        let function = found.function();
        let bars = nostall_pci::Bars::default();
        let again = FoundFunction::new(&function, &found.windows(), &bars);
        let without_bars = FoundFunction {
            bars: heapless::Vec::new(),
            ..found
        };
        assert_eq!(again, without_bars);
    }
}
