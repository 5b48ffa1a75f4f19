//! Differences between the members of the family, as far as the model goes.

use nostall_uart::Model;
use nostall_uart::registers::{dw, fcr, iir, lcr};

/// Which member of the family a port is, and how deep its FIFOs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    pub(super) model: Model,
    depth: usize,
    /// Value that a 16850 shows in the upper divisor latch while the divisor is 0 (XR16C850 data
    /// sheet, "Device Identification").
    pub(super) exar_id: u8,
}

const XR16C850: u8 = 0x10;
const XR16C854: u8 = 0x14;

impl Chip {
    /// A chip as its data sheet has it; a DesignWare with FIFOs of 16 bytes.
    pub const fn new(model: Model) -> Self {
        Self {
            model,
            depth: model.fifo_depth(),
            exar_id: XR16C850,
        }
    }

    /// An XR16C854: a 16850 with four ports, of which this is one.
    pub const fn xr16c854() -> Self {
        Self {
            exar_id: XR16C854,
            ..Self::new(Model::Uart16850)
        }
    }

    /// A DesignWare with FIFOs of `depth` bytes, as its maker chose: a multiple
    /// of 16 (others are rounded down) up to 2,048, or 0 for none
    /// (DW_apb_uart databook, FIFO_MODE).
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

    /// The model.
    pub const fn model(self) -> Model {
        self.model
    }

    /// Bytes in each FIFO at its deepest; 1 where there is none that works.
    pub const fn fifo_depth(self) -> usize {
        self.depth
    }

    /// Bytes in each FIFO as it is set up: 16 where more must be asked for, by
    /// FCR bit 5 (TL16C750, FCR) or by the enhanced mode (OX16C950, section
    /// "Mode Selection").
    pub(super) fn depth_now(self, fcr: u8, enhanced: bool) -> usize {
        match self.model {
            _ if !self.fifo_on(fcr) => 1,
            Model::Uart16750 if fcr & fcr::FIFO_64 == 0 => 16,
            Model::Uart16950 if !enhanced => 16,
            _ => self.depth,
        }
    }

    /// The BCM2835's FIFOs cannot be turned off (BCM2835 ARM Peripherals,
    /// AUX_MU_IIR_REG); a 16550's do not work when they are on.
    pub(super) fn fifo_on(self, fcr: u8) -> bool {
        self.model == Model::Bcm2835Mini || self.depth > 1 && fcr & fcr::ENABLE != 0
    }

    /// How many bytes may be left in a transmitter of `depth` that says that it
    /// is empty: none, but for those that speak early ([`Model::transmit_load`]).
    pub(super) fn left_when_ready(self, depth: usize) -> usize {
        match self.model {
            Model::Uart16650V2 | Model::Bcm2835Mini => {
                depth.saturating_sub(self.model.transmit_load())
            }
            _ => 0,
        }
    }

    /// How many received bytes raise the interrupt, in FIFOs of `depth`: each
    /// data sheet's FCR.
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

    /// The bits of the FCR that are remembered. Before the 16550 there is none.
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
            // Its FIFO is not modelled, as it must not be used.
            Model::Uart16650 if fcr & fcr::ENABLE != 0 => iir::FIFOS,
            Model::Uart16750 if fcr & fcr::FIFO_64 != 0 => iir::FIFOS | iir::FIFO_64,
            _ if self.fifo_on(fcr) => iir::FIFOS,
            _ => 0,
        }
    }

    /// Whether it has the enhanced registers.
    pub(super) const fn has_efr(self) -> bool {
        matches!(
            self.model,
            Model::Uart16650 | Model::Uart16650V2 | Model::Uart16850 | Model::Uart16950
        )
    }

    /// Whether the enhanced registers are reached with this value of the LCR: behind the
    /// divisor latch in the first version of the ST16C650, later only with 0xbf.
    pub(super) const fn reaches_efr(self, lcr: u8) -> bool {
        match self.model {
            Model::Uart16650 => lcr & lcr::DLAB != 0,
            _ => self.has_efr() && lcr == lcr::ENHANCED,
        }
    }

    /// DW_apb_uart databook, CPR: all of it zero but for the FIFOs' depth.
    pub(super) const fn dw_parameters(self) -> u32 {
        (self.depth as u32 / 16) << dw::CPR_FIFO_SHIFT
    }
}

impl From<Model> for Chip {
    fn from(model: Model) -> Self {
        Self::new(model)
    }
}
