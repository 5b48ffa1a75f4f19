//! Two drivers of others share a bus in a static; an interrupt handler submits to it.
//!
//!     make spi-bare-metal
#![no_std]
#![no_main]

mod board;

use core::cell::RefCell;

use board::{Line, Ssi0, exit};
use cortex_m::peripheral::NVIC;
use critical_section::Mutex;
use embedded_hal::spi::SpiDevice;
use nostall_spi::controllers::{Fixed, Hal};
use nostall_spi::{Bare, Bus, Completed, Config, Device, Select, Settings, Transfer};

type Controller = Hal<Fixed<Ssi0>, (Line<2>, Line<3>)>;
type Clock = Bare<board::Systick>;
const FLASH: Settings = Settings::new(1_000_000, Select::line(0));
const DISPLAY: Settings = Settings::new(1_000_000, Select::line(1));

static BUS: Bus<Controller, Clock, 2, 2, 8> = Bus::new(
    Hal::new(Fixed::new(Ssi0, FLASH), (Line, Line)),
    Bare(board::Systick),
    Config::DEFAULT,
);
static READER: Mutex<RefCell<Option<Device<'static, Controller, Clock, 2, 2, 8>>>> =
    Mutex::new(RefCell::new(None));

#[cortex_m_rt::entry]
fn main() -> ! {
    board::set_up();
    let mut flash = BUS.device(FLASH).expect("it can be had");
    let reader = BUS.device(DISPLAY).expect("it can be had");
    critical_section::with(|section| READER.replace(section, Some(reader)));
    let mut id = [0x9f, 1, 2, 3];
    flash
        .transfer_in_place(&mut id)
        .expect("the wires are joined");
    NVIC::pend(board::Button);
    let next = BUS.poll(nostall_io::Clock::now(BUS.platform()));
    let counted = BUS.statistics();
    let good = id == [0x9f, 1, 2, 3] && counted.messages == 2 && next.is_some();
    exit(good && board::told() == [7, 0])
}

/// The button's interrupt: it must not wait, so it submits.
fn on_button() {
    critical_section::with(|section| {
        let reader = READER.borrow_ref(section);
        let submitted = reader.as_ref().map(|reader| {
            reader.submit_then(&mut [Transfer::in_place(&mut [7, 0])], &on_status, 0)
        });
        assert!(matches!(submitted, Some(Ok(()))));
    });
}

fn on_status(completed: Completed<'_>) {
    board::tell(completed.received(0));
}
