//! Code that logs with `log` or `tracing` needs no change.
//!
//!     cargo run -p nostall-console --features log,tracing --example front_ends

use nostall_console::{Clock, EMERGENCY, Kernel, Mmio, Nanos, Ring, Slot, SystemConsole};
use tracing_subscriber::layer::SubscriberExt;

static RING: Ring<[Slot; 64]> = Ring::new();
static CONSOLE: SystemConsole<Mmio, Services> = SystemConsole::new(&RING, Services);

/// A kernel's services early in its boot.
struct Services;

impl Clock for Services {
    fn now(&self) -> Nanos {
        Nanos::UNKNOWN
    }
}

impl Kernel for Services {
    fn cpu(&self) -> u16 {
        0
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: log
    log::set_logger(&CONSOLE).map_err(|error| error.to_string())?;
    log::set_max_level(log::LevelFilter::Info);

    log::warn!(target: "scsi", "{} disks", 600);
    log::error!(target: EMERGENCY, "goes before the backlog");
    // ANCHOR_END: log

    // ANCHOR: tracing
    let subscriber = tracing_subscriber::registry().with(&CONSOLE);
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
