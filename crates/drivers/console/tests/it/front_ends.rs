//! Records from `log` and `tracing`.
#![cfg(all(feature = "log", feature = "tracing"))]

use log::Log as _;
use nostall_console::{
    EMERGENCY, Kernel, Level, Logger, Priority, Ring, RingLayer, Slot, SystemConsole,
};
use nostall_io::{Clock, Nanos};
use tracing_subscriber::layer::SubscriberExt as _;

fn records(ring: &Ring) -> Vec<(String, String, Level, u16, Nanos)> {
    let mut cursor = nostall_console::Cursor::START;
    let mut all = Vec::new();
    while let nostall_console::Read::Record(record) = cursor.read(ring) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        all.push((
            text(record.target()),
            text(record.text()),
            record.level,
            record.cpu,
            record.time,
        ));
    }
    all
}

#[test]
fn records_of_log_are_in_the_ring() {
    static RING: Ring<[Slot; 64]> = Ring::new();
    static LOGGER: Logger<'static, Machine> = Logger::new(&RING, Machine);
    let say = |level, args: std::fmt::Arguments<'_>| {
        let record = log::Record::builder()
            .level(level)
            .target("pci")
            .args(args)
            .build();
        LOGGER.log(&record);
    };
    say(log::Level::Warn, format_args!("{} bridges", 2));
    say(log::Level::Trace, format_args!("done"));
    let of = |text: &str, level| ("pci".into(), text.into(), level, 3, Nanos(12));
    assert_eq!(
        records(&RING),
        [of("2 bridges", Level::Warning), of("done", Level::Debug)]
    );
}

#[test]
fn an_event_of_tracing_is_logged_with_its_message_and_its_fields() {
    static RING: Ring<[Slot; 64]> = Ring::new();
    let subscriber = tracing_subscriber::registry().with(RingLayer::new(&RING, Machine));
    tracing::subscriber::with_default(subscriber, || {
        tracing::error!(target: "spi", bus = 1, name = "flash", "no answer after {} ms", 200);
    });
    let text = "no answer after 200 ms bus=1 name=\"flash\"";
    assert_eq!(
        records(&RING),
        [("spi".into(), text.into(), Level::Error, 3, Nanos(12))]
    );
}

#[test]
fn the_target_emergency_marks_an_emergency_in_both() {
    static RING: Ring<[Slot; 64]> = Ring::new();
    static LOGGER: Logger<'static, Machine> = Logger::new(&RING, Machine);
    let say = |target| {
        let mut record = log::Record::builder();
        LOGGER.log(&record.target(target).args(format_args!("x")).build());
    };
    for target in [EMERGENCY, "emergency::watchdog", "emergency_room", "pci"] {
        say(target);
    }
    let subscriber = tracing_subscriber::registry().with(RingLayer::new(&RING, Machine));
    tracing::subscriber::with_default(subscriber, || {
        tracing::error!(target: EMERGENCY, "x");
        tracing::error!(target: "pci", "x");
    });
    let mut cursor = nostall_console::Cursor::START;
    for urgent in [true, true, false, false, true, false] {
        let nostall_console::Read::Record(record) = cursor.read(&RING) else {
            panic!("a record is missing");
        };
        assert_eq!(record.priority == Priority::Emergency, urgent, "{record:?}");
    }
}

impl Clock for Machine {
    fn now(&self) -> Nanos {
        Nanos(12)
    }
}

/// The services of a kernel.
struct Machine;

impl Kernel for Machine {
    fn cpu(&self) -> u16 {
        3
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

#[test]
fn a_system_console_is_a_logger_and_a_layer() {
    static RING: Ring<[Slot; 64]> = Ring::new();
    static CONSOLE: SystemConsole<nostall_io::Mmio, Machine> = SystemConsole::new(&RING, Machine);
    let logger: &dyn log::Log = &CONSOLE;
    logger.log(
        &log::Record::builder()
            .level(log::Level::Warn)
            .target("pci")
            .args(format_args!("{} bridges", 2))
            .build(),
    );
    let subscriber = tracing_subscriber::registry().with(&CONSOLE);
    tracing::subscriber::with_default(subscriber, || {
        tracing::error!(target: "spi", bus = 1, "no answer");
    });
    let of = |target: &str, text: &str, level| (target.into(), text.into(), level, 3, Nanos(12));
    assert_eq!(
        records(&RING),
        [
            of("pci", "2 bridges", Level::Warning),
            of("spi", "no answer bus=1", Level::Error)
        ]
    );
}
