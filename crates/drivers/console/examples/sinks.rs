//! Two consoles, a fast and a slow one, and a record that survives a reset.
//!
//!     cargo run -p nostall-console --example sinks

use std::error::Error;
use std::sync::Mutex;

use nostall_console::{
    Caller, Drain, FlushLimits, Level, Meta, Offered, OverflowPolicy, Priority, Ring, Sink,
    SinkOptions, Slot, flush,
};
use nostall_io::{Clock, HostClock, Nanos};
use nostall_pstore::{DumpHeader, Layout, LinuxVersion, Memory, Params, Ram, Zone, ZoneKind};

static RING: Ring<[Slot; 64]> = Ring::new();

// ANCHOR: zone
/// A zone of persistent memory that keeps the console's text across a crash. It accepts every text
/// immediately.
struct Remembered<M>(Mutex<Zone<'static, M>>);

impl<M: Memory> Sink for Remembered<M> {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        // If the lock is taken, its owner crashed in this function.
        let zone = self.0.try_lock().ok();
        let taken = zone.map(|mut zone| zone.append_text(text));
        Offered {
            taken: taken.map_or(0, |()| text.len()),
            ready_at: taken.map(|()| Nanos::ZERO),
        }
    }
}
// ANCHOR_END: zone

/// A line that sends 10 bytes a millisecond.
struct Line {
    sent: Mutex<(Nanos, Vec<u8>)>,
    clock: HostClock,
}

impl Sink for Line {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        let now = self.clock.now();
        let mut sent = self.sent.lock().unwrap();
        let (free_at, bytes) = &mut *sent;
        if now < *free_at {
            return Offered {
                taken: 0,
                ready_at: Some(*free_at),
            };
        }
        let taken = text.len().min(16);
        bytes.extend(&text[..taken]);
        *free_at = now + Nanos::from_micros(100) * taken as u64;
        Offered {
            taken,
            ready_at: Some(*free_at),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut region = vec![0; 0x1_0000];
    let clock = HostClock::default();
    let line = Line {
        sent: Mutex::default(),
        clock,
    };

    // ANCHOR: sinks
    // A region of persistent memory with two zones: the console's text, and the panic's record.
    let layout = Layout::new(&Params::command_line(0x1_0000, 1))?;
    let (mut console, mut dmesg) = (None, None);
    for (place, memory) in layout.split(Ram::of(&mut region)) {
        let linux = LinuxVersion::new(6, 1, 0); // may read it
        let (zone, _) = Zone::attach(memory, place.kind, linux, None)?;
        match place.kind {
            ZoneKind::Console => console = Some(zone),
            ZoneKind::Dmesg if place.index == 0 => dmesg = Some(zone),
            _ => {}
        }
    }
    let (Some(console), Some(mut dmesg)) = (console, dmesg) else {
        return Err("too small a region".into());
    };
    // The fast sink gets every record, the slow one only important records. If the slow one is far
    // behind, a logging task waits for it for a bounded time.
    let remembered = Drain::new(&RING, Remembered(Mutex::new(console)), SinkOptions::DEFAULT);
    let serious = SinkOptions::DEFAULT
        .level(Level::Warning)
        .overflow(OverflowPolicy::Wait(Nanos::from_millis(100)))
        .progress_slot(0);
    let serial = Drain::new(&RING, line, serious);
    // ANCHOR_END: sinks

    // ANCHOR: wait
    let log = |level, text: &str| {
        // Call this in a task, not in an interrupt handler.
        serial.make_room(0, &clock, std::thread::yield_now);
        let meta = Meta {
            time: clock.now(),
            cpu: 0,
            level,
            priority: Priority::Normal,
            target: "scsi",
        };
        RING.log(&meta, text.as_bytes());
        // A slow sink does not delay a fast one. A kernel would set its timer from the result.
        // Here, the next line follows soon.
        let _ = remembered.drain_bounded(0, Priority::Normal, &clock);
        let _ = serial.drain_bounded(0, Priority::Normal, &clock);
    };
    // ANCHOR_END: wait
    for n in 0..100 {
        log(Level::Info, &format!("disk {n}"));
        log(Level::Warning, &format!("disk {n} is hot"));
    }

    // ANCHOR: panic
    let meta = Meta {
        time: clock.now(),
        cpu: 0,
        level: Level::Emergency,
        priority: Priority::Panic,
        target: "",
    };
    RING.log(&meta, b"Kernel panic: on fire");
    let limits = FlushLimits::DEFAULT.total(Nanos::from_secs(1));
    let flushed = flush(&[&remembered, &serial], 0, &clock, limits);
    let mut room = [0; 2_000];
    dmesg.write_dmesg(&DumpHeader::PANIC, RING.tail(&mut room));
    // ANCHOR_END: panic

    // Every record arrived once. The panic may have interrupted one line.
    assert_eq!((flushed.complete, serial.lost()), (2, 0));
    let sent = serial.sink().sent.lock().unwrap().1.clone();
    let sent = String::from_utf8(sent)?;
    assert!(sent.matches("is hot\n").count() >= 99);
    assert!(!sent.contains("disk 7\n") && sent.contains("] Kernel panic: on fire\n"));
    print!("{sent}");
    let left = nostall_pstore::recover(&region[..], &layout, None);
    assert!(
        left.zones_of(ZoneKind::Console)
            .any(|zone| zone.len() > 2_000)
    );
    assert!(
        left.zones_of(ZoneKind::Dmesg)
            .any(|zone| zone.len() > 1_000)
    );
    Ok(())
}
