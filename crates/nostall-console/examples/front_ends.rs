//! Code that logs with `log` or `tracing` needs no change.
//!
//!     cargo run -p nostall-console --features log,tracing --example front_ends

use nostall_console::{Logger, Ring, RingLayer, Slot};
use nostall_io::{HostClock, Processor};
use tracing_subscriber::layer::SubscriberExt;

static RING: Ring<[Slot; 64]> = Ring::new();

/// The only CPU.
#[derive(Clone, Copy)]
struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        0
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (clock, processor) = (HostClock::default(), Cpu);

    // ANCHOR: log
    // In a kernel, a `static`, with the kernel's clock and processor.
    let logger = Box::leak(Box::new(Logger::new(&RING, clock, processor)));
    log::set_logger(logger).map_err(|error| error.to_string())?;
    log::set_max_level(log::LevelFilter::Info);

    log::warn!(target: "scsi", "{} disks", 600);
    // ANCHOR_END: log

    // ANCHOR: tracing
    let layer = RingLayer::new(&RING, clock, processor);
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber)?;

    tracing::info!(target: "scsi", disks = 600, "attached");
    // ANCHOR_END: tracing

    let mut room = [0; 200];
    let lines = str::from_utf8(RING.tail(&mut room))?;
    assert!(lines.contains("] scsi: 600 disks\n"), "{lines}");
    assert!(lines.contains("] scsi: attached disks=600\n"), "{lines}");
    print!("{lines}");
    Ok(())
}
