//! The SPI experiment on a model and threads: faulty flash chips, and the busy bus.

use nostall_devices::spi::FlashFault;
use nostall_lab::experiments::spi::model::run as model;
use nostall_lab::experiments::spi::run::{SpiPlan, SpiReports};
use nostall_work::spi::BusStrategy as Driven;

const SOME_FRAMES: SpiPlan = SpiPlan {
    frames: 500,
    rounds: 1,
};

const NO_FRAMES: SpiPlan = SpiPlan {
    frames: 1,
    rounds: 0,
};

/// Returns the fault that the experiment reports, if any.
fn fault(reports: &SpiReports) -> Option<&str> {
    assert!(reports.faults.len() <= 1, "{:?}", reports.faults);
    reports.faults.first().map(|(_, what)| what.as_str())
}

#[test]
fn the_worker_is_woken_once_and_never_runs_a_message() {
    let reports = model(&SOME_FRAMES, None);
    let [pump, caller] = &reports.measured[..] else {
        panic!("{reports:?}")
    };
    assert_eq!(
        (pump.strategy, caller.strategy),
        (Driven::Pump, Driven::Caller)
    );
    for measured in [pump, caller] {
        assert_eq!(
            (measured.received, measured.wrong, measured.overflows),
            (500, 0, 0)
        );
        assert_eq!((measured.submitted, measured.sent), (50, 50));
        assert_eq!(measured.sync, 4 + 3 * 500);
        assert_eq!((measured.asynchronous, measured.errors), (100, 0));
        assert_eq!(measured.messages, 4 + 3 * 500 + 100);
        assert_eq!(measured.teardowns, measured.preparations);
    }
    assert_eq!(caller.by_worker, 0);
    if caller.pauses == 0 {
        assert_eq!(
            (caller.wakeups_meanwhile, caller.wakeups, caller.teardowns),
            (0, 0, 1)
        );
    }
    assert!(pump.wakeups > 1, "{pump:?}");
    assert_eq!(fault(&reports), None);
}

#[test]
fn a_flash_is_erased_and_written_and_nothing_else_in_it() {
    let reports = model(&NO_FRAMES, None);
    assert_eq!(reports.flash, Some([0x9d, 0x70, 0x19]));
    let (sector, inside) = (reports.sector.unwrap(), reports.in_flash.unwrap());
    assert_eq!(sector.not_erased, 0);
    assert_ne!(sector.before, sector.pattern);
    assert_eq!(sector.after, sector.pattern);
    assert_eq!((inside.before, inside.after), (sector.before, sector.after));
    assert!(sector.neighbours_kept && inside.rest_kept);
}

#[test]
fn a_broken_flash_is_reported() {
    let broken = |fault| model(&NO_FRAMES, Some(fault));
    let stuck = broken(FlashFault::StuckBusy);
    assert_eq!(fault(&stuck), Some("flash: still busy after 2.0 s"));
    let protected = broken(FlashFault::Protected);
    let why = "flash: it does not enable writes (status 00)";
    assert_eq!(fault(&protected), Some(why));
    let weak = broken(FlashFault::WeakErase);
    assert_eq!(weak.sector.unwrap().not_erased, 1);
    let weak = broken(FlashFault::WeakProgram);
    let sector = weak.sector.unwrap();
    assert_ne!(sector.after, sector.pattern);
    assert_eq!(weak.in_flash.unwrap().after, sector.after);
}
