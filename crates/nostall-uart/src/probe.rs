//! Finding out what a port is.

use core::fmt;

use nostall_io::{Clock, Nanos, Registers};

use crate::Model;
use crate::bound::Bound;
use crate::registers::{
    DLL, DLM, DW_CPR, DW_CTR, DW_USR, EFR, FCR, ICR, IER, IIR, LCR, LSR, MCR, RBR, SCR, THR, dw,
    efr, fcr, icr, iir, lcr, lsr, mcr,
};
use crate::setup::answers;

/// What a port was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The model. A [`Model::Bcm2835Mini`] is taken for a 16550A.
    pub model: Model,
    /// Bytes that the transmitter takes when it says that it is empty: the
    /// model's, a DesignWare's from its component parameters.
    pub transmit_load: usize,
    /// The divisor that it was found with; 0 after reset.
    pub divisor: u16,
}

/// Nobody answers as a port of this family does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent;

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no 16550 answers there: check the port's address and that it is enabled")
    }
}

impl core::error::Error for Absent {}

/// The largest FIFO of the family, twice.
const LARGEST: usize = 256;

/// Finds out what port is behind `registers`, as the data sheets say.
///
/// The port's line settings, interrupts and modem lines are as before when it
/// returns; its FIFOs are emptied. Nothing is sent. To be called while nobody
/// uses the port and its transmitter is empty.
///
/// # Errors
///
/// [`Absent`].
pub fn probe(registers: &impl Registers) -> Result<Probed, Absent> {
    let saved = Saved::take(registers)?;
    let model = identify(registers);
    let divisor = saved.restore(registers);
    let transmit_load = match model {
        Model::DesignWare => designware_fifo(registers),
        other => other.transmit_load(),
    };
    Ok(Probed {
        model,
        transmit_load,
        divisor,
    })
}

/// Registers that probing changes.
struct Saved {
    lcr: u8,
    mcr: u8,
    ier: u8,
    fifos: bool,
    divisor: [u8; 2],
}

impl Saved {
    /// Also the test that somebody is there.
    fn take(port: &impl Registers) -> Result<Self, Absent> {
        let (lcr, mcr) = (port.read8(LCR), port.read8(MCR));
        // No model has all these bits set.
        if lcr == !0 && mcr == !0 {
            return Err(Absent);
        }
        if !leave_divisor(port) {
            return Err(Absent);
        }
        let ier = port.read8(IER);
        // On a PC, OUT2 lets interrupts through; none is to come of this.
        port.write8(MCR, mcr & (mcr::DTR | mcr::RTS));
        if !answers(port) {
            port.write8(IER, ier);
            port.write8(MCR, mcr);
            port.write8(LCR, lcr);
            return Err(Absent);
        }
        let fifos = port.read8(IIR) & iir::FIFOS == iir::FIFOS;
        port.write8(LCR, lcr::DLAB);
        let divisor = [port.read8(DLL), port.read8(DLM)];
        port.write8(LCR, 0);
        Ok(Self {
            lcr,
            mcr,
            ier,
            fifos,
            divisor,
        })
    }

    fn restore(&self, port: &impl Registers) -> u16 {
        port.write8(LCR, lcr::DLAB);
        port.write8(DLL, self.divisor[0]);
        port.write8(DLM, self.divisor[1]);
        port.write8(LCR, self.lcr);
        port.write8(FCR, if self.fifos { fcr::ENABLE } else { 0 });
        port.write8(MCR, self.mcr);
        if self.lcr & lcr::DLAB == 0 {
            port.write8(IER, self.ier);
        }
        u16::from_le_bytes(self.divisor)
    }
}

/// Brings up the plain registers; whether the port let it be done.
///
/// A DesignWare with a byte to be read is busy, and keeps its LCR (DW_apb_uart
/// databook, LCR): what was read as the divisor would then be that byte.
fn leave_divisor(port: &impl Registers) -> bool {
    port.write8(LCR, 0);
    if port.read8(LCR) == 0 {
        return true;
    }
    port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE);
    let _ = port.read32(DW_USR);
    port.write8(LCR, 0);
    port.read8(LCR) == 0
}

fn identify(port: &impl Registers) -> Model {
    port.write8(FCR, fcr::ENABLE);
    let fifos = port.read8(IIR) & iir::FIFOS;
    if fifos == 0 {
        return if keeps_scratch(port) {
            Model::Uart16450
        } else {
            Model::Uart8250
        };
    }
    if fifos != iir::FIFOS {
        return Model::Uart16550;
    }
    if port.read32(DW_CTR) == dw::CTR {
        Model::DesignWare
    } else if has_efr(port) {
        identify_enhanced(port)
    } else if has_64_byte_mode(port) {
        Model::Uart16750
    } else {
        Model::Uart16550A
    }
}

fn keeps_scratch(port: &impl Registers) -> bool {
    [0x55, 0xaa].into_iter().all(|pattern| {
        port.write8(SCR, pattern);
        port.read8(SCR) == pattern
    })
}

/// The enhanced feature register hides behind a value of the LCR that no frame
/// has. Elsewhere the IIR stays there, and shows the FIFOs enabled.
fn has_efr(port: &impl Registers) -> bool {
    port.write8(LCR, lcr::ENHANCED);
    let there = port.read8(EFR) & iir::FIFOS != iir::FIFOS;
    port.write8(LCR, 0);
    there
}

fn identify_enhanced(port: &impl Registers) -> Model {
    if has_950_id(port) {
        return Model::Uart16950;
    }
    // XR16C850 data sheet, "Device identification": with a divisor of 0 the
    // divisor latch shows who it is.
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 0);
    port.write8(DLM, 0);
    let id = port.read8(DLM);
    port.write8(LCR, 0);
    if id == 0x10 {
        Model::Uart16850
    } else {
        Model::Uart16650V2
    }
}

/// OX16C950 data sheet, "Identification registers".
fn has_950_id(port: &impl Registers) -> bool {
    let indexed = |index, value| {
        port.write8(SCR, index);
        port.write8(ICR, value);
    };
    port.write8(LCR, lcr::ENHANCED);
    let features = port.read8(EFR);
    port.write8(EFR, features | efr::ENHANCED);
    port.write8(LCR, 0);
    indexed(icr::ACR, icr::ACR_READ);
    let found = icr::ID.into_iter().zip(icr::ID1..).all(|(id, index)| {
        port.write8(SCR, index);
        port.read8(ICR) == id
    });
    indexed(icr::ACR, 0);
    port.write8(LCR, lcr::ENHANCED);
    port.write8(EFR, features);
    port.write8(LCR, 0);
    found
}

/// TL16C750 data sheet, "FIFO control register": bit 5 can be set with DLAB, and
/// shows in the IIR.
fn has_64_byte_mode(port: &impl Registers) -> bool {
    port.write8(LCR, lcr::DLAB);
    port.write8(FCR, fcr::ENABLE | fcr::FIFO_64);
    let on = port.read8(IIR) & iir::FIFO_64 != 0;
    port.write8(FCR, fcr::ENABLE);
    let off = port.read8(IIR) & iir::FIFO_64 == 0;
    port.write8(LCR, 0);
    on && off
}

fn designware_fifo(port: &impl Registers) -> usize {
    match port.read32(DW_CPR) >> dw::CPR_FIFO_SHIFT & 0xff {
        // Without component parameters, or without FIFOs in them.
        0 | 0xff => Model::DesignWare.transmit_load(),
        sixteens => (sixteens as usize * 16).min(LARGEST / 2),
    }
}

/// Measures the depth of the *receive* FIFO, by loopback: bytes are sent one
/// after the other, and nobody reads them, until one is lost. It says nothing of
/// the transmit FIFO.
///
/// Takes a frame's time for each byte at the rate that is set, at most 256; `0` if
/// the bytes do not come back. Empties the FIFOs. To be called while nobody uses
/// the port.
pub fn receive_fifo_depth(
    registers: &impl Registers,
    clock: &impl Clock,
    frame_time: Nanos,
) -> usize {
    let saved = registers.read8(MCR);
    // On a 16550 they do not work, and were turned off for that.
    let were_on = registers.read8(IIR) & iir::FIFOS == iir::FIFOS;
    let clear = || {
        let clear = fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT;
        registers.write8(FCR, clear);
    };
    registers.write8(MCR, mcr::LOOP);
    clear();
    let mut depth = 0;
    let came_back = || -> Option<bool> {
        registers.write8(THR, 0x55);
        // One frame and its neighbours; a look takes time too.
        let pause = Nanos::from_micros(1);
        let mut bound = Bound::new(clock.now(), frame_time * 4 + Nanos::from_micros(100));
        while !bound.is_spent() {
            let status = registers.read8(LSR);
            if status == !0 {
                return None;
            }
            if status & lsr::TEMT != 0 {
                return Some(status & lsr::OVERRUN == 0);
            }
            clock.wait_until(clock.now() + pause);
            bound.charge(clock.now(), pause);
        }
        None
    };
    while depth < LARGEST && came_back() == Some(true) {
        depth += 1;
    }
    // What was counted must be there.
    let there = (0..LARGEST).take_while(|_| {
        let ready = registers.read8(LSR) & lsr::DATA_READY != 0;
        ready && registers.read8(RBR) == 0x55
    });
    depth = depth.min(there.count());
    clear();
    if !were_on {
        registers.write8(FCR, 0);
    }
    registers.write8(MCR, saved);
    depth
}
