//! The integration tests of nostall-devices, in one program.

mod any_guest;
mod clock_reads;
mod common;
mod family;
mod faults;
mod offer;
mod pci;
mod pci_any_guest;
mod pci_driver;
mod pci_shadow;
mod pl011;
mod pl011_any_guest;
mod pl011_drivers;
mod profiles;
mod receive;
mod serial;
mod spi_any_guest;
mod spi_drivers;
mod uart;
mod vm_device;
mod vm_superio;
