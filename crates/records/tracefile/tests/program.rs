//! Recordings of Linux programs. A child process makes each recording: this test again, with an
//! environment variable.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Barrier, mpsc};
use std::time::UNIX_EPOCH;
use std::{env, fs, io, thread};

use nostall_trace::layout::FROZEN;
use nostall_trace::{ProgramOptions, ProgramTrace, Site, VARIABLE, recover, trace_scope};
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::model::{EventKind, Source};

const CHILD: &str = "NOSTALL_TEST_CHILD";

/// Returns the file to record into, in a child.
fn in_child() -> Option<PathBuf> {
    env::var_os(CHILD).map(PathBuf::from)
}

/// Runs the test `name` as a child that records into `file`.
fn child(name: &str, file: &Path) -> Command {
    let mut child = Command::new(env::current_exe().unwrap());
    child
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, file)
        .env_remove(VARIABLE);
    child
}

fn run(child: &mut Command) -> Output {
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    output
}

const FEW: ProgramOptions = ProgramOptions {
    threads: 2,
    slots: 64,
    names: 4096,
    ..ProgramOptions::DEFAULT
};

/// Returns the names of each thread's entered scopes, in order, and the notes.
fn scopes(file: &Path) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let image = fs::read(file).unwrap();
    let region = recover(&image[..]).unwrap();
    let mut events = ZoneEvents::new(region, Box::new(|_| None));
    let mut scopes = BTreeMap::<_, Vec<_>>::new();
    while let Some(event) = events.next_event().unwrap() {
        if let EventKind::Enter { function, .. } = event.kind {
            let catalog = events.catalog();
            let task = catalog.task_name(event.task).name.clone();
            let name = catalog.text(function).to_owned();
            scopes.entry(task).or_default().push(name);
        }
    }
    (scopes, events.notes().to_vec())
}

/// Runs `work` on a thread with this name, to its end.
fn on_thread(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).unwrap().join().unwrap();
}

/// Records `times` scopes.
fn work(times: u32) {
    for _ in 0..times {
        trace_scope!("work");
    }
}

#[test]
fn the_header_contains_the_program_its_build_and_its_clock() {
    const NAME: &str = "the_header_contains_the_program_its_build_and_its_clock";
    if let Some(file) = in_child() {
        ProgramTrace::create(&file, &FEW).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    let earlier = folder.path().join("earlier");
    fs::write(&earlier, "").unwrap();
    run(&mut child(NAME, &file));
    let image = fs::read(&file).unwrap();
    let region = recover(&image[..]).unwrap();
    let header = *region.header().unwrap();
    let program = env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_str().unwrap();
    assert_eq!(header.program.as_str(), &name[..name.len().min(64)]);
    assert_eq!(header.zones, 2);
    assert_eq!(header.len, image.len() as u64);
    // The distance is that of a page-aligned load address.
    assert_eq!((header.anchor_ran - header.anchor_linked) % 4096, 0);
    let mut path = [0; 256];
    assert_eq!(
        region.file(&mut path),
        program.as_os_str().as_encoded_bytes()
    );
    let id = header.build_id.as_bytes();
    let notes = fs::read(&program).unwrap();
    assert!(id.is_empty() || notes.windows(id.len()).any(|bytes| bytes == id));
    assert!(header.ticks_per_second >= 1_000_000);
    // The start of the trace is a time of day: after the earlier file's, and within a day.
    let written = fs::metadata(&earlier).unwrap().modified().unwrap();
    let written = written.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!((written..written + 86_400_000_000_000).contains(&header.epoch_nanos));
}

#[test]
fn each_thread_records_into_its_own_zone_with_its_name() {
    const NAME: &str = "each_thread_records_into_its_own_zone_with_its_name";
    if let Some(file) = in_child() {
        ProgramTrace::create(file, &FEW).unwrap();
        let both = Arc::new(Barrier::new(2));
        let threads = ["one", "two"].map(|name| {
            let both = both.clone();
            let work = move || {
                both.wait();
                for _ in 0..3 {
                    trace_scope!("outer");
                    trace_scope!("inner");
                }
                both.wait();
            };
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
                .unwrap()
        });
        _ = threads.map(|thread| thread.join().unwrap());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    run(&mut child(NAME, &file));
    let (scopes, notes) = scopes(&file);
    let six = ["outer", "inner"].repeat(3);
    assert_eq!(scopes.len(), 2);
    assert_eq!(scopes["one"], six);
    assert_eq!(scopes["two"], six);
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_zone_of_an_ended_thread_is_reused_when_all_were_used_and_keeps_both_names() {
    const NAME: &str =
        "a_zone_of_an_ended_thread_is_reused_when_all_were_used_and_keeps_both_names";
    if let Some(file) = in_child() {
        let trace = ProgramTrace::create(file, &FEW).unwrap();
        // The next thread gets an unused zone, not that of the first thread.
        for name in ["one", "two", "three"] {
            on_thread(name, || work(4));
        }
        // Overwrites the records of one thread, including its name.
        on_thread("four", || work(100));
        assert_eq!(trace.lost(), 0);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    run(&mut child(NAME, &file));
    let (scopes, _) = scopes(&file);
    let counts: Vec<_> = scopes
        .iter()
        .map(|(name, works)| (name.as_str(), works.len()))
        .collect();
    // Zone 0 has "one" and "three". "Two" ended before "three", and "four" fills its zone of 64
    // slots with 32 scopes.
    assert_eq!(counts, [("four", 32), ("one", 4), ("three", 4)]);
}

#[test]
fn records_before_a_reuse_do_not_get_the_new_threads_name() {
    const NAME: &str = "records_before_a_reuse_do_not_get_the_new_threads_name";
    if let Some(file) = in_child() {
        let one = ProgramOptions { threads: 1, ..FEW };
        ProgramTrace::create(file, &one).unwrap();
        // The record of the thread's name is overwritten.
        on_thread("first", || work(60));
        on_thread("second", || work(4));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    run(&mut child(NAME, &file));
    let (scopes, _) = scopes(&file);
    assert_eq!(scopes["second"].len(), 4);
    assert!(!scopes.contains_key("first"));
    assert_eq!(scopes[""].len(), 27);
}

#[test]
fn records_of_threads_without_a_zone_are_counted_and_zones_that_are_full_are_kept() {
    const NAME: &str =
        "records_of_threads_without_a_zone_are_counted_and_zones_that_are_full_are_kept";
    if let Some(file) = in_child() {
        let stop = ProgramOptions {
            stop_when_full: true,
            ..FEW
        };
        let trace = ProgramTrace::create(file, &stop).unwrap();
        on_thread("one", || work(1));
        on_thread("two", || work(100));
        let lost = trace.lost();
        assert!(lost > 0);
        on_thread("three", || work(5));
        // Only entries: exits without an entry are not recorded.
        assert_eq!(trace.lost(), lost + 5);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    run(&mut child(NAME, &file));
    let (scopes, notes) = scopes(&file);
    assert_eq!(scopes["one"].len(), 1);
    assert!(!scopes.contains_key("three"));
    assert!(
        notes.iter().any(|note| note.starts_with("5 records were")),
        "{notes:?}"
    );
}

#[test]
fn a_process_has_one_trace_and_a_forked_child_does_not_record() {
    const NAME: &str = "a_process_has_one_trace_and_a_forked_child_does_not_record";
    if let Some(file) = in_child() {
        let trace = ProgramTrace::create(&file, &FEW).unwrap();
        let again = ProgramTrace::create(&file, &FEW).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let call = trace.enter(0x1000);
        trace_scope!("parent");
        // SAFETY: the child calls only functions that a handler may call.
        match unsafe { libc::fork() } {
            0 => {
                trace_scope!("child");
                trace.exit(call);
                trace.freeze();
                nostall_io::count(nostall_io::Counter::UartBytes, 1);
                // SAFETY: ends the child without destructors.
                unsafe { libc::_exit(i32::from(nostall_trace::is_on())) }
            }
            child => {
                let mut status = 1;
                // SAFETY: waits for the child.
                unsafe { libc::waitpid(child, &mut status, 0) };
                assert_eq!(status, 0);
                // Its depth shows that the child has not ended the call.
                trace_scope!("inner");
            }
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    run(&mut child(NAME, &file));
    let image = fs::read(&file).unwrap();
    assert_eq!(image[FROZEN..FROZEN + 8], [0; 8], "the child froze it");
    let mut events = ZoneEvents::new(recover(&image[..]).unwrap(), Box::new(|_| None));
    let mut found = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        match event.kind {
            EventKind::Enter {
                function, depth, ..
            } => {
                found.push((depth, events.catalog().text(function).to_owned()));
            }
            EventKind::Exit { .. } => {}
            other => panic!("{other:?} is of the child"),
        }
    }
    let found: Vec<_> = found
        .iter()
        .map(|(depth, name)| (*depth, &name[..]))
        .collect();
    let expected = [(Some(0), "0x1000"), (Some(1), "parent"), (Some(2), "inner")];
    assert_eq!(found, expected);
}

#[test]
fn the_environment_names_an_empty_file_and_a_started_program_leaves_its_parents_alone() {
    const NAME: &str =
        "the_environment_names_an_empty_file_and_a_started_program_leaves_its_parents_alone";
    if let Some(file) = in_child() {
        let trace = ProgramTrace::from_environment(&FEW).unwrap();
        println!("records {}", trace.is_some());
        let is_first = env::var_os(CHILD).is_none_or(|it| it != "again");
        if is_first {
            trace_scope!("work");
            let mut again = child(NAME, Path::new("again"));
            let again = run(again.env(VARIABLE, &file));
            print!("{}", String::from_utf8(again.stdout).unwrap());
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    fs::write(&file, "").unwrap();
    let text = |output: Output| String::from_utf8(output.stdout).unwrap();
    let said = |text: &str| -> Vec<bool> {
        let said = text.split("records ").skip(1);
        said.map(|rest| rest.starts_with("true")).collect()
    };
    let first = text(run(child(NAME, &file).env(VARIABLE, &file)));
    assert_eq!(said(&first), [true, false]);
    let (scopes, _) = scopes(&file);
    assert_eq!(scopes.len(), 1);
    // The file is no longer empty.
    let later = text(run(child(NAME, Path::new("again")).env(VARIABLE, &file)));
    assert_eq!(said(&later), [false]);
    assert_eq!(
        said(&text(run(&mut child(NAME, Path::new("again"))))),
        [false]
    );
}

#[test]
fn impossible_options_and_paths_are_errors_and_another_attempt_may_follow() {
    const NAME: &str = "impossible_options_and_paths_are_errors_and_another_attempt_may_follow";
    let Some(file) = in_child() else {
        let folder = tempfile::tempdir().unwrap();
        run(&mut child(NAME, &folder.path().join("trace")));
        return;
    };
    let kind = |options| ProgramTrace::create(&file, &options).unwrap_err().kind();
    assert_eq!(
        kind(ProgramOptions { threads: 0, ..FEW }),
        io::ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(ProgramOptions {
            threads: 1025,
            ..FEW
        }),
        io::ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(ProgramOptions { slots: !0, ..FEW }),
        io::ErrorKind::InvalidInput
    );
    let missing = ProgramTrace::create(file.join("no/folder"), &FEW).unwrap_err();
    assert!(matches!(
        missing.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ));
    fs::write(&file, "older").unwrap();
    ProgramTrace::create(&file, &FEW).unwrap();
}

/// A destructor may record after the thread has returned its zone.
#[test]
fn a_record_in_a_destructor_after_the_zone_is_returned_is_counted_as_lost() {
    const NAME: &str = "a_record_in_a_destructor_after_the_zone_is_returned_is_counted_as_lost";
    let Some(file) = in_child() else {
        let folder = tempfile::tempdir().unwrap();
        run(&mut child(NAME, &folder.path().join("trace")));
        return;
    };
    struct Last(mpsc::Sender<()>);
    impl Drop for Last {
        fn drop(&mut self) {
            trace_scope!("late");
            self.0.send(()).unwrap();
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) };
    }
    static SITE: Site = Site::new("early", module_path!());
    let trace = ProgramTrace::create(&file, &FEW).unwrap();
    let (sender, receiver) = mpsc::channel();
    on_thread("late", move || {
        // On Linux, destructors run in the order of first use or its reverse. The record is written
        // or counted, and the program continues.
        LAST.set(Some(Last(sender)));
        nostall_trace::mark(&SITE, None);
    });
    receiver.recv().unwrap();
    let image = fs::read(&file).unwrap();
    let region = recover(&image[..]).unwrap();
    let mut events = ZoneEvents::new(region, Box::new(|_| None));
    let mut entries = 0;
    while let Some(event) = events.next_event().unwrap() {
        entries += u64::from(matches!(event.kind, EventKind::Enter { .. }));
    }
    assert_eq!(entries + trace.lost(), 1);
}

/// A thread that ends in a signal handler, with `pthread_exit`, leaves the interrupted record
/// incomplete.
#[test]
fn the_next_thread_of_a_zone_loses_nothing_if_the_last_one_ended_inside_a_record() {
    use nostall_trace::layout::{HEAD, REGION_HEADER};
    use std::os::unix::fs::FileExt;
    const NAME: &str =
        "the_next_thread_of_a_zone_loses_nothing_if_the_last_one_ended_inside_a_record";
    let Some(file) = in_child() else {
        let folder = tempfile::tempdir().unwrap();
        run(&mut child(NAME, &folder.path().join("trace")));
        return;
    };
    let options = ProgramOptions { threads: 1, ..FEW };
    let trace = ProgramTrace::create(&file, &options).unwrap();
    on_thread("first", || work(4));
    // The mapping shows what is written to the file.
    let open = fs::File::options().read(true).write(true).open(&file);
    let (open, zone) = (open.unwrap(), REGION_HEADER as u64 + 4096);
    let mut head = [0; 8];
    open.read_exact_at(&mut head, zone + HEAD as u64).unwrap();
    // Two slots are reserved and never written.
    let reserved = u64::from_ne_bytes(head) + 2;
    open.write_all_at(&reserved.to_ne_bytes(), zone + HEAD as u64)
        .unwrap();
    on_thread("second", || work(100));
    assert_eq!(trace.lost(), 0);
    assert_eq!(scopes(&file).0["second"].len(), 32);
}

/// Jumps out of a signal handler, in another context of the same thread, while it records.
#[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
mod jump {
    use std::mem::{MaybeUninit, zeroed};
    use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
    use std::time::Duration;
    use std::{ptr, thread};

    use nostall_trace::trace_scope;

    static BACK: AtomicPtr<libc::ucontext_t> = AtomicPtr::new(ptr::null_mut());

    /// Whether the other context runs. Before, there is no context to jump back to.
    static RUNS: AtomicBool = AtomicBool::new(false);

    extern "C" fn record() {
        RUNS.store(true, Ordering::Release);
        loop {
            trace_scope!("interrupted");
        }
    }

    extern "C" fn on_alarm(_: libc::c_int) {
        // SAFETY: `out_of_a_handler` waits in this context.
        unsafe { libc::setcontext(BACK.load(Ordering::Relaxed)) };
    }

    pub fn out_of_a_handler() {
        let stack = Vec::leak(vec![0u8; 1 << 16]);
        // SAFETY: both contexts live until the jump back, and the stack for ever. The abandoned
        // context owns nothing.
        unsafe {
            let mut back = MaybeUninit::zeroed();
            let mut context: libc::ucontext_t = zeroed();
            BACK.store(back.as_mut_ptr(), Ordering::Relaxed);
            let handler = on_alarm as extern "C" fn(libc::c_int);
            libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
            libc::getcontext(&raw mut context);
            context.uc_stack.ss_sp = stack.as_mut_ptr().cast();
            context.uc_stack.ss_size = stack.len();
            libc::makecontext(&raw mut context, record, 0);
            let thread = libc::pthread_self();
            RUNS.store(false, Ordering::Relaxed);
            let signal = thread::spawn(move || {
                while !RUNS.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(1));
                libc::pthread_kill(thread, libc::SIGALRM);
            });
            libc::swapcontext(back.as_mut_ptr(), &raw const context);
            signal.join().unwrap();
        }
    }
}

#[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
#[test]
fn a_thread_records_on_after_jumps_out_of_signal_handlers_and_the_report_names_it() {
    const NAME: &str =
        "a_thread_records_on_after_jumps_out_of_signal_handlers_and_the_report_names_it";
    /// One in about 20 interrupts a record.
    const JUMPS: usize = 400;
    let Some(file) = in_child() else {
        let folder = tempfile::tempdir().unwrap();
        run(&mut child(NAME, &folder.path().join("trace")));
        return;
    };
    let options = ProgramOptions { slots: 4096, ..FEW };
    let trace = ProgramTrace::create(&file, &options).unwrap();
    let told = file.clone();
    on_thread("jumper", move || {
        (0..JUMPS).for_each(|_| jump::out_of_a_handler());
        work(100_000);
        // Each jump costs three slots at most, and a gap between two of them one more.
        let (scopes, notes) = scopes(&told);
        let works = scopes["jumper"].iter().filter(|name| *name == "work");
        assert!(works.count() >= (4096 - JUMPS * 4) / 2, "{notes:?}");
        let of_thread = |note: &&String| note.contains("\"jumper\"") && note.contains("passed");
        assert!(notes.iter().any(|note| of_thread(&note)), "{notes:?}");
        trace.forget();
        work(10_000);
        let (scopes, notes) = self::scopes(&told);
        assert_eq!(scopes["jumper"].len(), 2048);
        assert!(!notes.iter().any(|note| of_thread(&note)), "{notes:?}");
    });
    assert_eq!(trace.lost(), 0);
}

#[test]
fn the_trace_of_a_killed_program_stays_under_a_second_name_after_a_restart() {
    const NAME: &str = "the_trace_of_a_killed_program_stays_under_a_second_name_after_a_restart";
    if let Some(file) = in_child() {
        let options = ProgramOptions { kept: 2, ..FEW };
        ProgramTrace::create(&file, &options).unwrap();
        on_thread(&env::var("RUN").unwrap(), || work(1));
        // SAFETY: ends this process as a supervisor may.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    for run in 0..5 {
        let status = child(NAME, &file).env("RUN", format!("run {run}")).status();
        assert_eq!(status.unwrap().code(), None);
    }
    for (name, thread) in [
        ("trace", "run 4"),
        ("trace.1", "run 3"),
        ("trace.2", "run 2"),
    ] {
        let (scopes, _) = scopes(&folder.path().join(name));
        assert!(scopes.contains_key(thread), "{name}: {scopes:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn the_zone_of_the_thread_that_ended_longest_ago_is_reused_first() {
    const NAME: &str = "the_zone_of_the_thread_that_ended_longest_ago_is_reused_first";
    if let Some(file) = in_child() {
        let options = ProgramOptions { threads: 16, ..FEW };
        ProgramTrace::create(&file, &options).unwrap();
        for number in 0..1_000 {
            on_thread(&number.to_string(), || work(100));
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    run(&mut child(NAME, &file));
    let newest: Vec<_> = (984..1_000).map(|number| number.to_string()).collect();
    let (scopes, _) = scopes(&file);
    assert!(
        newest.iter().all(|name| scopes.contains_key(name)),
        "{:?}",
        scopes.keys()
    );
}
