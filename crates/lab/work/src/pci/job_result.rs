//! Reports of a PCI job.

use serde::{Deserialize, Serialize};

use super::found::{FoundCapability, FoundFunction};
use super::job::Method;
use crate::ReportText;

/// Report of a PCI job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JobResult {
    /// The guest's environment, and the method chosen for it.
    Machine {
        /// Bare metal, or the hypervisor's name.
        environment: ReportText,
        /// Whether this environment's policy prefers ECAM.
        ecam_first: bool,
        /// Method for registers that both methods reach; `None` if there is no method.
        chosen: Option<Method>,
        /// Reason for the choice, as text.
        why: ReportText,
    },
    /// ECAM window of the firmware's table.
    Window {
        /// Segment of the window.
        segment: u32,
        /// First and last bus.
        buses: (u8, u8),
        /// Physical address of the window.
        start: u64,
        /// Reason why the window is not used, if any.
        doubt: Option<ReportText>,
    },
    /// Reason why there is no table of windows.
    NoWindows(ReportText),
    /// A function.
    Function {
        /// Method that found it.
        method: Method,
        /// The function.
        found: FoundFunction,
    },
    /// Capabilities of the function reported last; more may follow.
    Capabilities(Capabilities),
    /// A fault found during a walk.
    Fault {
        /// Method that found it.
        method: Method,
        /// Description of the fault.
        what: ReportText,
    },
    /// Summary after all functions of a method have been reported.
    Tree(Tree),
    /// Comparison of all available methods.
    Compared {
        /// Whether all methods found the same.
        equal: bool,
    },
    /// Result of assigning bus numbers, windows and BARs.
    Assigned {
        /// Last assigned bus number.
        last_bus: u8,
        /// Number of BARs with an address.
        placed: u32,
        /// Number of BARs without an address; a fault was reported for each.
        left: u32,
    },
    /// Measured figures; `None` if the method is not available.
    Measured(Option<PciMeasured>),
    /// A function that the `virtio-drivers` crate found.
    VirtioDrivers {
        /// Bus number.
        bus: u8,
        /// Device number in bits 7:3, function number in bits 2:0.
        devfn: u8,
        /// Vendor ID.
        vendor: u16,
        /// Device ID.
        device: u16,
        /// Base class, sub-class and programming interface, in 24 bits.
        class: u32,
    },
    /// End of the `virtio-drivers` crate's findings.
    VirtioDriversDone {
        /// Number of functions found.
        functions: u32,
    },
}

/// One report's worth of capabilities.
pub type Capabilities = heapless::Vec<FoundCapability, 16>;

/// Summary of one method's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Method that was used.
    pub method: Method,
    /// Number of functions found.
    pub functions: u32,
    /// Number of buses, including empty ones.
    pub buses: u32,
    /// Number of faults; only some of them are reported.
    pub faults: u32,
    /// Digest of everything that each method can find out about the functions.
    pub digest: u64,
}

/// Result of a measured operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciMeasured {
    /// Number of operations.
    pub operations: u32,
    /// Total number of bus accesses.
    pub bus_accesses: u64,
    /// Total duration in nanoseconds.
    pub ns: u64,
    /// Number of failed accesses, or of a walk's faults.
    pub faults: u32,
    /// Number of functions for a walk, last value for reads.
    pub value: u32,
    /// Number of buses for a walk.
    pub buses: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::{FoundBar, FoundBarKind};
    use crate::report::tests::{longest_text, result_survives};

    /// Returns a function with the longest possible report.
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
        for result in [
            JobResult::Machine {
                environment: text.clone(),
                ecam_first: false,
                chosen: Some(method),
                why: text.clone(),
            },
            JobResult::Window {
                segment: u32::MAX,
                buses: (u8::MAX, u8::MAX),
                start: u64::MAX,
                doubt: Some(text.clone()),
            },
            JobResult::NoWindows(text.clone()),
            JobResult::Function {
                method,
                found: largest(),
            },
            JobResult::Capabilities(core::iter::repeat_n(capability, 16).collect()),
            JobResult::Fault { method, what: text },
            JobResult::Tree(Tree {
                method,
                functions: u32::MAX,
                buses: u32::MAX,
                faults: u32::MAX,
                digest: u64::MAX,
            }),
            JobResult::Compared { equal: false },
            JobResult::Measured(Some(measured)),
            JobResult::Measured(None),
        ] {
            result_survives(result);
        }
    }

    #[test]
    fn a_function_survives_its_report() {
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
