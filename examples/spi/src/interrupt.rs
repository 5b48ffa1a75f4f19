//! Bare metal: an SD card and a display share a bus in a static. A button's interrupt
//! handler, which must not wait, submits.

use core::cell::OnceCell;

use critical_section::Mutex;
use display_interface::{DataFormat::U8, DisplayError, WriteOnlyDataCommand};
use display_interface_spi::SPIInterface;
use embedded_sdmmc::{Block, BlockDevice, BlockIdx, SdCard};
use nostall_spi::{Bare, Bus, Completed, Device, Settings, Transfer};

use crate::board::{self, Controller, DataCommand, Timer, controller};
use crate::card;

const CARD: Settings = Settings::new(400_000, 0);
const DISPLAY: Settings = Settings::new(400_000, 1);
pub static BUS: Bus<Controller, Bare<Timer>> = Bus::new(controller(), Bare(Timer));
static PANEL: Mutex<OnceCell<Device<Controller, Bare<Timer>>>> = Mutex::new(OnceCell::new());

/// Draws the card's first block, and returns it when the handler's mark is drawn too.
pub fn main() -> Result<[Block; 1], DisplayError> {
    let [on_card, on_display, panel] =
        [CARD, DISPLAY, DISPLAY].map(|device| BUS.device(device).expect("a line"));
    let card = SdCard::new(on_card, BUS.delay());
    card::start(&card).expect("a card is in");
    let mut block = [Block::new()];
    card.read(&mut block, BlockIdx(0)).expect("a card is in");
    let mut display = SPIInterface::new(on_display, DataCommand);
    display.send_commands(U8(&board::WHOLE_SCREEN))?;
    display.send_data(U8(&block[0].contents))?;
    critical_section::with(|section| PANEL.borrow(section).set(panel).ok());
    board::enable_button();
    while !board::is_led_on() {
        BUS.poll();
    }
    Ok(block)
}

/// The button's interrupt handler.
pub fn on_button() {
    critical_section::with(|section| {
        let panel = PANEL.borrow(section).get().expect("set before");
        let mark = &mut [Transfer::write(&[0xff; 16])];
        let stored = panel.submit_then(mark, &on_marked, 0);
        stored.expect("a place is free");
    });
}

/// Called by the owner of the bus: it must be short, and must not wait.
fn on_marked(completed: Completed<'_>) {
    board::set_led(completed.result.is_ok());
}
