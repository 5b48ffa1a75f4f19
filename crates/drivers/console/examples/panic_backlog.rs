//! Choices for a panic with 3,000 unsent records on a port of 115,200 baud, in virtual time. Prints
//! the time that each takes, and the number of records that it sends.
//!
//!     cargo run -p nostall-console --example panic_backlog

use std::error::Error;

use nostall_console::{
    Drain, FlushLimits, Level, Meta, PanicOrder, Priority, Ring, SinkOptions, Slot, UartSink, flush,
};
use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Clock, Nanos};
use nostall_uart::{Console, LineSettings};

/// Virtual time in which a read of the clock takes 500 ns.
struct Advancing<C>(C);

impl<C: Clock> Clock for Advancing<C> {
    fn now(&self) -> Nanos {
        self.0.wait_until(self.0.now() + Nanos(500));
        self.0.now()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let within = |secs| FlushLimits::DEFAULT.total(Nanos::from_secs(secs));
    let first = PanicOrder::PanicFirst;
    let newest = PanicOrder::PanicThenNewest;
    println!("                                ends after      sent   the newest");
    for (name, order, limits) in [
        ("no backlog", newest(0), within(10)),
        ("the newest 50 records", newest(50), within(10)),
        ("the newest 500", newest(500), within(10)),
        ("from the oldest, 1 s", first, within(1)),
        ("from the oldest, 10 s", first, within(10)),
        ("from the oldest, all", first, within(3_600)),
    ] {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let clock = Advancing(&clock);
        let console = Console::open(&port, &clock, LineSettings::baud(115_200))?;
        let ring = Ring::<[Slot; 4096]>::new();
        let options = SinkOptions::DEFAULT.panic_order(order);
        let drain = Drain::new(&ring, UartSink::new(console), options);
        let meta = Meta {
            time: clock.now(),
            cpu: 0,
            level: Level::Info,
            priority: Priority::Normal,
            target: "",
        };
        for n in 1..=3_000 {
            ring.format(&meta, format_args!("disk {n}: 512-byte blocks"));
        }
        let panic = Meta {
            priority: Priority::Panic,
            ..meta
        };
        ring.log(&panic, b"Kernel panic: the end");

        let start = clock.now();
        flush(&[&drain], 0, &clock, limits);
        let took = clock.now() - start;

        let sent = String::from_utf8(port.into_sink())?;
        assert!(sent.contains("Kernel panic: the end\r\n"));
        let lines = sent.matches("blocks\r\n").count();
        let newest = match sent.contains("disk 3000: ") {
            true => "sent",
            false => "unsent",
        };
        println!("{name:30} {:>10} {lines:>9}   {newest}", took.to_string());
    }
    Ok(())
}
