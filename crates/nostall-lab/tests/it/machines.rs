//! Guests in QEMU, correct and faulty: every run ends in bounded time, and reports the reason.

use crate::common;
use crate::common::accesses;

use std::ffi::OsString;
use std::fmt::Debug;
use std::time::Duration;

use common::qemu;
use nostall_devices::uart::{Profile, Uart};
use nostall_vm::qemu::{Error, Guest, Limits, Qemu, Ran};
use nostall_vm::{Ending, Machine as _, Work};
use nostall_work::script::{self, Step};
use nostall_work::{BusCheck, ConsoleCost, Example, Failure, LogCost, Report};
use serde::de::DeserializeOwned;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));

/// Limits that also hold on a busy machine, which takes many times as long as an idle one. For
/// waits that must fail, see [`HANG`].
const LIMITS: Limits = Limits {
    start: Duration::from_secs(60),
    silence: Duration::from_secs(60),
    total: Duration::from_secs(300),
    serial_bytes: 10_000,
    report_bytes: 10_000,
    qemu_bytes: 1 << 20,
};

/// Time limit for guests that hang.
const HANG: Duration = Duration::from_secs(2);

fn guest<'a>(kernel: &'a [u8], work: &'a [Work]) -> Guest<'a> {
    Guest {
        kernel,
        cpus: 1,
        work,
        repeat: 1,
        input: b"input",
        ram: None,
        drives: &[],
        qemu_args: &[],
    }
}

fn failing(qemu: &Qemu, failure: Failure) -> Error {
    let work = [failure.into()];
    qemu.run(&guest(KERNEL, &work), &LIMITS, Ending::Done, &mut |_| {})
        .unwrap_err()
}

#[test]
fn all_cpus_start_and_tick() {
    let Some(qemu) = qemu("all_cpus_start_and_tick") else {
        return;
    };
    for cpus in [1, 4] {
        let guest = Guest {
            cpus,
            ..guest(KERNEL, &[])
        };
        let Ran {
            reports, serial, ..
        } = qemu
            .run(&guest, &LIMITS, Ending::Done, &mut |_| {})
            .unwrap();
        let [
            Report::Ready {
                cpus: up, clock_hz, ..
            },
            Report::Done,
        ] = reports[..]
        else {
            panic!("{reports:?}");
        };
        assert_eq!(up, cpus);
        assert!(clock_hz > 1_000_000);
        assert!(serial.is_empty(), "the guest's serial line is ours alone");
    }
}

#[test]
fn more_cpus_than_the_machine_has_is_the_guests_failure() {
    let Some(qemu) = qemu("more_cpus_than_the_machine_has") else {
        return;
    };
    let args = ["-smp", "1"].map(OsString::from);
    let guest = Guest {
        cpus: 2,
        qemu_args: &args,
        ..guest(KERNEL, &[])
    };
    let error = qemu
        .run(&guest, &LIMITS, Ending::Done, &mut |_| {})
        .unwrap_err();
    assert!(error.to_string().contains("only 1 of 2 CPUs"), "{error}");
}

#[test]
fn a_panic_is_reported_with_its_place() {
    let Some(qemu) = qemu("a_panic_is_reported") else {
        return;
    };
    let error = failing(&qemu, Failure::Panic).to_string();
    assert!(error.contains("panic on CPU 0: on purpose (kernel/src/fail.rs:"));
}

#[test]
fn exceptions_are_reported_with_their_known_details() {
    let Some(qemu) = qemu("exceptions_are_reported") else {
        return;
    };
    for (failure, told) in [
        (Failure::NullRead, "page fault on read, not mapped (pc 0x1"),
        (Failure::CodeWrite, "page fault on write, read-only (pc 0x1"),
        (
            Failure::StackOverflow,
            "double fault, the stack is full (pc 0x1",
        ),
    ] {
        let error = failing(&qemu, failure);
        assert!(matches!(error, Error::Guest(_)));
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn a_guest_that_hangs_is_ended() {
    let Some(qemu) = qemu("a_guest_that_hangs_is_ended") else {
        return;
    };
    let work = [Failure::Hang.into()];
    let limits = Limits {
        silence: HANG,
        ..LIMITS
    };
    let error = qemu.run(&guest(KERNEL, &work), &limits, Ending::Done, &mut |_| {});
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Hung(HANG)));
}

#[test]
fn a_guest_that_floods_is_ended() {
    let Some(qemu) = qemu("a_guest_that_floods_is_ended") else {
        return;
    };
    assert!(matches!(
        failing(&qemu, Failure::Flood),
        Error::Flood(10_000)
    ));
    assert!(matches!(
        failing(&qemu, Failure::ReportFlood),
        Error::ReportFlood(10_000)
    ));
}

#[test]
fn a_guest_that_floods_is_ended_even_while_progress_is_not_taken() {
    let Some(qemu) = qemu("a_guest_that_floods_is_ended_even") else {
        return;
    };
    let work = [Failure::Flood.into()];
    let mut seen = Vec::new();
    let error = qemu.run(&guest(KERNEL, &work), &LIMITS, Ending::Done, &mut |bytes| {
        // A stopped terminal would block like this, at the first bytes.
        if seen.is_empty() {
            std::thread::sleep(Duration::from_secs(3));
        }
        seen.push(bytes);
    });
    assert!(matches!(error, Err(Error::Flood(10_000))));
    let most = seen.iter().max();
    assert!(most <= Some(&(1 << 19)), "{most:?} bytes were kept");
}

#[test]
fn a_guest_that_never_says_a_word_is_ended() {
    let Some(qemu) = qemu("a_guest_that_never_says_a_word") else {
        return;
    };
    let args = ["-S"].map(OsString::from); // the CPUs stay stopped
    let guest = Guest {
        qemu_args: &args,
        ..guest(KERNEL, &[])
    };
    let limits = Limits {
        start: Duration::from_secs(1),
        ..LIMITS
    };
    let error = qemu
        .run(&guest, &limits, Ending::Done, &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, Error::NeverStarted(_)), "{error}");
}

/// Returns an ELF file with a PVH entry and the 32-bit code `code`.
fn tiny_kernel(code: &[u8]) -> Vec<u8> {
    const BASE: u32 = 0x10_0000;
    const HEADERS: u32 = 52 + 2 * 32;
    let note_len = 20;
    let entry = BASE + HEADERS + note_len;
    let mut elf = Vec::new();
    let half = |elf: &mut Vec<u8>, v: u16| elf.extend(v.to_le_bytes());
    let word = |elf: &mut Vec<u8>, v: u32| elf.extend(v.to_le_bytes());
    elf.extend(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
    half(&mut elf, 2); // executable
    half(&mut elf, 3); // 386
    for v in [1, entry, 52, 0, 0] {
        word(&mut elf, v);
    }
    for v in [52, 32, 2, 40, 0, 0] {
        half(&mut elf, v);
    }
    let len = HEADERS + note_len + code.len() as u32;
    for v in [1, 0, BASE, BASE, len, len, 7, 0x1000] {
        word(&mut elf, v);
    }
    let note = BASE + HEADERS;
    for v in [4, HEADERS, note, note, note_len, note_len, 4, 4] {
        word(&mut elf, v);
    }
    for v in [4, 4, 18] {
        word(&mut elf, v);
    }
    elf.extend(b"Xen\0");
    word(&mut elf, entry);
    elf.extend(code);
    elf
}

fn run_tiny(qemu: &Qemu, code: &[u8]) -> Error {
    let kernel = tiny_kernel(code);
    qemu.run(&guest(&kernel, &[]), &LIMITS, Ending::Done, &mut |_| {})
        .unwrap_err()
}

/// `mov dx, port; mov al, value; out dx, al`.
fn out(port: u16, value: u8) -> Vec<u8> {
    let [low, high] = port.to_le_bytes();
    vec![0x66, 0xba, low, high, 0xb0, value, 0xee]
}

#[test]
fn a_guest_that_resets_the_machine_is_reported() {
    let Some(qemu) = qemu("a_guest_that_resets") else {
        return;
    };
    let undefined = [0x0f, 0x0b];
    assert!(matches!(run_tiny(&qemu, &undefined), Error::Reset));
}

#[test]
fn a_guest_that_ends_early_has_not_succeeded() {
    let Some(qemu) = qemu("a_guest_that_ends_early") else {
        return;
    };
    assert!(matches!(run_tiny(&qemu, &out(0xf4, 0x10)), Error::Undone));
    assert!(matches!(run_tiny(&qemu, &out(0xf4, 0x11)), Error::Undone));
}

#[test]
fn a_guest_that_speaks_nonsense_is_quoted() {
    let Some(qemu) = qemu("a_guest_that_speaks_nonsense") else {
        return;
    };
    let code = [out(0xe9, b'x'), out(0xe9, 0xff), out(0xf4, 0x10)].concat();
    let error = run_tiny(&qemu, &code);
    assert!(
        matches!(&error, Error::NotAReport(line) if line == "x\u{fffd}"),
        "{error}"
    );
}

#[test]
fn an_argument_that_qemu_refuses_is_reported_in_its_words() {
    let Some(qemu) = qemu("an_argument_that_qemu_refuses") else {
        return;
    };
    let args = ["-no-such-option"].map(OsString::from);
    let guest = Guest {
        qemu_args: &args,
        ..guest(KERNEL, &[])
    };
    let error = qemu
        .run(&guest, &LIMITS, Ending::Done, &mut |_| {})
        .unwrap_err();
    assert!(error.to_string().contains("-no-such-option"), "{error}");
}

fn with_args(qemu: &Qemu, args: &[&str], limits: &Limits) -> Error {
    let args: Vec<_> = args.iter().map(OsString::from).collect();
    let guest = Guest {
        qemu_args: &args,
        ..guest(KERNEL, &[])
    };
    qemu.run(&guest, limits, Ending::Done, &mut |_| {})
        .unwrap_err()
}

#[test]
fn a_machine_without_an_interval_timer_is_refused_by_the_guest() {
    let Some(qemu) = qemu("a_machine_without_an_interval_timer") else {
        return;
    };
    let error = with_args(&qemu, &["-machine", "q35,pit=off"], &LIMITS);
    assert!(
        matches!(&error, Error::Guest(said) if said.contains("the interval timer (8254)")),
        "{error}"
    );
}

#[test]
fn the_output_of_a_qemu_that_only_prints_help_is_shown() {
    let Some(qemu) = qemu("the_output_of_a_qemu_that_only_prints_help") else {
        return;
    };
    let error = with_args(&qemu, &["-version"], &LIMITS);
    assert!(
        matches!(&error, Error::Qemu { status, said } if status.success() && said.contains("Copyright")),
        "{error}"
    );
}

#[test]
fn qemu_may_not_go_to_the_background() {
    let Some(qemu) = qemu("qemu_may_not_go_to_the_background") else {
        return;
    };
    for option in ["-daemonize", "--daemonize"] {
        let error = with_args(&qemu, &[option], &LIMITS);
        assert!(matches!(error, Error::Daemonize), "{error}");
    }
}

#[test]
fn a_qemu_that_floods_its_own_output_is_ended() {
    let Some(qemu) = qemu("a_qemu_that_floods_its_own_output") else {
        return;
    };
    let limits = Limits {
        qemu_bytes: 100_000,
        ..LIMITS
    };
    // QEMU prints every instruction to stderr.
    let error = with_args(&qemu, &["-d", "in_asm"], &limits);
    assert!(matches!(error, Error::QemuFlood(100_000)), "{error}");
}

#[test]
fn the_accesses_we_count_are_the_ones_that_qemu_sees() {
    if let Some(qemu) = qemu("the_accesses_we_count") {
        accesses::are_the_ones_that_qemu_sees(&qemu, &guest(KERNEL, &[]));
    }
}

#[test]
fn the_drivers_example_prints_in_a_kernel() {
    let Some(qemu) = qemu("the_drivers_example_prints") else {
        return;
    };
    let ran = qemu
        .run(
            &guest(KERNEL, &[Example::Console.into()]),
            &LIMITS,
            Ending::Done,
            &mut |_| {},
        )
        .unwrap();
    let serial = String::from_utf8_lossy(&ran.serial);
    // Behind each line's time.
    let lines = serial.split("\r\n");
    let lines = lines.map(|line| line.split_once("] ").map_or(line, |(_, text)| text));
    let expected = ["nothing stalls, 4 times", "not even now", ""];
    assert!(lines.eq(expected), "{serial}");
}

/// Runs an example on a machine where each instruction takes one nanosecond. Returns its cost, and
/// the number of bytes that it sends.
fn cost_of<T: DeserializeOwned + Debug>(qemu: &Qemu, example: Example) -> (T, usize) {
    let args = ["-icount", "shift=0,sleep=off"].map(OsString::from);
    let work = [example.into()];
    let guest = Guest {
        qemu_args: &args,
        ..guest(KERNEL, &work)
    };
    let limits = Limits {
        serial_bytes: 100_000,
        ..LIMITS
    };
    let ran = qemu
        .run(&guest, &limits, Ending::Done, &mut |_| {})
        .unwrap();
    let [(0, cost)] = <[_; 1]>::try_from(ran.told().unwrap()).unwrap() else {
        panic!("of another example");
    };
    (cost, ran.serial.len())
}

#[test]
fn a_slice_costs_2000_instructions_within_a_record_3500_where_one_begins_and_a_line_15000() {
    let Some(qemu) = qemu("a_slice_costs_2000_instructions") else {
        return;
    };
    let (cost, bytes): (ConsoleCost, _) = cost_of(&qemu, Example::ConsoleCost);
    // Twelve lines of each length were sent, with their times and ends.
    let sent: usize = (100..116)
        .chain([100])
        .map(|text| 12 * (15 + text + 2))
        .sum();
    assert_eq!(bytes, sent);
    assert!(cost.within <= 2_000, "{cost:?}");
    assert!(cost.begins <= 3_500, "{cost:?}");
    assert!(cost.line <= 15_000, "{cost:?}");
    let least = cost.within.min(cost.begins).min(cost.line);
    assert!(least > 100, "not measured: {cost:?}");
}

#[test]
fn a_log_call_holds_its_cpu_for_20000_instructions_at_most_and_a_hidden_one_for_6000() {
    let Some(qemu) = qemu("a_log_call_holds_its_cpu") else {
        return;
    };
    let (cost, bytes): (LogCost, _) = cost_of(&qemu, Example::LogCost);
    // The round that warms up, and the printed one: times, texts and line ends.
    assert_eq!(bytes, 2 * cost.messages as usize * (15 + 100 + 2));
    assert!(cost.printed.longest <= 20_000, "{cost:?}");
    assert!(cost.hidden.longest <= 6_000, "{cost:?}");
    // A message is formatted and stored, at least.
    let messages = u64::from(cost.messages);
    assert!(cost.hidden.sum > 1_000 * messages, "{cost:?}");
    assert!(cost.printed.sum > cost.hidden.sum, "{cost:?}");
}

static UART_SCRIPT: &[u8] = include_bytes!("../../fixtures/uart-script.txt");

/// Returns the values that an access script reads on QEMU's port.
fn read_by_qemu(qemu: &Qemu, script: &[u8]) -> Vec<u8> {
    // Time counts executed instructions, so pauses and frames of the script do not depend on the
    // host's load.
    let args = ["-icount", "shift=7,sleep=off"].map(OsString::from);
    let work = [script::Job.into()];
    let guest = Guest {
        input: script,
        qemu_args: &args,
        ..guest(KERNEL, &work)
    };
    let limits = Limits {
        report_bytes: 10_000_000,
        ..LIMITS
    };
    let ran = qemu
        .run(&guest, &limits, Ending::Done, &mut |_| {})
        .unwrap();
    let mut read = Vec::new();
    for (_, script::Told { first, values }) in ran.told().unwrap() {
        assert_eq!(first as usize, read.len());
        read.extend(values);
    }
    read
}

/// Returns the values that it reads on our model.
fn read_by_model(script: &[u8]) -> Vec<u8> {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let mut read = Vec::new();
    script::run(script, &port, &clock, |value| read.push(value)).unwrap();
    read
}

#[test]
fn qemus_port_and_our_model_read_alike() {
    let Some(qemu) = qemu("qemus_port_and_our_model_read_alike") else {
        return;
    };
    let (theirs, ours) = (read_by_qemu(&qemu, UART_SCRIPT), read_by_model(UART_SCRIPT));
    let reads: Vec<_> = script::steps(UART_SCRIPT)
        .map(Result::unwrap)
        .filter_map(|(line, step)| match step {
            Step::Read { offset, mask } => Some((line, offset, mask)),
            _ => None,
        })
        .collect();
    assert!(reads.len() > 150, "only {} reads", reads.len());
    assert_eq!((theirs.len(), ours.len()), (reads.len(), reads.len()));
    let differences: Vec<_> = reads
        .into_iter()
        .zip(theirs.into_iter().zip(ours))
        .filter(|((_, _, mask), (theirs, ours))| (theirs ^ ours) & mask != 0)
        .map(|((line, offset, _), (theirs, ours))| {
            format!("line {line}: register {offset}: QEMU {theirs:#04x}, model {ours:#04x}\n")
        })
        .collect();
    assert!(differences.is_empty(), "\n{}", differences.concat());
}

#[test]
fn every_port_instruction_does_what_it_should() {
    let Some(qemu) = qemu("every_port_instruction") else {
        return;
    };
    let ran = qemu.run(
        &guest(KERNEL, &[BusCheck.into()]),
        &LIMITS,
        Ending::Done,
        &mut |_| {},
    );
    assert_eq!(ran.unwrap().reports.last(), Some(&Report::Done));
}
