//! Memory, clock and CPUs for the tests.

#![allow(dead_code, reason = "each test uses a part")]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nostall_io::Processor;
use nostall_trace::{Event, FunctionId, Image, Record, Recorder, Recovered, Ticks, recover};

/// A clock that advances by one with each read.
#[derive(Debug, Default)]
pub struct Count(pub AtomicU64);

impl Count {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Ticks for Count {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The CPU that a test chooses.
#[derive(Debug, Default)]
pub struct Chosen(pub AtomicUsize);

impl Processor for &Chosen {
    fn id(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

pub type Tested<'m> = Recorder<'m, Count, &'static Chosen>;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Returns memory that is never freed, aligned to 64 bytes.
pub fn memory(len: usize) -> &'static mut [u8] {
    let lines = vec![Line([0; 64]); len / 64].leak();
    let len = lines.len() * 64;
    // SAFETY: the lines are 64 bytes each, without padding, and borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), len) }
}

/// Returns a recorder without a region, and its CPU.
pub fn recorder() -> (&'static Tested<'static>, &'static Chosen) {
    let cpu: &'static Chosen = Box::leak(Box::default());
    (
        Box::leak(Box::new(Recorder::new(Count::default(), cpu))),
        cpu,
    )
}

/// Copies a recorder's region.
pub fn snapshot<T, P>(recorder: &Recorder<'_, T, P>) -> Vec<u8> {
    let live = recorder.dump().unwrap();
    let mut image = vec![0; live.len() as usize];
    assert!(live.read(0, &mut image));
    image
}

/// Returns the records of all zones, merged.
pub fn records(image: &[u8]) -> Vec<Record> {
    recover(image).unwrap().merged::<16>().unwrap().collect()
}

pub fn text<I: Image>(recovered: &Recovered<I>, number: u32) -> String {
    let mut buffer = [0; nostall_trace::layout::LONGEST_NAME];
    recovered
        .name(number, &mut buffer)
        .unwrap_or("?")
        .to_owned()
}

/// Returns records as short texts: `+f` for an entry, `-f` for an exit, addresses as numbers.
pub fn told(image: &[u8]) -> Vec<String> {
    let recovered = recover(image).unwrap();
    let function = |function| match function {
        FunctionId::Address(address) => address.to_string(),
        FunctionId::Name(name) => text(&recovered, name),
    };
    let name = |number| text(&recovered, number);
    let tell = |record: Record| match record.event {
        Event::Enter {
            function: f,
            argument: None,
        } => format!("+{}", function(f)),
        Event::Enter {
            function: f,
            argument: Some(value),
        } => format!("+{}({value})", function(f)),
        Event::Exit { function: f } => format!("-{}", function(f)),
        Event::Call {
            function: f,
            entered,
        } => format!("={} {}", function(f), record.time - entered),
        Event::Stall {
            condition,
            place,
            duration,
        } => {
            format!("stall {} {} {duration}", name(condition), function(place))
        }
        Event::Counter { counter, value } => format!("{}={value}", name(counter)),
        Event::Task { id, name: task } => format!("task {id} {}", name(task)),
        Event::Mark { name: mark, value } => format!("mark {} {value:?}", name(mark)),
        Event::Lost { records } => format!("lost {records}"),
        _ => "?".to_owned(),
    };
    recovered.merged::<16>().unwrap().map(tell).collect()
}

/// Returns the region as a machine with the other byte order would write it.
pub fn swapped(image: &[u8]) -> Vec<u8> {
    use nostall_trace::layout::{LINE, Order, REGION_HEADER, RegionHeader, ZoneHeader};
    let other = match Order::NATIVE {
        Order::Little => Order::Big,
        Order::Big => Order::Little,
    };
    let mut out = image.to_vec();
    let header = RegionHeader::decode(image.first_chunk().unwrap()).unwrap();
    let swap = |bytes: &mut [u8], size: usize| bytes.chunks_mut(size).for_each(<[u8]>::reverse);
    out[..0xc8].copy_from_slice(
        &RegionHeader {
            order: other,
            ..header
        }
        .encode()[..0xc8],
    );
    swap(&mut out[0xc8..REGION_HEADER], 8);
    let mut at = REGION_HEADER;
    while at < header.first_zone() as usize {
        let len = u32::from_ne_bytes(out[at..at + 4].try_into().unwrap()) as usize;
        if len == 0 {
            break;
        }
        swap(&mut out[at..at + 4], 4);
        at += (4 + len).next_multiple_of(8);
    }
    for zone in 0..header.zones as usize {
        let at = header.first_zone() as usize + zone * header.zone_len as usize;
        let own = ZoneHeader::decode(out[at..].first_chunk().unwrap()).unwrap();
        let own = ZoneHeader {
            order: other,
            ..own
        };
        out[at..at + 0x20].copy_from_slice(&own.encode()[..0x20]);
        swap(&mut out[at + LINE..at + header.zone_len as usize], 8);
    }
    out
}
