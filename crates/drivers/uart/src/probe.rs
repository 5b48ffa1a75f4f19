//! Identification of a port's model.

use nostall_io::{Clock, Held, Nanos, Registers, StallCondition, Timeout};

use crate::Model;
use crate::registers::{
    DLL, DLM, DW_CPR, DW_CTR, EFR, FCR, ICR, IER, IIR, LCR, LSR, MCR, RBR, SCR, THR, dw, efr, fcr,
    icr, iir, lcr, lsr, mcr,
};
use crate::setup::{NotFound, answers};

/// Result of probing a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Model of the port. A [`Model::Bcm2835Mini`] or a [`Model::DesignWare`] is reported as a
    /// 16550A.
    pub model: Model,
    /// Number of bytes that the transmitter takes when it reports empty.
    pub transmit_load: usize,
    /// Divisor at the time of probing; 0 after reset.
    pub divisor: u16,
}

/// Upper limit of a measured depth: twice the largest FIFO of the family.
const LARGEST: usize = 256;

/// Identifies the port behind `registers`, using the methods of the data sheets.
///
/// Restores the port's line settings, interrupts and modem lines; clears its FIFOs. The scratch
/// register may change. Nothing is sent. Call it while the port is not in use and its transmitter
/// is empty.
///
/// Only the eight registers that every model has are accessed, however large the window is, because
/// another device may follow them. So the component registers of a DesignWare are not read, and it
/// is reported as a 16550A with the same load. If firmware or a device tree names a DesignWare,
/// name it in the [`ConsoleSettings`](crate::ConsoleSettings).
///
/// # Errors
///
/// [`NotFound`] if no port answers.
pub fn probe(registers: &impl Registers) -> Result<Probed, NotFound> {
    let saved = Saved::take(registers)?;
    let model = identify(registers);
    let divisor = saved.restore(registers);
    Ok(Probed {
        model,
        transmit_load: model.transmit_load(),
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
    /// Saves the registers. Also tests that a port answers.
    fn take(port: &impl Registers) -> Result<Self, NotFound> {
        let (lcr, mcr) = (port.read8(LCR), port.read8(MCR));
        // No model has all these bits set.
        if lcr == !0 && mcr == !0 {
            return Err(NotFound);
        }
        // A received byte keeps a DesignWare busy; see `write_lcr`.
        let mut fifos = None;
        if lcr & lcr::DLAB == 0 {
            fifos = Some(port.read8(IIR));
            port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE);
        }
        if !write_lcr(port, 0) || port.read8(LCR) != 0 {
            return Err(NotFound);
        }
        let ier = port.read8(IER);
        if !answers(port, Model::Uart16550A) {
            port.write8(IER, ier);
            port.write8(LCR, lcr);
            return Err(NotFound);
        }
        let fifos = fifos.unwrap_or_else(|| port.read8(IIR));
        if !write_lcr(port, lcr::DLAB) {
            port.write8(IER, ier);
            port.write8(MCR, mcr);
            return Err(NotFound);
        }
        let divisor = [port.read8(DLL), port.read8(DLM)];
        write_lcr(port, 0);
        Ok(Self {
            lcr,
            mcr,
            ier,
            fifos: fifos & iir::FIFOS == iir::FIFOS,
            divisor,
        })
    }

    fn restore(&self, port: &impl Registers) -> u16 {
        if write_lcr(port, lcr::DLAB) {
            port.write8(DLL, self.divisor[0]);
            port.write8(DLM, self.divisor[1]);
        }
        // While DLAB is set, some models have another register at the FCR's offset.
        write_lcr(port, 0);
        port.write8(FCR, if self.fifos { fcr::ENABLE } else { 0 });
        write_lcr(port, self.lcr);
        port.write8(MCR, self.mcr);
        if self.lcr & lcr::DLAB == 0 {
            port.write8(IER, self.ier);
        }
        u16::from_le_bytes(self.divisor)
    }
}

/// Writes the LCR. Returns whether the port accepted the value.
///
/// A DesignWare with a received byte is busy, and keeps its LCR (DW_apb_uart databook, LCR). The
/// divisor would then be read from the receiver and written to the transmitter.
fn write_lcr(port: &impl Registers, value: u8) -> bool {
    (0..2).any(|_| {
        port.write8(LCR, value);
        let taken = (port.read8(LCR) ^ value) & lcr::DLAB == 0;
        if !taken {
            port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE);
        }
        taken
    })
}

fn identify(port: &impl Registers) -> Model {
    port.write8(FCR, fcr::ENABLE);
    let shown = port.read8(IIR);
    let fifos = shown & iir::FIFOS;
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
    match behind(port, lcr::DLAB, shown) {
        Behind::Enhanced => return Model::Uart16650,
        Behind::Other => return Model::Uart16550A,
        Behind::Iir => {}
    }
    if behind(port, lcr::ENHANCED, shown) == Behind::Enhanced {
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

/// Register at the IIR's offset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Iir,
    /// Enhanced feature register.
    Enhanced,
    /// A register that the 16550A does not have.
    Other,
}

/// Returns the register at the IIR's offset while the LCR holds `value`.
///
/// The first version of the ST16C650 has its enhanced feature register there while DLAB is set.
/// Later models have it only with an LCR value that no frame uses. The DUART of Freescale's MPC8xxx
/// and Layerscape has another register there while DLAB is set, whose upper bits are not writable.
/// On other models the IIR stays. It reports no interrupt, because none is enabled. (Linux's
/// `8250_port.c` distinguishes the models in this way.)
fn behind(port: &impl Registers, value: u8, iir: u8) -> Behind {
    port.write8(LCR, value);
    let shown = port.read8(EFR);
    let behind = if port.read8(LCR) != value || shown == iir {
        Behind::Iir
    } else {
        let flow_control = !shown & efr::FLOW_CONTROL;
        port.write8(EFR, flow_control);
        let kept = port.read8(EFR) & efr::FLOW_CONTROL == flow_control;
        port.write8(EFR, shown);
        if kept {
            Behind::Enhanced
        } else {
            Behind::Other
        }
    };
    port.write8(LCR, 0);
    behind
}

fn identify_enhanced(port: &impl Registers) -> Model {
    if has_950_id(port) {
        return Model::Uart16950;
    }
    // XR16C850 data sheet, "Device identification": with a divisor of 0, the divisor latch returns
    // the device's ID.
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 0);
    port.write8(DLM, 0);
    let id = port.read8(DLM);
    port.write8(LCR, 0);
    if EXAR_IDS.contains(&id) {
        Model::Uart16850
    } else {
        Model::Uart16650V2
    }
}

/// Device IDs of the XR16C850 and of the versions with two and four ports (XR16C2850 and XR16C854
/// data sheets, "Device identification").
const EXAR_IDS: [u8; 3] = [0x10, 0x12, 0x14];

/// Returns whether the port has a 16950's ID (OX16C950 data sheet, "Identification registers").
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
    let found = icr::IDS.into_iter().zip(icr::ID1..).all(|(ids, index)| {
        port.write8(SCR, index);
        ids.contains(&port.read8(ICR))
    });
    indexed(icr::ACR, 0);
    port.write8(LCR, lcr::ENHANCED);
    port.write8(EFR, features);
    port.write8(LCR, 0);
    found
}

/// Returns whether the FIFOs have a 64-byte mode. Bit 5 of the FCR can be set with DLAB, and is
/// then set in the IIR (TL16C750 data sheet, "FIFO control register").
fn has_64_byte_mode(port: &impl Registers) -> bool {
    port.write8(LCR, lcr::DLAB);
    port.write8(FCR, fcr::ENABLE | fcr::FIFO_64);
    let on = port.read8(IIR) & iir::FIFO_64 != 0;
    port.write8(FCR, fcr::ENABLE);
    let off = port.read8(IIR) & iir::FIFO_64 == 0;
    port.write8(LCR, 0);
    on && off
}

/// Returns the transmit load of a named DesignWare. Reads it from the component parameters, if the
/// chip has them and the window covers them with 32-bit accesses.
pub(crate) fn designware_load(port: &impl Registers) -> usize {
    let least = Model::DesignWare.transmit_load();
    if port.read32(DW_CTR) != dw::CTR {
        return least;
    }
    match port.read32(DW_CPR) >> dw::CPR_FIFO_SHIFT & 0xff {
        0 => least,
        sixteens => (sixteens as usize * 16).min(LARGEST / 2),
    }
}

/// Measures the depth of the *receive* FIFO in loopback mode: sends bytes, reads none, and counts
/// until one is lost. Does not measure the transmit FIFO.
///
/// Takes the time of one frame for each byte at the current rate, and sends at most 256. Returns
/// `0` if the bytes do not come back. Clears the FIFOs. No other code may use the port meanwhile.
pub fn receive_fifo_depth(
    registers: &impl Registers,
    clock: &impl Clock,
    frame_time: Nanos,
) -> usize {
    let saved = registers.read8(MCR);
    // The FIFOs of a 16550 do not work, and may have been disabled.
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
        let _held = Held::begin(StallCondition::PortSetup);
        // Time of one frame and its neighbours, and of the polls.
        let pause = Nanos::from_micros(1);
        let mut timeout = Timeout::new(clock.now(), frame_time * 4 + Nanos::from_micros(100));
        while !timeout.is_over() {
            let status = registers.read8(LSR);
            if status == !0 {
                return None;
            }
            if status & lsr::TEMT != 0 {
                return Some(status & lsr::OVERRUN == 0);
            }
            clock.wait_until(clock.now() + pause);
            timeout.charge(clock.now(), pause);
        }
        None
    };
    while depth < LARGEST && came_back() == Some(true) {
        depth += 1;
    }
    // The counted bytes must be in the FIFO.
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
