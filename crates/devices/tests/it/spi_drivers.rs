//! Published drivers on our bus and our models.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use embedded_can::{ExtendedId, Frame as _, Id, StandardId};
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, OutputPin};
use embedded_sdmmc::{Block, BlockDevice, BlockIdx, SdCard};
use mcp2515::{
    CanSpeed, MCP2515, McpSpeed, Settings as CanSettings, frame::CanFrame, regs::OpMode,
};
use nostall_devices::VirtualClock;
use nostall_devices::spi::{CardFault, Flash, Frame, Identifier, Mcp2515, SelectLine, Wires};
use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::Hal;
use nostall_spi::{Bare, Bus, Device, Select, Settings, Slots};
use w25q32jv::W25q32jv;

type OnWires = Bus<Hal<Wires, [SelectLine; 1]>, Bare<VirtualClock>, Slots<4, 0, 0>>;
type OnLine<'b> = Device<'b, Hal<Wires, [SelectLine; 1]>, Bare<VirtualClock>>;

const SETTINGS: Settings = Settings::new(1_000_000, 0);

fn bus(wires: &Wires, line: SelectLine, clock: &VirtualClock) -> OnWires {
    let fixed = (SETTINGS.clock, SETTINGS.mode);
    let controller = Hal::new(wires.clone(), [line], fixed);
    Bus::sized(controller, Bare(clock.clone()))
}

struct Delay(VirtualClock);

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        self.0.advance(Nanos(ns.into()));
    }
}

struct Unwired;

impl ErrorType for Unwired {
    type Error = Infallible;
}

impl OutputPin for Unwired {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[test]
fn a_flash_driver_erases_writes_and_reads_back() {
    let clock = VirtualClock::new();
    let wires = Wires::new(clock.clone());
    let chip = Rc::new(RefCell::new(Flash::new(clock.clone())));
    chip.borrow_mut().memory_mut()[..3 * 4096].fill(0x55);
    let bus = bus(&wires, wires.connect(chip.clone()), &clock);
    let mut flash = W25q32jv::new(bus.device(SETTINGS).unwrap(), Unwired, Unwired).unwrap();
    let text: Vec<u8> = (0..1000_u32).map(|n| (n * 7 % 251) as u8).collect();
    flash.erase_sector(1).unwrap();
    flash.write_blocking(0x1080, &text).unwrap();
    let mut back = vec![0; 1000];
    flash.read(0x1080, &mut back).unwrap();
    assert_eq!(back, text);
    let chip = chip.borrow();
    assert_eq!(chip.memory()[0x1080..][..1000], text);
    assert_eq!((chip.memory()[0xfff], chip.memory()[0x1000]), (0x55, 0xff));
    assert_eq!((chip.memory()[0x1fff], chip.memory()[0x2000]), (0xff, 0x55));
    // The driver has waited for an erase and five pages.
    assert!(clock.now() > Nanos::from_millis(71));
}

/// A card of `blocks` blocks that is inserted and has received its initial clocks.
struct Slot {
    clock: VirtualClock,
    bus: OnWires,
    card: Rc<RefCell<nostall_devices::spi::SdCard<VirtualClock, Vec<u8>>>>,
}

impl Slot {
    fn new(blocks: usize, wake: usize) -> Self {
        let clock = VirtualClock::new();
        let wires = Wires::new(clock.clone());
        let memory = (0..blocks * 512).map(|n| (n / 512 + n) as u8).collect();
        let card = nostall_devices::spi::SdCard::new(clock.clone(), memory);
        let card = Rc::new(RefCell::new(card));
        let bus = bus(&wires, wires.connect(card.clone()), &clock);
        let none = Settings::new(1_000_000, 0).select(Select::None);
        bus.device(none).unwrap().write(&vec![0xff; wake]).unwrap();
        Self { clock, bus, card }
    }

    fn driver(&self) -> SdCard<OnLine<'_>, Delay> {
        SdCard::new(
            self.bus.device(SETTINGS).unwrap(),
            Delay(self.clock.clone()),
        )
    }
}

#[test]
fn a_card_driver_reads_and_writes_one_block_and_several() {
    let slot = Slot::new(4096, 10);
    let card = slot.driver();
    assert_eq!(card.num_bytes().unwrap(), 4096 * 512);
    let mut blocks = [Block::new(), Block::new(), Block::new()];
    card.read(&mut blocks[..1], BlockIdx(4095)).unwrap();
    assert_eq!(
        blocks[0].contents[..],
        slot.card.borrow().memory()[4095 * 512..]
    );
    card.read(&mut blocks, BlockIdx(7)).unwrap();
    for (block, number) in blocks.iter().zip(7..) {
        let memory = slot.card.borrow().memory()[number * 512..][..512].to_vec();
        assert_eq!(block.contents[..], memory);
    }
    card.write(&blocks[1..2], BlockIdx(100)).unwrap();
    card.write(&blocks, BlockIdx(200)).unwrap();
    // The next access waits until the block is written.
    let mut again = [Block::new()];
    card.read(&mut again, BlockIdx(202)).unwrap();
    assert_eq!(again[0].contents, blocks[2].contents);
    let memory = slot.card.borrow().memory().clone();
    assert_eq!(memory[100 * 512..][..512], blocks[1].contents);
    assert_eq!(memory[201 * 512..][..512], blocks[1].contents);
    assert!(card.read(&mut again, BlockIdx(4096)).is_err());
}

#[test]
fn a_card_without_its_initial_clocks_does_not_respond() {
    // 72 clocks instead of 74.
    assert!(Slot::new(64, 9).driver().num_bytes().is_err());
}

#[test]
fn a_card_reports_the_next_capacity_that_its_register_can_express() {
    assert_eq!(Slot::new(1, 10).driver().num_bytes().unwrap(), 512 << 10);
    let slot = Slot::new(1025, 10);
    let card = slot.driver();
    assert_eq!(card.num_bytes().unwrap(), 1 << 20);
    // Blocks without memory behind them read as zeros, and stay so.
    let mut block = [Block::new()];
    block[0].contents.fill(1);
    card.read(&mut block, BlockIdx(2047)).unwrap();
    assert_eq!(block[0].contents, [0; 512]);
    assert!(card.write(&block, BlockIdx(2047)).is_err());
}

#[test]
fn every_fault_of_a_card_is_an_error_in_bounded_time() {
    for fault in [
        CardFault::BadCrc,
        CardFault::Unreadable,
        CardFault::NeverReady,
        CardFault::Silent,
    ] {
        for after in [0, 2] {
            let slot = Slot::new(64, 10);
            slot.card.borrow_mut().set_fault(fault, after);
            let card = slot.driver();
            let mut block = [Block::new()];
            let read = (0..4)
                .take_while(|&number| card.read(&mut block, BlockIdx(number)).is_ok())
                .count();
            // The driver polls the card's readiness before it reads a block.
            let expected = if fault == CardFault::NeverReady && after > 0 {
                4
            } else {
                after
            };
            assert_eq!(read, expected as usize, "{fault:?} after {after}");
            assert!(slot.clock.now() < Nanos::from_secs(60), "{fault:?}");
        }
    }
}

#[test]
fn a_can_driver_sends_and_receives() {
    let clock = VirtualClock::new();
    let wires = Wires::new(clock.clone());
    let chip = Rc::new(RefCell::new(Mcp2515::new()));
    let bus = bus(&wires, wires.connect(chip.clone()), &clock);
    let mut driver = MCP2515::new(bus.device(SETTINGS).unwrap());
    let settings = CanSettings {
        mode: OpMode::Normal,
        can_speed: CanSpeed::Kbps1000,
        mcp_speed: McpSpeed::MHz16,
        clkout_en: false,
    };
    assert!(
        !chip
            .borrow_mut()
            .receive(&Frame::new(Identifier::Standard(1), &[]))
    );
    driver.init(&mut Delay(clock.clone()), settings).unwrap();

    let sent = CanFrame::new(Id::Standard(StandardId::new(0x123).unwrap()), &[1, 2, 3]).unwrap();
    driver.send_message(sent).unwrap();
    let frame = Frame::new(Identifier::Standard(0x123), &[1, 2, 3]);
    assert_eq!(chip.borrow_mut().transmit(), Some(frame));
    assert_eq!(chip.borrow_mut().transmit(), None);

    // A standard frame for the first buffer. The second one rolls over into the second buffer.
    for (id, data) in [(5, &[9; 8][..]), (6, &[])] {
        let frame = Frame::new(Identifier::Standard(id), data);
        assert!(chip.borrow_mut().receive(&frame));
        assert!(chip.borrow().interrupts());
    }
    assert!(
        !chip
            .borrow_mut()
            .receive(&Frame::new(Identifier::Standard(7), &[]))
    );
    assert_eq!(chip.borrow().overflows(), 1);
    let first = driver.read_message().unwrap();
    assert_eq!(first.id(), Id::Standard(StandardId::new(5).unwrap()));
    assert_eq!(first.data(), [9; 8]);
    let second = driver.read_message().unwrap();
    assert_eq!(second.id(), Id::Standard(StandardId::new(6).unwrap()));
    assert!(driver.read_message().is_err());

    // The second filter accepts extended frames.
    let id = 0x1abc_def0;
    let extended = Frame::new(Identifier::Extended(id), &[4]);
    assert!(chip.borrow_mut().receive(&extended));
    let got = driver.read_message().unwrap();
    assert_eq!(got.id(), Id::Extended(ExtendedId::new(id).unwrap()));
}

#[test]
fn in_loopback_a_sent_frame_is_received() {
    let clock = VirtualClock::new();
    let wires = Wires::new(clock.clone());
    let chip = Rc::new(RefCell::new(Mcp2515::new()));
    let bus = bus(&wires, wires.connect(chip.clone()), &clock);
    let mut driver = MCP2515::new(bus.device(SETTINGS).unwrap());
    let settings = CanSettings {
        mode: OpMode::Loopback,
        can_speed: CanSpeed::Kbps500,
        mcp_speed: McpSpeed::MHz8,
        clkout_en: true,
    };
    driver.init(&mut Delay(clock.clone()), settings).unwrap();
    let id = Id::Extended(ExtendedId::new(0x0123_4567).unwrap());
    let sent = CanFrame::new(id, &[8, 7, 6, 5, 4, 3, 2, 1]).unwrap();
    driver.send_message(sent).unwrap();
    let back = driver.read_message().unwrap();
    assert_eq!(
        (back.id(), back.data()),
        (id, &[8, 7, 6, 5, 4, 3, 2, 1][..])
    );
    assert_eq!(chip.borrow_mut().transmit(), None);
}
