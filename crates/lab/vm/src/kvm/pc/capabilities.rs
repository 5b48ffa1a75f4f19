//! Capabilities of a KVM, and the replacement for each missing one.

use kvm_bindings::{KVM_CAP_BINARY_STATS_FD, KVM_CAP_COALESCED_PIO};
use kvm_ioctls::{Cap, Kvm};

use crate::kvm::{Capabilities, Options, PciMode, UartMode};

const READ_ONLY_MEMORY: &str = "read-only memory (KVM_CAP_READONLY_MEM)";
const COALESCED_MMIO: &str = "coalesced MMIO (KVM_CAP_COALESCED_MMIO)";
const COALESCED_PORTS: &str = "coalesced ports (KVM_CAP_COALESCED_PIO)";

const NO_INTERRUPTS: &str = "interrupt controllers and timer (KVM_CAP_IRQCHIP, \
                             KVM_CAP_PIT2): no interrupt reaches the guest";
const NO_TSC_RATE: &str =
    "clock rate to report (KVM_CAP_GET_TSC_KHZ): the guest measures it with its timer";
const NO_STATISTICS: &str = "statistics (KVM_CAP_BINARY_STATS_FD): light exits are not counted";

impl Capabilities {
    pub(super) fn of(kvm: &Kvm) -> Self {
        let number = |cap: u32| kvm.check_extension_raw(cap.into()) > 0;
        Self {
            read_only_memory: kvm.check_extension(Cap::ReadonlyMem),
            coalesced_mmio: kvm.check_extension(Cap::CoalescedMmio),
            coalesced_ports: kvm.check_extension(Cap::CoalescedMmio)
                && number(KVM_CAP_COALESCED_PIO),
            interrupts: kvm.check_extension(Cap::Irqchip) && kvm.check_extension(Cap::Pit2),
            tsc_rate: kvm.check_extension(Cap::GetTscKhz),
            statistics: number(KVM_CAP_BINARY_STATS_FD),
        }
    }

    /// Returns the closest supported options, and a note for each missing capability.
    pub(super) fn settle(self, options: Options) -> (Options, Vec<String>) {
        let mut notes = Vec::new();
        let mut missing = |what: &str, option: &str, asked: &str, instead: &str| {
            notes.push(format!(
                "this KVM has no {what}: {option} {asked} is {instead}"
            ));
        };
        let mut uart = options.uart;
        if uart == UartMode::MmioReadonly && !(self.read_only_memory && self.coalesced_mmio) {
            let what = if self.read_only_memory {
                COALESCED_MMIO
            } else {
                READ_ONLY_MEMORY
            };
            let instead = UartMode::PortsCoalesced;
            missing(what, "--uart-mode", uart.name(), instead.name());
            uart = instead;
        }
        if uart == UartMode::PortsCoalesced && !self.coalesced_ports {
            let instead = UartMode::Ports;
            missing(COALESCED_PORTS, "--uart-mode", uart.name(), instead.name());
            uart = instead;
        }
        let (what, there) = match options.pci {
            PciMode::Trap => ("", true),
            PciMode::PortsCoalesced => (COALESCED_PORTS, self.coalesced_ports),
            PciMode::EcamShadow => (READ_ONLY_MEMORY, self.read_only_memory),
        };
        let pci = if there { options.pci } else { PciMode::Trap };
        if !there {
            missing(what, "PCI access with", options.pci.name(), pci.name());
        }
        let others = [
            (self.interrupts, NO_INTERRUPTS),
            (self.tsc_rate, NO_TSC_RATE),
            (self.statistics, NO_STATISTICS),
        ];
        let missing = others.iter().filter(|(there, _)| !there);
        notes.extend(missing.map(|(_, note)| format!("this KVM has no {note}")));
        (Options { uart, pci }, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Capabilities = Capabilities {
        read_only_memory: true,
        coalesced_mmio: true,
        coalesced_ports: true,
        interrupts: true,
        tsc_rate: true,
        statistics: true,
    };

    fn settled(capabilities: Capabilities, uart: UartMode) -> (UartMode, Vec<String>) {
        let pci = PciMode::Trap;
        let (options, notes) = capabilities.settle(Options { uart, pci });
        (options.uart, notes)
    }

    #[test]
    fn existing_capabilities_are_used_without_a_note() {
        for uart in UartMode::ALL {
            assert_eq!(settled(ALL, uart), (uart, vec![]));
        }
    }

    #[test]
    fn a_missing_capability_is_noted_and_replaced_with_the_next_best() {
        let no_read_only = Capabilities {
            read_only_memory: false,
            ..ALL
        };
        let (uart, notes) = settled(no_read_only, UartMode::MmioReadonly);
        assert_eq!(uart, UartMode::PortsCoalesced);
        assert_eq!(
            notes,
            ["this KVM has no read-only memory (KVM_CAP_READONLY_MEM): \
              --uart-mode mmio-readonly is ports-coalesced"]
        );

        let nothing_coalesced = Capabilities {
            coalesced_mmio: false,
            coalesced_ports: false,
            ..ALL
        };
        let (uart, notes) = settled(nothing_coalesced, UartMode::MmioReadonly);
        assert_eq!((uart, notes.len()), (UartMode::Ports, 2));
        let (uart, notes) = settled(nothing_coalesced, UartMode::PortsCoalesced);
        assert_eq!((uart, notes.len()), (UartMode::Ports, 1));
        assert_eq!(
            settled(nothing_coalesced, UartMode::Ports),
            (UartMode::Ports, vec![])
        );

        let pci = |capabilities: Capabilities, pci| {
            let uart = UartMode::Ports;
            let (options, notes) = capabilities.settle(Options { uart, pci });
            (options.pci, notes.len())
        };
        for way in PciMode::ALL {
            assert_eq!(pci(ALL, way), (way, 0));
        }
        assert_eq!(pci(no_read_only, PciMode::EcamShadow), (PciMode::Trap, 1));
        assert_eq!(
            pci(nothing_coalesced, PciMode::PortsCoalesced),
            (PciMode::Trap, 1)
        );

        let bare = Capabilities {
            interrupts: false,
            tsc_rate: false,
            statistics: false,
            ..ALL
        };
        let (uart, notes) = settled(bare, UartMode::Ports);
        assert_eq!(uart, UartMode::Ports);
        let [interrupts, clock, statistics] = &notes[..] else {
            panic!("{notes:?}");
        };
        assert!(interrupts.ends_with("no interrupt reaches the guest"));
        assert!(clock.ends_with("the guest measures it with its timer"));
        assert!(statistics.ends_with("light exits are not counted"));
    }
}
