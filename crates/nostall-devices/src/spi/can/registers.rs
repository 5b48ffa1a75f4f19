//! Addresses and bits, by the data sheet's names ("Register Map", "CAN Controller
//! Register Map").

/// Registers; addresses have 7 bits.
pub(super) const REGISTERS: usize = 128;

/// Filters 0 to 2; 3 to 5 are 16 bytes on. Four bytes each.
pub(super) const RXF0SIDH: u8 = 0x00;
pub(super) const RXF3SIDH: u8 = 0x10;
pub(super) const RXM0SIDH: u8 = 0x20;
pub(super) const RXM1SIDH: u8 = 0x24;
/// In every row of 16.
pub(super) const CANSTAT: u8 = 0x0e;
/// In every row of 16.
pub(super) const CANCTRL: u8 = 0x0f;
pub(super) const TXRTSCTRL: u8 = 0x0d;
pub(super) const TEC: u8 = 0x1c;
pub(super) const REC: u8 = 0x1d;
pub(super) const CNF3: u8 = 0x28;
pub(super) const CNF1: u8 = 0x2a;
pub(super) const CANINTE: u8 = 0x2b;
pub(super) const CANINTF: u8 = 0x2c;
pub(super) const EFLG: u8 = 0x2d;
/// Of buffer n, 16 n on; its SIDH follows.
pub(super) const TXB0CTRL: u8 = 0x30;
/// Of buffer n, 16 n on; its SIDH follows.
pub(super) const RXB0CTRL: u8 = 0x60;

/// CANCTRL and CANSTAT: the mode, wanted and had.
pub(super) const MODE: u8 = 0xe0;
/// CANCTRL after a reset: configuration mode, CLKOUT with a prescaler of 8.
pub(super) const CANCTRL_RESET: u8 = 0x87;
/// Modes, in place.
pub(super) const MODE_NORMAL: u8 = 0x00;
pub(super) const MODE_LOOPBACK: u8 = 0x40;
pub(super) const MODE_LISTEN_ONLY: u8 = 0x60;
pub(super) const MODE_CONFIGURATION: u8 = 0x80;

/// CANINTF and CANINTE: buffer n is full, n places on.
pub(super) const RX0IF: u8 = 1 << 0;
/// Buffer n is empty again, n places on.
pub(super) const TX0IF: u8 = 1 << 2;
/// Something in EFLG.
pub(super) const ERRIF: u8 = 1 << 5;

/// EFLG: a frame found buffer n full, n places on.
pub(super) const RX0OVR: u8 = 1 << 6;

/// TXBnCTRL: it is to be sent.
pub(super) const TXREQ: u8 = 1 << 3;
/// TXBnCTRL: its priority.
pub(super) const TXP: u8 = 3;
/// TXBnCTRL: bits that a write changes.
pub(super) const TXBCTRL_WRITABLE: u8 = TXREQ | TXP;

/// RXBnCTRL: which frames; all bits: any.
pub(super) const RXM: u8 = 0x60;
/// RXBnCTRL: the frame asks for data.
pub(super) const RXRTR: u8 = 1 << 3;
/// RXB0CTRL: one that finds the first buffer full goes to the second.
pub(super) const BUKT: u8 = 1 << 2;
/// RXB0CTRL: BUKT again, read-only.
pub(super) const BUKT1: u8 = 1 << 1;

/// SIDL: the identifier is extended.
pub(super) const SIDL_EXIDE: u8 = 1 << 3;
/// RXBnSIDL: a standard frame asks for data.
pub(super) const SIDL_SRR: u8 = 1 << 4;
/// DLC: the frame asks for data.
pub(super) const DLC_RTR: u8 = 1 << 6;
