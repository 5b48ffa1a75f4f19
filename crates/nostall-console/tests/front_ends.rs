//! Records from `log` and `tracing`.
#![cfg(all(feature = "log", feature = "tracing"))]

use log::Log as _;
use nostall_console::{Level, Logger, Ring, RingLayer, Slot};
use nostall_io::{Clock, Nanos, Processor};
use tracing_subscriber::layer::SubscriberExt as _;

struct Cpu3;

impl Processor for Cpu3 {
    fn id(&self) -> usize {
        3
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Nanos {
        Nanos(12)
    }
}

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
fn what_log_says_is_in_the_ring() {
    static RING: Ring<[Slot; 64]> = Ring::new();
    static LOGGER: Logger<'static, Noon, Cpu3> = Logger::new(&RING, Noon, Cpu3);
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
fn an_event_of_tracing_is_its_message_and_its_fields() {
    static RING: Ring<[Slot; 64]> = Ring::new();
    let subscriber = tracing_subscriber::registry().with(RingLayer::new(&RING, Noon, Cpu3));
    tracing::subscriber::with_default(subscriber, || {
        tracing::error!(target: "spi", bus = 1, name = "flash", "no answer after {} ms", 200);
    });
    let text = "no answer after 200 ms bus=1 name=\"flash\"";
    assert_eq!(
        records(&RING),
        [("spi".into(), text.into(), Level::Error, 3, Nanos(12))]
    );
}
