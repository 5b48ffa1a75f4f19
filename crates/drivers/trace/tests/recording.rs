//! A region as seen by the user of its recorder.

mod common;

use std::cell::RefCell;

use common::{Count, memory, recorder, records, snapshot, told};
use nostall_trace::layout::{FILE, Order, RegionHeader};
use nostall_trace::{
    Action, Event, Filter, FormatError, Function, FunctionId, HeaderFault, Image, Options,
    Recorder, Region, Site, Trigger, recover,
};

const TWO: Options<'_> = Options {
    zones: 2,
    names: 256,
    stop_when_full: false,
    zones_of_threads: false,
    ticks_per_second: 1_000,
    epoch: None,
    anchor: Some((0xffff_ffff_8100_0000, 0xffff_ffff_8000_0000)),
    boot: 7,
    build_id: &[1, 2, 3],
    program: "kernel",
};

#[test]
fn records_of_all_cpus_are_merged_by_time() {
    let (recorder, cpu) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    let outer = recorder.enter(100);
    cpu.0.store(1, std::sync::atomic::Ordering::Relaxed);
    let other = recorder.enter_with(200, 5);
    cpu.0.store(0, std::sync::atomic::Ordering::Relaxed);
    let inner = recorder.enter(101);
    recorder.exit(inner);
    recorder.exit(outer);
    cpu.0.store(1, std::sync::atomic::Ordering::Relaxed);
    recorder.exit(other);
    let image = snapshot(recorder);
    assert_eq!(
        told(&image),
        ["+100", "+200(5)", "+101", "-101", "-100", "-200"]
    );
    let zones: Vec<_> = records(&image)
        .iter()
        .map(|it| (it.zone, it.depth))
        .collect();
    assert_eq!(zones, [(0, 0), (1, 0), (0, 1), (0, 1), (0, 0), (1, 0)]);
    let header = *recover(&image[..]).unwrap().header().unwrap();
    assert_eq!((header.boot, header.program.as_str()), (7, "kernel"));
}

#[test]
fn samples_and_names_are_recovered() {
    static BYTES: Site = Site::new("bytes", "m");
    static RESET: Site = Site::new("reset", "m");
    static EMPTY: Site = Site::new("fifo empty", "m");
    static SEND: Site = Site::new("send", "m");
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    let scope = recorder.enter_site(&SEND, Some(9));
    recorder.counter(&BYTES, -3);
    recorder.mark(&RESET, None);
    recorder.mark(&RESET, Some(4));
    recorder.stall(&EMPTY, 86, &SEND);
    recorder.stall_at("ready", 1, "probe");
    recorder.task(12, "idle");
    recorder.task(13, "");
    recorder.exit(scope);
    assert_eq!(
        told(&snapshot(recorder)),
        [
            "+send(9)",
            "bytes=-3",
            "mark reset None",
            "mark reset Some(4)",
            "stall fifo empty send 86",
            "stall ready probe 1",
            "task 12 idle",
            "task 13 ?",
            "-send",
        ]
    );
}

#[test]
fn the_oldest_records_are_overwritten_and_the_gap_is_at_the_start() {
    let (recorder, _) = recorder();
    let small = Options {
        zones: 1,
        names: 0,
        ..TWO
    };
    recorder.start(Region::format(memory(512 + 128 + 16 * 16), &small).unwrap());
    for address in 0..14 {
        recorder.exit(recorder.enter(address));
    }
    let told = told(&snapshot(recorder));
    assert_eq!(
        told,
        [
            "lost 12", "+6", "-6", "+7", "-7", "+8", "-8", "+9", "-9", "+10", "-10", "+11", "-11",
            "+12", "-12", "+13", "-13"
        ]
    );
    assert_eq!(recorder.lost(), 0);
}

#[test]
fn a_full_zone_keeps_its_oldest_records_and_counts_the_lost_ones_at_its_end() {
    let (recorder, _) = recorder();
    let small = Options {
        zones: 1,
        names: 0,
        stop_when_full: true,
        ..TWO
    };
    recorder.start(Region::format(memory(512 + 128 + 16 * 16), &small).unwrap());
    for address in 0..10 {
        recorder.exit(recorder.enter(address));
    }
    let told = told(&snapshot(recorder));
    assert_eq!(
        told,
        [
            "+0", "-0", "+1", "-1", "+2", "-2", "+3", "-3", "+4", "-4", "+5", "-5", "+6", "-6",
            "+7", "-7", "lost 4"
        ]
    );
    assert_eq!(recorder.lost(), 4);
}

#[test]
fn a_cpu_without_a_zone_is_counted() {
    let (recorder, cpu) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    cpu.0.store(2, std::sync::atomic::Ordering::Relaxed);
    recorder.exit(recorder.enter(1));
    assert_eq!(recorder.lost(), 1);
    let image = snapshot(recorder);
    assert_eq!(recover(&image[..]).unwrap().lost_without_zone(), 1);
}

#[test]
fn sites_are_selected_by_module_and_by_name() {
    static A: Site = Site::new("a", "kernel::uart");
    static B: Site = Site::new("b", "kernel::uart::port");
    static C: Site = Site::new("c", "kernel::uarts");
    static D: Site = Site::new("d", "kernel::pci");
    static FILTER: Filter<'static> = Filter {
        modules: &["kernel::uart"],
        names: &["d"],
        ..Filter::ALL
    };
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    let all = || [&A, &B, &C, &D].map(|site| recorder.exit(recorder.enter_site(site, None)));
    all();
    recorder.set_filter(Some(&FILTER));
    all();
    recorder.set_filter(None);
    all();
    let entries: Vec<_> = told(&snapshot(recorder))
        .into_iter()
        .filter(|it| it.starts_with('+'))
        .collect();
    assert_eq!(entries.concat(), "+a+b+c+d+a+b+d+a+b+c+d");
}

#[test]
fn addresses_are_selected_by_range_and_calls_by_depth() {
    static FILTER: Filter<'static> = Filter {
        ranges: &[10..20, 30..31],
        max_depth: 2,
        ..Filter::ALL
    };
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    recorder.set_filter(Some(&FILTER));
    let calls = [9, 10, 20, 30, 11].map(|address| recorder.enter(address));
    calls
        .into_iter()
        .rev()
        .for_each(|entered| recorder.exit(entered));
    assert_eq!(told(&snapshot(recorder)), ["+10", "+30", "-30", "-10"]);
}

#[test]
fn with_a_minimum_duration_only_long_calls_are_recorded_and_as_a_whole() {
    static FILTER: Filter<'static> = Filter {
        min_ticks: 5,
        ..Filter::ALL
    };
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    recorder.set_filter(Some(&FILTER));
    let outer = recorder.enter(1);
    let long = recorder.enter(2);
    for short in 10..13 {
        recorder.exit(recorder.enter(short));
    }
    recorder.exit(long);
    recorder.exit(outer);
    assert_eq!(told(&snapshot(recorder)), ["=2 8", "=1 11"]);
    let depths: Vec<_> = records(&snapshot(recorder))
        .iter()
        .map(|it| it.depth)
        .collect();
    assert_eq!(depths, [1, 0]);
}

#[test]
fn a_function_starts_stops_and_freezes_the_recording() {
    static START: Site = Site::new("start", "m");
    static STOP: Site = Site::new("stop", "m");
    static FREEZE: Site = Site::new("freeze", "m");
    const fn on(name: &'static str, action: Action) -> Trigger<'static> {
        Trigger {
            function: Function::Name(name),
            action,
        }
    }
    static FILTER: Filter<'static> = Filter {
        triggers: &[
            on("start", Action::Start),
            on("stop", Action::Stop),
            on("freeze", Action::Freeze),
            Trigger {
                function: Function::Address(77),
                action: Action::Start,
            },
        ],
        ..Filter::ALL
    };
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    recorder.set_filter(Some(&FILTER));
    recorder.pause();
    let call = |site| recorder.exit(recorder.enter_site(site, None));
    let at = |address| recorder.exit(recorder.enter(address));
    at(1);
    call(&START);
    at(2);
    call(&STOP);
    at(3);
    assert!(!recorder.is_recording());
    at(77);
    at(4);
    call(&FREEZE);
    at(77);
    call(&START);
    let image = snapshot(recorder);
    assert_eq!(
        told(&image).join(" "),
        "+start -start +2 -2 +stop +77 -77 +4 -4 +freeze"
    );
    recorder.unfreeze();
    at(5);
    assert_eq!(told(&snapshot(recorder)).len(), 12);
}

#[test]
fn a_stopped_recorder_records_nothing_and_resumes_where_it_was() {
    let (recorder, _) = recorder();
    recorder.exit(recorder.enter(1));
    recorder.resume();
    assert!(!recorder.is_recording() && recorder.dump().is_none());
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    recorder.exit(recorder.enter(2));
    recorder.stop();
    recorder.exit(recorder.enter(3));
    recorder.resume();
    recorder.exit(recorder.enter(4));
    recorder.pause();
    recorder.exit(recorder.enter(6));
    recorder.freeze();
    recorder.resume();
    recorder.exit(recorder.enter(5));
    assert_eq!(told(&snapshot(recorder)), ["+2", "-2", "+4", "-4"]);
}

#[test]
fn exits_of_an_earlier_recording_are_not_recorded() {
    static SLOW: Filter<'static> = Filter {
        min_ticks: 1,
        ..Filter::ALL
    };
    static OUTER: Site = Site::new("outer", "m");
    static WHOLE: Site = Site::new("whole", "m");
    static LATER: Site = Site::new("later", "m");
    let (recorder, _) = recorder();
    let region = || Region::format(memory(8192), &TWO).unwrap();
    recorder.start(region());
    recorder.name("a name with another number later");
    let outer = recorder.enter_site(&OUTER, None);
    let address = recorder.enter(100);
    recorder.set_filter(Some(&SLOW));
    let whole = recorder.enter_site(&WHOLE, None);
    recorder.start(region());
    let later = recorder.enter_site(&LATER, None);
    recorder.exit(later);
    recorder.exit(whole);
    recorder.set_filter(None);
    recorder.exit(address);
    recorder.exit(outer);
    assert_eq!(told(&snapshot(recorder)), ["=later 2"]);
    // A whole call by address needs no name.
    recorder.set_filter(Some(&SLOW));
    let whole = recorder.enter(100);
    recorder.start(region());
    recorder.exit(whole);
    recorder.set_filter(None);
    assert_eq!(told(&snapshot(recorder)), ["=100 2"]);
    // The same recording goes on after a stop, and with another filter.
    let outer = recorder.enter_site(&OUTER, None);
    recorder.set_filter(Some(&SLOW));
    let whole = recorder.enter_site(&WHOLE, None);
    recorder.stop();
    recorder.resume();
    recorder.exit(whole);
    recorder.set_filter(None);
    recorder.exit(outer);
    let all = told(&snapshot(recorder));
    assert_eq!(all[1..], ["+outer", "=whole 2", "-outer"]);
}

/// Handler that runs once, after this number of reads of the CPU's number.
type Handler = (usize, Box<dyn FnOnce()>);

std::thread_local! {
    static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
}

/// A CPU that a handler interrupts while its number is read.
struct Interrupted;

impl nostall_io::Processor for Interrupted {
    fn id(&self) -> usize {
        let due = HANDLER.with_borrow_mut(|handler| {
            let (reads, _) = handler.as_mut()?;
            match reads.checked_sub(1) {
                None => handler.take(),
                Some(fewer) => {
                    *reads = fewer;
                    None
                }
            }
        });
        if let Some((_, run)) = due {
            run();
        }
        0
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

#[test]
fn a_recording_that_starts_within_an_entry_or_exit_gets_none_of_its_records() {
    static EVERYTHING: Filter<'static> = Filter::ALL;
    static SLOW: Filter<'static> = Filter {
        min_ticks: 1,
        ..Filter::ALL
    };
    static OUTER: Site = Site::new("outer", "m");
    let recorder: &Recorder<'_, _, _> =
        Box::leak(Box::new(Recorder::new(Count::new(), Interrupted)));
    let start = || recorder.start(Region::format(memory(8192), &TWO).unwrap());
    for filter in [None, Some(&EVERYTHING), Some(&SLOW)] {
        for argument in [None, Some(5)] {
            for reads in [0, 1] {
                start();
                recorder.name("a name with another number later");
                recorder.set_filter(filter);
                HANDLER.set(Some((reads, Box::new(start))));
                let entered = recorder.enter_site(&OUTER, argument);
                recorder.exit(entered);
                let case = (filter, argument, reads);
                assert!(HANDLER.with_borrow(Option::is_none), "{case:?}");
                assert_eq!(told(&snapshot(recorder)), [""; 0], "{case:?}");
            }
        }
    }
}

#[test]
fn an_exit_corrects_the_depth_after_a_long_jump() {
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    let outer = recorder.enter(1);
    let _ = recorder.enter(2);
    let _ = recorder.enter(3);
    recorder.exit(outer);
    assert_eq!(recorder.depth(), 0);
    recorder.set_depth(300);
    let deep = recorder.enter(4);
    recorder.exit(deep);
    assert_eq!(recorder.depth(), 300);
}

#[test]
fn a_clock_that_steps_back_does_not_reorder_one_cpus_records() {
    let (recorder, cpu) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    let clock = &recorder.ticks().0;
    let at = |id: usize, time: u64, address: u64| {
        cpu.0.store(id, std::sync::atomic::Ordering::Relaxed);
        clock.store(time, std::sync::atomic::Ordering::Relaxed);
        let _ = recorder.enter(address);
    };
    at(0, 1_000, 1);
    at(0, 500, 2);
    at(0, 1_100, 3);
    at(1, 700, 10);
    at(1, 1_050, 11);
    assert_eq!(told(&snapshot(recorder)), ["+10", "+1", "+2", "+11", "+3"]);
}

#[test]
fn records_have_no_name_once_the_names_area_is_full() {
    static LONG: Site = Site::new(
        "a name that is longer than the whole area of 64 bytes, by a few letters",
        "m",
    );
    static SHORT: Site = Site::new("short", "m");
    let (recorder, _) = recorder();
    let tight = Options { names: 60, ..TWO };
    recorder.start(Region::format(memory(8192), &tight).unwrap());
    recorder.exit(recorder.enter_site(&LONG, None));
    recorder.exit(recorder.enter_site(&SHORT, None));
    assert_eq!(told(&snapshot(recorder)), ["+?", "-?", "+short", "-short"]);
    assert_eq!(recorder.name("short"), recorder.name("short"));
    assert_eq!(recorder.name(""), 0);
}

#[test]
fn an_incomplete_name_hides_no_later_name() {
    use nostall_trace::layout::{NAMES_USED, REGION_HEADER};
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, Ordering};
    let memory = memory(8192);
    let len = memory.len();
    let base = NonNull::from(memory).cast::<u8>();
    // SAFETY: the memory is leaked, and this test reaches it through `base` only.
    let region = unsafe { Region::format_at(base, len, &TWO) }.unwrap();
    // SAFETY: the word is inside and aligned, and all access is atomic from here on.
    let word = |at: usize| unsafe { AtomicU64::from_ptr(base.as_ptr().add(at).cast()) };
    let before = region.name("before");
    // A CPU reserved 24 bytes and stopped there. Another one stopped in the middle of the text.
    word(NAMES_USED).fetch_add(48, Ordering::Relaxed);
    let mut marked = [0; 8];
    marked[..4].copy_from_slice(&(1_u32 << 31 | 20).to_ne_bytes());
    word(REGION_HEADER + 16 + 24).store(u64::from_ne_bytes(marked), Ordering::Relaxed);
    let text = u64::from_ne_bytes([9, 0, 0, 0, b't', b'e', b'x', b't']);
    word(REGION_HEADER + 16 + 40).store(text, Ordering::Relaxed);
    let after = region.name("after");
    assert_ne!(after, 0);
    assert_eq!(
        (region.name("before"), region.name("after")),
        (before, after)
    );
    let (recorder, _) = recorder();
    recorder.start(region);
    let image = snapshot(recorder);
    let recovered = recover(&image[..]).unwrap();
    let mut buffer = [0; 256];
    assert_eq!(recovered.name(after, &mut buffer), Some("after"));
    // Incomplete names have no text.
    assert_eq!(recovered.name(3, &mut buffer), None);
    assert_eq!(recovered.name(6, &mut buffer), None);
}

#[test]
fn memory_that_cannot_be_a_region_is_refused() {
    let format = |len: usize, skip: usize, options: &Options<'_>| {
        Region::format(&mut memory(len + 64)[skip..len + skip], options)
            .map(|it| it.len())
            .unwrap_err()
    };
    assert_eq!(format(8192, 8, &TWO), FormatError::Unaligned);
    assert_eq!(
        format(8192, 0, &Options { zones: 0, ..TWO }),
        FormatError::NoZones
    );
    assert_eq!(format(512 + 256 + 767, 0, &TWO), FormatError::TooSmall);
    assert_eq!(
        format(
            8192,
            0,
            &Options {
                names: u32::MAX,
                ..TWO
            }
        ),
        FormatError::TooSmall
    );
    assert_eq!(
        format(
            8192,
            0,
            &Options {
                zones: u32::MAX,
                ..TWO
            }
        ),
        FormatError::TooSmall
    );
}

#[test]
fn zones_survive_the_loss_of_any_header() {
    let (recorder, cpu) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    static NAMED: Site = Site::new("named", "m");
    for id in 0..2 {
        cpu.0.store(id, std::sync::atomic::Ordering::Relaxed);
        recorder.exit(recorder.enter(1 + id as u64));
        recorder.exit(recorder.enter_site(&NAMED, None));
    }
    let whole = snapshot(recorder);
    let expected = told(&whole);
    let second = 512
        + 256
        + RegionHeader::decode(whole.first_chunk().unwrap())
            .unwrap()
            .zone_len as usize;
    let zone = 512 + 256;
    let nothing = 0..0;
    for destroyed in [
        [0..512, nothing.clone()],
        [0..8, nothing.clone()],
        [0x10..0x18, nothing.clone()],
        [0xc0..0xc1, nothing.clone()],
        [nothing.clone(), zone..zone + 8],
        [nothing.clone(), zone..zone + 36],
        [nothing, second..second + 0x30],
        [0..512, zone..zone + 8],
    ] {
        let mut image = whole.clone();
        for range in destroyed.clone() {
            image[range].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        assert_eq!(told(&image), expected, "{destroyed:?}");
    }
    let mut none = whole.clone();
    for at in [0, 768, second] {
        none[at] ^= 1;
    }
    assert_eq!(recover(&none[..]).map(|_| ()), Err(HeaderFault::Magic));
    let mut newer = whole;
    newer[8] = 2;
    assert_eq!(
        recover(&newer[..]).map(|_| ()),
        Err(HeaderFault::Version(2))
    );
}

#[test]
fn a_destroyed_head_is_found_from_the_laps() {
    let counts = [
        3,
        33,
        1,
        5,
        8,
        30,
        31,
        32,
        63,
        64,
        65,
        500,
        32 * 15,
        32 * 15 + 3,
    ];
    // Miri is too slow for all of them.
    let some = if cfg!(miri) { 2 } else { counts.len() };
    for count in counts.into_iter().take(some) {
        let (recorder, _) = recorder();
        let small = Options {
            zones: 1,
            names: 0,
            ..TWO
        };
        recorder.start(Region::format(memory(512 + 128 + 32 * 16), &small).unwrap());
        (0..count).for_each(|address| _ = recorder.enter(address));
        let mut image = snapshot(recorder);
        let whole = records(&image);
        for head in [u64::MAX, 1 << 40, u64::MAX - 70, 12_345_678_901] {
            image[512 + 0x40..512 + 0x48].copy_from_slice(&head.to_ne_bytes());
            let found = records(&image);
            let entries = |records: &[nostall_trace::Record]| -> Vec<_> {
                let enter = |it: &&nostall_trace::Record| matches!(it.event, Event::Enter { .. });
                records.iter().filter(enter).map(|it| it.time).collect()
            };
            // Slots after a head that was found again may be in flight.
            let (found, whole) = (entries(&found), entries(&whole));
            assert!(
                whole.ends_with(&found),
                "{count} {head:#x} {found:?} {whole:?}"
            );
            let unsure = (count + 12).saturating_sub(32).min(12) as usize;
            assert_eq!(whole.len() - found.len(), unsure, "{count} {head:#x}");
        }
    }
}

#[test]
fn a_region_of_the_other_byte_order_is_read() {
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &TWO).unwrap());
    static NAMED: Site = Site::new("named in the other order", "m");
    recorder.exit(recorder.enter_site(&NAMED, Some(1 << 40)));
    recorder.exit(recorder.enter(0xffff_ffff_8100_1234));
    let image = snapshot(recorder);
    let other = common::swapped(&image);
    assert_eq!(told(&other), told(&image));
    let header = *recover(&other[..]).unwrap().header().unwrap();
    assert_ne!(header.order, Order::NATIVE);
    assert_eq!(header.build_id.as_bytes(), [1, 2, 3]);
}

#[test]
fn names_that_two_zones_share_are_stored_once() {
    let (recorder, _) = recorder();
    let region = Region::format(memory(8192), &TWO).unwrap();
    let first = region.name("one");
    assert_eq!((region.name("two"), region.name("one")), (first + 1, first));
    region.set_owner(1, 44, "a thread with a name that is too long");
    recorder.start(region);
    let image = snapshot(recorder);
    let recovered = recover(&image[..]).unwrap();
    let zone = recovered.zones().nth(1).unwrap();
    assert_eq!(zone.owner_id(&image[..]), 44);
    assert_eq!(
        zone.owner_name(&image[..]).as_str(),
        "a thread with a name tha"
    );
}

std::thread_local! {
    static CPU: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A CPU number for each thread.
struct Threads;

impl nostall_io::Processor for Threads {
    fn id(&self) -> usize {
        CPU.get()
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

#[test]
fn a_dump_while_cpus_record_has_whole_records_only() {
    let count = if cfg!(miri) { 60 } else { 20_000 };
    let recorder = nostall_trace::Recorder::new(common::Count::default(), Threads);
    let small = memory(512 + 256 + 2 * (128 + 32 * 16));
    recorder.start(Region::format(small, &TWO).unwrap());
    let write = |cpu| {
        CPU.set(cpu);
        for id in 0..count {
            recorder.exit(recorder.enter_with(id, !id));
        }
    };
    std::thread::scope(|scope| {
        let writers = [scope.spawn(|| write(0)), scope.spawn(|| write(1))];
        while !writers.iter().all(|writer| writer.is_finished()) {
            let live = recover(recorder.dump().unwrap()).unwrap();
            for zone in live.zones() {
                let mut last = 0;
                for record in live.records(zone) {
                    assert!(record.time >= last);
                    last = record.time;
                    match record.event {
                        Event::Enter {
                            function: nostall_trace::FunctionId::Address(id),
                            argument,
                        } => assert_eq!(argument, Some(!id)),
                        Event::Exit { .. } | Event::Lost { .. } => {}
                        _ => panic!("never written: {record:?}"),
                    }
                }
            }
        }
    });
    let live = recover(recorder.dump().unwrap()).unwrap();
    let exits = live
        .merged::<2>()
        .unwrap()
        .filter(|it| matches!(it.event, Event::Exit { .. }));
    assert!((20..=22).contains(&exits.count()));
}

/// Ends the threads that look at this word, when it is dropped.
struct Stop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_region_may_be_replaced_while_a_cpu_records() {
    let recorder = nostall_trace::Recorder::new(common::Count::default(), Threads);
    let rounds = if cfg!(miri) { 2 } else { 200 };
    let regions = |round: usize| {
        let len = if round.is_multiple_of(2) {
            65_536
        } else {
            2_048
        };
        Region::format(memory(len), &TWO).unwrap()
    };
    recorder.start(regions(0));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            CPU.set(1);
            let mut id = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                recorder.exit(recorder.enter_with(id, !id));
                id += 1;
            }
        });
        // Also if an assertion fails: the thread must end.
        let _stop = Stop(&done);
        for round in 1..rounds {
            recorder.start(regions(round));
            let live = recover(recorder.dump().unwrap()).unwrap();
            assert_eq!(live.zones().count(), 2);
            for record in live.merged::<2>().unwrap() {
                if let Event::Enter { argument, .. } = record.event {
                    assert!(argument.is_some());
                }
            }
        }
    });
}

/// An image whose recorder goes on: after each read of slots, `calls` more calls are recorded.
struct Recording<I, F> {
    live: I,
    record: F,
    calls: usize,
}

impl<I: Image, F: Fn()> Image for Recording<I, F> {
    fn len(&self) -> u64 {
        self.live.len()
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
        let is_read = self.live.read(at, bytes);
        if bytes.len() > 8 {
            (0..self.calls).for_each(|_| (self.record)());
        }
        is_read
    }
}

#[test]
fn a_record_whose_argument_is_overwritten_while_it_is_read_is_lost_as_a_whole() {
    let one = Options {
        zones: 1,
        names: 0,
        ..TWO
    };
    let mut shown = 0;
    // Miri is too slow for all of them.
    let step = if cfg!(miri) { 9 } else { 1 };
    for calls in (0..20).step_by(step) {
        for first in 22..25 {
            let (recorder, _) = recorder();
            recorder.start(Region::format(memory(512 + 128 + 64 * 16), &one).unwrap());
            let id = std::cell::Cell::new(0);
            let record = || {
                id.set(id.get() + 1);
                recorder.exit(recorder.enter_with(id.get(), !id.get()));
            };
            (0..first).for_each(|_| record());
            let image = Recording {
                live: recorder.dump().unwrap(),
                record,
                calls,
            };
            for record in recover(&image).unwrap().merged::<1>().unwrap() {
                if let Event::Enter { function, argument } = record.event {
                    let FunctionId::Address(id) = function else {
                        panic!("{function:?}");
                    };
                    assert_eq!(argument, Some(!id), "{calls} calls, {first} before");
                    shown += 1;
                }
            }
        }
    }
    assert!(shown > 60 / step, "{shown}");
}

#[test]
fn the_path_of_a_programs_file_is_stored_whole_or_not_at_all() {
    let mut buffer = [0; FILE];
    for (len, stored) in [(0, 0), (1, 1), (255, 255), (256, 256), (257, 0)] {
        let path = vec![b'/'; len];
        let memory = memory(1 << 16);
        Region::format(memory, &TWO).unwrap().set_file(&path);
        let found = recover(&memory[..]).unwrap();
        assert_eq!(found.file(&mut buffer), &path[..stored]);
    }
}
