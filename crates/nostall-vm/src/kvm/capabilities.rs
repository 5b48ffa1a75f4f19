//! What a KVM can do, asked one by one, and what to do where it cannot.

use kvm_bindings::{KVM_CAP_BINARY_STATS_FD, KVM_CAP_COALESCED_PIO};
use kvm_ioctls::{Cap, Kvm};

use super::{Options, Uart};

/// What matters here of what a KVM can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Memory that the guest can read without an exit, and whose writes exit.
    pub read_only_memory: bool,
    /// Collecting writes to memory-mapped registers.
    pub coalesced_mmio: bool,
    /// Collecting writes to ports.
    pub coalesced_ports: bool,
    /// Interrupt controllers and a timer of its own.
    pub interrupts: bool,
    /// Telling the time stamp counter's rate.
    pub tsc_rate: bool,
    /// Statistics in binary form.
    pub statistics: bool,
}

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

    /// What comes closest to `options`, and a line for each thing that is missing.
    pub(super) fn settle(self, options: Options) -> (Options, Vec<String>) {
        let mut notes = Vec::new();
        let mut missing = |what: &str, asked: Uart, instead: Uart| {
            let (asked, instead) = (asked.name(), instead.name());
            notes.push(format!(
                "this KVM has no {what}: --uart {asked} is {instead}"
            ));
        };
        let mut uart = options.uart;
        if uart == Uart::MmioReadonly {
            let instead = Uart::PortsCoalesced;
            if !self.read_only_memory {
                missing("read-only memory (KVM_CAP_READONLY_MEM)", uart, instead);
                uart = instead;
            } else if !self.coalesced_mmio {
                missing("coalesced MMIO (KVM_CAP_COALESCED_MMIO)", uart, instead);
                uart = instead;
            }
        }
        if uart == Uart::PortsCoalesced && !self.coalesced_ports {
            let instead = Uart::Ports;
            missing("coalesced ports (KVM_CAP_COALESCED_PIO)", uart, instead);
            uart = instead;
        }
        if !self.statistics {
            notes.push(
                "this KVM has no statistics (KVM_CAP_BINARY_STATS_FD): light exits are not \
                 counted"
                    .to_owned(),
            );
        }
        (Options { uart }, notes)
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

    fn settled(capabilities: Capabilities, uart: Uart) -> (Uart, Vec<String>) {
        let (options, notes) = capabilities.settle(Options { uart });
        (options.uart, notes)
    }

    #[test]
    fn what_is_there_is_used_without_a_word() {
        for uart in Uart::ALL {
            assert_eq!(settled(ALL, uart), (uart, vec![]));
        }
    }

    #[test]
    fn what_is_missing_is_said_and_the_next_best_is_used() {
        let no_read_only = Capabilities {
            read_only_memory: false,
            ..ALL
        };
        let (uart, notes) = settled(no_read_only, Uart::MmioReadonly);
        assert_eq!(uart, Uart::PortsCoalesced);
        assert_eq!(
            notes,
            ["this KVM has no read-only memory (KVM_CAP_READONLY_MEM): \
              --uart mmio-readonly is ports-coalesced"]
        );

        let nothing_coalesced = Capabilities {
            coalesced_mmio: false,
            coalesced_ports: false,
            ..ALL
        };
        let (uart, notes) = settled(nothing_coalesced, Uart::MmioReadonly);
        assert_eq!((uart, notes.len()), (Uart::Ports, 2));
        let (uart, notes) = settled(nothing_coalesced, Uart::PortsCoalesced);
        assert_eq!((uart, notes.len()), (Uart::Ports, 1));
        assert_eq!(
            settled(nothing_coalesced, Uart::Ports),
            (Uart::Ports, vec![])
        );

        let no_statistics = Capabilities {
            statistics: false,
            ..ALL
        };
        let (uart, notes) = settled(no_statistics, Uart::Ports);
        assert_eq!((uart, notes.len()), (Uart::Ports, 1));
    }
}
