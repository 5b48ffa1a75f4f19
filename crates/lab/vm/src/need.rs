//! Devices and CPUs that an experiment needs.

/// Requirements of an experiment on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Need<'a> {
    /// Required devices.
    pub devices: &'a [Device],
    /// Number of CPUs that run the guest.
    pub cpus: u16,
}

/// A device that an experiment measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Device {
    /// Serial port: a 16550, or an architecture's own.
    #[strum(serialize = "serial port")]
    Uart,
    /// 16550, as the serial port.
    #[strum(serialize = "16550")]
    Uart16550,
    /// PCI configuration space.
    Pci,
    /// SPI controllers, with a flash.
    Spi,
}
