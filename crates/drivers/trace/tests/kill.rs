//! A program that records on several threads is killed at random points. The file then has each
//! thread's records from before that point, and no others.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, thread};

use memmap2::MmapRaw;
use nostall_trace::{Event, FunctionId, ProgramOptions, ProgramTrace, Scope, Site, recover};

const CHILD: &str = "NOSTALL_TEST_CHILD";
const NAME: &str = "sigkill_loses_at_most_the_record_in_flight_of_each_thread";

const THREADS: usize = 3;

/// Zones with so few slots are overwritten many times.
const OPTIONS: ProgramOptions = ProgramOptions {
    threads: THREADS as u32,
    slots: 256,
    names: 4096,
    ..ProgramOptions::DEFAULT
};

/// Progress of a thread: steps that it has started and completed.
#[repr(C, align(64))]
struct Progress {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Maps the progress of all threads.
fn progress(path: &Path) -> &'static [Progress; THREADS] {
    let file = File::options().read(true).write(true).open(path).unwrap();
    file.set_len(size_of::<[Progress; THREADS]>() as u64)
        .unwrap();
    let memory = Box::leak(Box::new(MmapRaw::map_raw(&file).unwrap()));
    // SAFETY: the mapping has the length, is aligned to a page, stays, and is only accessed
    // atomically.
    unsafe { &*memory.as_ptr().cast() }
}

static SCOPE: Site = Site::new("scope", module_path!());
static COUNTER: Site = Site::new("counter", module_path!());
static MARK: Site = Site::new("mark", module_path!());

/// Returns the value that only this step of this thread records.
fn pattern(thread: usize, step: u64) -> u64 {
    (step << 8 | thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Records endlessly, one record per step.
fn record(thread: usize, progress: &Progress) -> ! {
    let mut scope = None;
    for step in 0.. {
        progress.begun.store(step + 1, Ordering::SeqCst);
        let value = pattern(thread, step);
        match step % 4 {
            0 => scope = Some(Scope::enter_with(&SCOPE, Some(value))),
            1 => nostall_trace::counter(&COUNTER, value as i64),
            2 => nostall_trace::mark(&MARK, Some(value)),
            _ => drop(scope.take()),
        }
        progress.ended.store(step + 1, Ordering::SeqCst);
    }
    unreachable!()
}

fn child(file: &Path) -> ! {
    let progress = progress(&file.with_extension("progress"));
    ProgramTrace::create(file, &OPTIONS).unwrap();
    for (thread, progress) in progress.iter().enumerate() {
        thread::spawn(move || record(thread, progress));
    }
    loop {
        thread::park();
    }
}

/// A child that records until it is killed, at the latest by a failed assertion.
struct Recording(Child);

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a child, kills it after a random time, and returns the numbers of steps that each thread
/// has started and completed.
fn kill_one(file: &Path, random: u64) -> [(u64, u64); THREADS] {
    let path = file.with_extension("progress");
    File::create(&path).unwrap();
    let progress = progress(&path);
    let child = Command::new(env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(CHILD, file)
        .stdout(Stdio::null())
        .spawn();
    let mut child = Recording(child.unwrap());
    let begun = |progress: &Progress| progress.ended.load(Ordering::SeqCst) > random % 1_000;
    // All pauses are more than two minutes, which only a hang reaches.
    let recorded = (0..2_500_000).any(|_| {
        assert!(child.0.try_wait().unwrap().is_none(), "the child has ended");
        let recorded = progress.iter().all(begun);
        if !recorded {
            thread::sleep(Duration::from_micros(50));
        }
        recorded
    });
    assert!(recorded, "the child does not record");
    thread::sleep(Duration::from_nanos(random >> 10 & 0xf_ffff));
    drop(child);
    progress.each_ref().map(|progress| {
        let steps = |count: &AtomicU64| count.load(Ordering::SeqCst);
        (steps(&progress.begun), steps(&progress.ended))
    })
}

/// Checks each record of each zone. Returns the number of threads that were killed in a record.
fn check(file: &Path, steps: [(u64, u64); THREADS]) -> usize {
    let image = fs::read(file).unwrap();
    let region = recover(&image[..]).unwrap();
    let name = |number, expected: &str| {
        let mut buffer = [0; 256];
        assert_eq!(region.name(number, &mut buffer), Some(expected));
    };
    let mut seen = [false; THREADS];
    let mut in_flight = 0;
    for zone in region.zones() {
        let mut thread = None;
        // Step of the next record.
        let mut next = None;
        let mut value_of = |value: u64| {
            // Inverse of the multiplier.
            let word = value.wrapping_mul(0xf1de_83e1_9937_733d);
            let (of, step) = ((word & 0xff) as usize, word >> 8);
            assert!(
                of < THREADS && pattern(of, step) == value,
                "{value:#x} was not recorded"
            );
            assert_eq!(
                *thread.get_or_insert(of),
                of,
                "a zone has records of two threads"
            );
            step
        };
        let mut last_time = 0;
        for record in region.records(zone) {
            assert!(record.time >= last_time);
            last_time = record.time;
            let step = match record.event {
                Event::Enter {
                    function: FunctionId::Name(number),
                    argument,
                } => {
                    name(number, "scope");
                    value_of(argument.unwrap())
                }
                Event::Counter { counter, value } => {
                    name(counter, "counter");
                    value_of(value as u64)
                }
                Event::Mark { name: mark, value } => {
                    name(mark, "mark");
                    value_of(value.unwrap())
                }
                Event::Exit {
                    function: FunctionId::Name(number),
                } => {
                    name(number, "scope");
                    match next {
                        Some(step) => step,
                        // The oldest record.
                        None => continue,
                    }
                }
                Event::Task { .. } if next.is_none() => continue,
                // Overwritten, or the record in flight.
                Event::Lost { .. } => continue,
                other => panic!("{other:?} was not recorded"),
            };
            assert_eq!(step % 4 == 3, matches!(record.event, Event::Exit { .. }));
            assert_eq!(step, next.unwrap_or(step), "a record is missing");
            next = Some(step + 1);
        }
        let (begun, ended) = steps[thread.unwrap()];
        let recorded = next.unwrap();
        assert!(
            (ended..=begun).contains(&recorded),
            "{ended} <= {recorded} <= {begun}"
        );
        in_flight += usize::from(begun != ended);
        assert!(!std::mem::replace(&mut seen[thread.unwrap()], true));
    }
    assert_eq!(seen, [true; THREADS]);
    in_flight
}

#[test]
fn sigkill_loses_at_most_the_record_in_flight_of_each_thread() {
    if let Some(file) = env::var_os(CHILD) {
        child(Path::new(&file));
    }
    let kills = env::var("NOSTALL_KILLS").map_or(50, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut in_flight = 0;
    for _ in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let file = folder.path().join("trace");
        let steps = kill_one(&file, random);
        in_flight += check(&file, steps);
    }
    println!(
        "{kills} kills; {in_flight} of {} threads were in a record",
        kills * THREADS
    );
}
