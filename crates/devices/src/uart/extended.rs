//! Registers that only some models have.

use std::io::Write;

use nostall_io::Clock;
use nostall_uart::Model;
use nostall_uart::registers::{DLL, DLM, DW_CPR, DW_CTR, DW_UCV, DW_USR, EFR, SCR, dw, efr, icr};

use super::Uart;

/// OX16C950 indexed register; writing 0 resets the chip (data sheet, "Channel Software Reset").
const CSR: u8 = 0x0c;

/// Component version 3.00 of the DesignWare, in ASCII.
const DW_VERSION: u32 = u32::from_be_bytes(*b"300*");

/// DesignWare USR (DW_apb_uart databook): transmit FIFO not full, transmit FIFO empty, receive FIFO
/// not empty, receive FIFO full.
const USR_TFNF: u32 = 1 << 1;
const USR_TFE: u32 = 1 << 2;
const USR_RFNE: u32 = 1 << 3;
const USR_RFF: u32 = 1 << 4;

impl<C: Clock, W: Write> Uart<C, W> {
    /// Reads 32 bits. A DesignWare's registers are words; the first eight use one byte of each.
    /// Every other model is one byte wide, and its bus splits the access into four reads.
    pub fn read32(&mut self, offset: usize) -> u32 {
        if self.chip.model != Model::DesignWare {
            let byte = |i| self.read(offset.wrapping_add(i));
            return u32::from_le_bytes([0, 1, 2, 3].map(byte));
        }
        if offset <= SCR {
            return u32::from(self.read(offset));
        }
        self.drain();
        self.read_component(offset).unwrap_or(!0)
    }

    /// Writes 32 bits, with the same split as [`read32`](Self::read32).
    pub fn write32(&mut self, offset: usize, value: u32) {
        let bytes = value.to_le_bytes();
        if self.chip.model == Model::DesignWare {
            self.write(offset, bytes[0]);
            return;
        }
        for (i, byte) in bytes.into_iter().enumerate() {
            self.write(offset.wrapping_add(i), byte);
        }
    }

    /// Reads a DesignWare register beyond the 16550's.
    pub(super) fn read_component(&mut self, offset: usize) -> Option<u32> {
        if self.chip.model != Model::DesignWare {
            return None;
        }
        match offset {
            DW_USR => {
                self.busy_detect = false;
                Some(self.user_status())
            }
            DW_CPR => Some(self.chip.dw_parameters()),
            DW_UCV => Some(DW_VERSION),
            DW_CTR => Some(dw::CTR),
            _ => None,
        }
    }

    fn user_status(&self) -> u32 {
        let bit = |set, bit| if set { bit } else { 0 };
        bit(self.busy(), u32::from(dw::USR_BUSY))
            | bit(self.transmit.len() < self.depth(), USR_TFNF)
            | bit(self.transmit.is_empty(), USR_TFE)
            | bit(!self.receiver.bytes.is_empty(), USR_RFNE)
            | bit(self.receiver.bytes.len() >= self.depth(), USR_RFF)
    }

    /// Returns whether the port is busy (DW_apb_uart databook, USR bit 0): it has a divisor, and
    /// bytes to send or to be read.
    pub(super) fn busy(&self) -> bool {
        self.latches.divisor != 0 && !(self.idle() && self.receiver.bytes.is_empty())
    }

    fn read_divisor(&self) -> [u8; 2] {
        match (self.chip.model, self.latches.divisor) {
            (Model::Uart16850, 0) => [0, self.chip.exar_id],
            (_, divisor) => divisor.to_le_bytes(),
        }
    }

    /// Reads a register that replaces another while DLAB is set; `None` if `offset` has none.
    pub(super) fn read_behind_dlab(&self, offset: usize) -> Option<u8> {
        match offset {
            DLL => Some(self.read_divisor()[0]),
            DLM => Some(self.read_divisor()[1]),
            EFR if self.enhanced_registers() => Some(self.latches.efr),
            4..=7 if self.enhanced_registers() => Some(self.latches.xon_xoff[offset - 4]),
            _ => None,
        }
    }

    /// Writes a register that replaces another while DLAB is set. Returns whether `offset` has one.
    pub(super) fn write_behind_dlab(&mut self, offset: usize, value: u8) -> bool {
        let [low, high] = self.latches.divisor.to_le_bytes();
        match offset {
            DLL => self.latches.divisor = u16::from_le_bytes([value, high]),
            DLM => self.latches.divisor = u16::from_le_bytes([low, value]),
            EFR if self.enhanced_registers() => self.latches.efr = value,
            4..=7 if self.enhanced_registers() => self.latches.xon_xoff[offset - 4] = value,
            _ => return false,
        }
        true
    }

    /// Returns whether EFR, XON and XOFF replace IIR, MCR, LSR, MSR and SCR.
    pub(super) fn enhanced_registers(&self) -> bool {
        self.chip.reaches_efr(self.latches.lcr)
    }

    /// Returns whether the LSR offset selects the 16950's indexed registers.
    pub(super) fn indexed_registers(&self) -> bool {
        self.chip.model == Model::Uart16950 && !self.dlab() && self.latches.efr & efr::ENHANCED != 0
    }

    pub(super) fn read_icr(&self) -> u8 {
        let ids = usize::from(icr::ID1)..;
        match usize::from(self.latches.scr) {
            index @ ..8 => self.latches.icr[index],
            index => ids
                .zip(icr::IDS)
                .find(|&(at, _)| at == index)
                .map_or(0, |(_, ids)| ids[0]),
        }
    }

    pub(super) fn write_icr(&mut self, value: u8) {
        match (self.latches.scr, value) {
            (index @ ..8, _) => self.latches.icr[usize::from(index)] = value,
            (CSR, 0) => self.clear(),
            _ => {}
        }
    }
}
