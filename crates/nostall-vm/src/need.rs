//! Devices and CPUs that an experiment needs.

/// What an experiment needs of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Need<'a> {
    /// Devices.
    pub devices: &'a [Device],
    /// CPUs that run the guest.
    pub cpus: u16,
}

/// A device that an experiment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A 16550, the serial port that is measured.
    Uart16550,
    /// PCI configuration space.
    Pci,
    /// SPI controllers, with a flash and a card.
    Spi,
}

impl Device {
    /// Name of the device in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uart16550 => "16550",
            Self::Pci => "PCI",
            Self::Spi => "SPI",
        }
    }
}
