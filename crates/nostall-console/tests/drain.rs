//! What sinks get.

use std::sync::Mutex;

use nostall_console::{
    Cursor, Drain, Level, Meta, Next, Offered, Options, Priority, Read, Ring, Sink, Slot,
};
use nostall_io::Nanos;

const META: Meta<'static> = Meta {
    time: Nanos(1_234_567_000),
    cpu: 0,
    level: Level::Info,
    priority: Priority::Normal,
    target: "",
};

/// Takes so many bytes an offer, then none for a microsecond.
struct Slow {
    load: usize,
    taken: Mutex<Vec<u8>>,
}

impl Sink for Slow {
    fn offer(&self, text: &[u8], _: Priority) -> Offered {
        let taken = text.len().min(self.load);
        self.taken.lock().unwrap().extend(&text[..taken]);
        Offered {
            taken,
            ready_at: Some(Nanos(0)),
        }
    }
}

impl Slow {
    fn new(load: usize) -> Self {
        Self {
            load,
            taken: Mutex::default(),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.taken.lock().unwrap())).unwrap()
    }
}

fn drain_all(drain: &Drain<'_, impl Sink>, priority: Priority) {
    let mut slices = 0;
    while drain.slice(0, priority, Nanos(0)) != Next::Empty {
        slices += 1;
        assert!(slices < 100_000);
    }
}

#[test]
fn lines_come_out_as_they_went_in_whatever_the_sink_takes_at_once() {
    for load in [1, 2, 3, 15, 16, 17, 64, 256, 1000] {
        let ring = Ring::<[Slot; 64]>::new();
        let drain = Drain::new(&ring, Slow::new(load), Options::DEFAULT);
        ring.log(&META, b"one\n");
        ring.log(&META, b"two\nthree");
        let long = "0123456789".repeat(30);
        ring.log(&META, long.as_bytes());
        ring.format(&META, format_args!("{}{}", 1, 2));
        drain_all(&drain, Priority::Normal);
        let p = "[    1.234567] ";
        assert_eq!(
            drain.sink().text(),
            format!("{p}one\n{p}two\n{p}three\n{p}{long}\n{p}12\n")
        );
    }
}

#[test]
fn a_reader_sees_every_record_once_and_counts_what_it_lost() {
    let ring = Ring::<[Slot; 4]>::new();
    let mut cursor = Cursor::START;
    assert_eq!(cursor.read(&ring), Read::Empty);
    for n in 0..10 {
        ring.format(&META, format_args!("{n}"));
    }
    let mut seen = Vec::new();
    while let Read::Record(record) = cursor.read(&ring) {
        seen.push(String::from_utf8(record.text().to_vec()).unwrap());
    }
    assert_eq!(seen, ["6", "7", "8", "9"]);
    assert_eq!(cursor.lost, 6);
}
