//! Other rings that survive the program. Each row appends records with their times to a mapped
//! file.

use crate::record::{IP, PARENT, ZONE, recorder};
use faultbox::breadcrumbs::Level;
use faultbox::shared_ring::SharedRing;
use nostall_bench::{Effort, Lttng, Table, Unit};
use nostall_io::HostClock;
use nostall_pstore::{ByClock, Ram};
use std::hint::black_box;

pub fn tables(effort: Effort) {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.path().join("zone"))
        .unwrap();
    file.set_len(ZONE as u64).unwrap();
    // SAFETY: the file is new, and no other process knows its name.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
    // SAFETY: it stays mapped until after `table` is dropped, and has no other user.
    let memory = unsafe { Ram::new(std::ptr::NonNull::from(&mut map[..]).cast(), ZONE) };
    // A slot has 256 bytes, so this number of slots has the same size.
    let ring = SharedRing::open(folder.path().join("ring"), ZONE / 256).unwrap();

    let title = "One record with its time, in a ring in a mapped file, beside others' such rings";
    let mut table = Table::new(title, Unit::Nanoseconds);
    let mut recorder = recorder(memory, ByClock(HostClock::new()));
    table.row("Recorder, ByClock<HostClock>: 24 bytes", None, |n| {
        for _ in 0..n {
            recorder.record(black_box(IP), PARENT);
        }
    });

    table.row(
        "faultbox 0.1.2, SharedRing::record: a text of 16 bytes",
        None,
        |n| {
            for _ in 0..n {
                ring.record(Level::Info, "trace", black_box("0123456789abcdef"));
            }
        },
    );

    let mut without = None;
    match Lttng::start() {
        Ok(mut lttng) => {
            let name = "LTTng-UST, overwriting, --shm-path: two words";
            table.timed(name, None, move |n| lttng.events(n));
        }
        Err(why) => without = Some(why),
    }
    table.print(effort);
    if let Some(why) = without {
        println!("  LTTng-UST: {why}");
    }
}
