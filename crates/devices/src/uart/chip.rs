//! Chip models of the 16550 family, and their differences.

use nostall_uart::Model;
use nostall_uart::registers::{dw, fcr, iir, lcr};

/// A chip of the 16550 family: its model and FIFO depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    pub(super) model: Model,
    depth: usize,
    /// Value in the upper divisor latch of a 16850 while the divisor is 0 (XR16C850 data sheet,
    /// "Device Identification").
    pub(super) exar_id: u8,
}

const XR16C850: u8 = 0x10;
const XR16C854: u8 = 0x14;

impl Chip {
    /// Creates a chip as in its data sheet; a DesignWare has FIFOs of 16 bytes.
    pub const fn new(model: Model) -> Self {
        Self {
            model,
            depth: model.fifo_depth(),
            exar_id: XR16C850,
        }
    }

    /// Creates one port of an XR16C854: a 16850 with four ports.
    pub const fn xr16c854() -> Self {
        Self {
            exar_id: XR16C854,
            ..Self::new(Model::Uart16850)
        }
    }

    /// Creates a DesignWare with FIFOs of `depth` bytes (DW_apb_uart databook, FIFO_MODE). The
    /// depth is a multiple of 16 up to 2,048, or 0 for no FIFO. Other values are rounded down.
    pub const fn designware(depth: usize) -> Self {
        let depth = if depth > 2_048 {
            2_048
        } else {
            depth / 16 * 16
        };
        Self {
            model: Model::DesignWare,
            depth: if depth == 0 { 1 } else { depth },
            exar_id: 0,
        }
    }

    /// Creates `vm-superio`'s: a 16550A with FIFOs of 64 bytes.
    pub(super) const fn superio() -> Self {
        Self {
            depth: 64,
            ..Self::new(Model::Uart16550A)
        }
    }

    /// Returns the model.
    pub const fn model(self) -> Model {
        self.model
    }

    /// Returns the greatest depth of each FIFO in bytes; 1 without a working FIFO.
    pub const fn fifo_depth(self) -> usize {
        self.depth
    }

    /// Returns the configured depth of each FIFO in bytes.
    ///
    /// A TL16C750 has 16 until FCR bit 5 is set (its data sheet, FCR). An OX16C950 has 16 until
    /// enhanced mode is enabled (its data sheet, "Mode Selection").
    pub(super) fn depth_now(self, fcr: u8, enhanced: bool) -> usize {
        match self.model {
            _ if !self.fifo_on(fcr) => 1,
            Model::Uart16750 if fcr & fcr::FIFO_64 == 0 => 16,
            Model::Uart16950 if !enhanced => 16,
            _ => self.depth,
        }
    }

    /// Returns whether the FIFOs are enabled and work. The BCM2835's cannot be disabled (BCM2835
    /// ARM Peripherals, AUX_MU_IIR_REG). A 16550's do not work even when enabled.
    pub(super) fn fifo_on(self, fcr: u8) -> bool {
        self.model == Model::Bcm2835Mini || self.depth > 1 && fcr & fcr::ENABLE != 0
    }

    /// Returns the number of bytes that a transmitter of `depth` may still hold while it reports
    /// "empty". It is not 0 for models that report it early ([`Model::transmit_load`]).
    pub(super) fn left_when_ready(self, depth: usize) -> usize {
        match self.model {
            Model::Uart16650V2 | Model::Bcm2835Mini => {
                depth.saturating_sub(self.model.transmit_load())
            }
            _ => 0,
        }
    }

    /// Returns the number of received bytes that raises the interrupt, with FIFOs of `depth` bytes.
    /// Source: FCR in each data sheet.
    pub(super) fn receive_trigger(self, fcr: u8, depth: usize) -> usize {
        if depth == 1 {
            return 1;
        }
        let levels = match (self.model, depth) {
            (Model::Bcm2835Mini, _) => [1; 4],
            (Model::Uart16650V2, _) => [8, 16, 24, 28],
            (Model::Uart16750, 64) => [1, 16, 32, 56],
            (Model::Uart16950, 128) => [16, 32, 112, 120],
            (Model::DesignWare, _) => [1, depth / 4, depth / 2, depth - 2],
            _ => [1, 4, 8, 14],
        };
        levels[usize::from(fcr >> fcr::TRIGGER.trailing_zeros())]
    }

    /// Returns the bits that the FCR stores. Models before the 16550 have no FCR.
    pub(super) const fn fcr_bits(self) -> u8 {
        match self.model {
            Model::Uart8250 | Model::Uart16450 => 0,
            Model::Uart16750 => fcr::ENABLE | fcr::DMA_MODE | fcr::TRIGGER | fcr::FIFO_64,
            _ => fcr::ENABLE | fcr::DMA_MODE | fcr::TRIGGER,
        }
    }

    /// Returns the bits of the IIR that describe the FIFOs.
    pub(super) fn iir_fifo_bits(self, fcr: u8) -> u8 {
        match self.model {
            Model::Uart16550 if fcr & fcr::ENABLE != 0 => 0x80,
            // The 16650's FIFO is not modelled, because it must not be used.
            Model::Uart16650 if fcr & fcr::ENABLE != 0 => iir::FIFOS,
            Model::Uart16750 if fcr & fcr::FIFO_64 != 0 => iir::FIFOS | iir::FIFO_64,
            _ if self.fifo_on(fcr) => iir::FIFOS,
            _ => 0,
        }
    }

    /// Returns whether the chip has the enhanced registers.
    pub(super) const fn has_efr(self) -> bool {
        matches!(
            self.model,
            Model::Uart16650 | Model::Uart16650V2 | Model::Uart16850 | Model::Uart16950
        )
    }

    /// Returns whether this value of the LCR selects the enhanced registers. The first ST16C650 has
    /// them at its divisor latch, later chips only at 0xbf.
    pub(super) const fn reaches_efr(self, lcr: u8) -> bool {
        match self.model {
            Model::Uart16650 => lcr & lcr::DLAB != 0,
            _ => self.has_efr() && lcr == lcr::ENHANCED,
        }
    }

    /// Returns the DesignWare's CPR: all fields are zero except the FIFO depth (DW_apb_uart
    /// databook).
    pub(super) const fn dw_parameters(self) -> u32 {
        (self.depth as u32 / 16) << dw::CPR_FIFO_SHIFT
    }
}

impl From<Model> for Chip {
    fn from(model: Model) -> Self {
        Self::new(model)
    }
}
