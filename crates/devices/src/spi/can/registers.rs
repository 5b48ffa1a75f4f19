//! Register addresses and bits, named as in the data sheet ("Register Map", "CAN Controller
//! Register Map").

/// Size of the register file; addresses have 7 bits.
pub(super) const REGISTERS: usize = 128;

/// SIDH of filters 0 and 3. The filters 1, 2, 4 and 5 follow, four bytes each.
pub(super) const RXF0SIDH: u8 = 0x00;
pub(super) const RXF3SIDH: u8 = 0x10;
pub(super) const RXM0SIDH: u8 = 0x20;
pub(super) const RXM1SIDH: u8 = 0x24;
/// CANSTAT; visible at this offset in every row of 16 registers.
pub(super) const CANSTAT: u8 = 0x0e;
/// CANCTRL; visible at this offset in every row of 16 registers.
pub(super) const CANCTRL: u8 = 0x0f;
pub(super) const TXRTSCTRL: u8 = 0x0d;
pub(super) const TEC: u8 = 0x1c;
pub(super) const REC: u8 = 0x1d;
pub(super) const CNF3: u8 = 0x28;
pub(super) const CNF1: u8 = 0x2a;
pub(super) const CANINTE: u8 = 0x2b;
pub(super) const CANINTF: u8 = 0x2c;
pub(super) const EFLG: u8 = 0x2d;
/// TXBnCTRL is at 16 n above this address; TXBnSIDH follows it.
pub(super) const TXB0CTRL: u8 = 0x30;
/// RXBnCTRL is at 16 n above this address; RXBnSIDH follows it.
pub(super) const RXB0CTRL: u8 = 0x60;

/// REQOP of CANCTRL and OPMOD of CANSTAT: requested and current mode.
pub(super) const MODE: u8 = 0xe0;
/// Value of CANCTRL after a reset: configuration mode, CLKOUT enabled with a prescaler of 8.
pub(super) const CANCTRL_RESET: u8 = 0x87;
/// Values of the [`MODE`] field.
pub(super) const MODE_NORMAL: u8 = 0x00;
pub(super) const MODE_LOOPBACK: u8 = 0x40;
pub(super) const MODE_LISTEN_ONLY: u8 = 0x60;
pub(super) const MODE_CONFIGURATION: u8 = 0x80;

/// CANINTF and CANINTE: receive buffer 0 is full. Buffer n is n bits higher.
pub(super) const RX0IF: u8 = 1 << 0;
/// CANINTF and CANINTE: transmit buffer 0 is empty. Buffer n is n bits higher.
pub(super) const TX0IF: u8 = 1 << 2;
/// CANINTF and CANINTE: EFLG reports an error.
pub(super) const ERRIF: u8 = 1 << 5;

/// EFLG: receive buffer 0 overflowed. Buffer 1 is one bit higher.
pub(super) const RX0OVR: u8 = 1 << 6;

/// TXBnCTRL: transmission is requested.
pub(super) const TXREQ: u8 = 1 << 3;
/// TXBnCTRL: transmit priority, 0 to 3.
pub(super) const TXP: u8 = 3;
/// TXBnCTRL: writable bits.
pub(super) const TXBCTRL_WRITABLE: u8 = TXREQ | TXP;

/// RXBnCTRL: receive mode. With both bits set, any frame is received.
pub(super) const RXM: u8 = 0x60;
/// RXBnCTRL: the received frame is a remote frame.
pub(super) const RXRTR: u8 = 1 << 3;
/// RXB0CTRL: a frame for a full first buffer rolls over to the second.
pub(super) const BUKT: u8 = 1 << 2;
/// RXB0CTRL: read-only copy of BUKT.
pub(super) const BUKT1: u8 = 1 << 1;

/// SIDL: the identifier is extended.
pub(super) const SIDL_EXIDE: u8 = 1 << 3;
/// RXBnSIDL: the received standard frame is a remote frame.
pub(super) const SIDL_SRR: u8 = 1 << 4;
/// DLC: the frame is a remote frame.
pub(super) const DLC_RTR: u8 = 1 << 6;
