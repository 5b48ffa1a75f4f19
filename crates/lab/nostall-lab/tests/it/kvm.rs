//! Guests on our own KVM machine: exits are counted, nothing is lost, and every run is bounded.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::common::kvm as common_kvm;

use std::time::Duration;

use common_kvm::kvm_with;
use nostall_devices::uart::{Profile, Uart as Model};
use nostall_lab::experiments::uart::run::{Sending, UartPlan, run};
use nostall_uart::Strategy;
use nostall_vm::kvm::{Kvm, Options, PciMode, UartMode};
use nostall_vm::{Ending, Error, Exits, Guest, GuestRam, GuestRun, Limits, Machine as _, Work};
use nostall_work::script;
use nostall_work::uart::{Driver, Job, Writes};
use nostall_work::{BusCheck, Failure, Report};

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));
static BOOT_LOG: &[u8] = include_bytes!("../../fixtures/console/linux-boot.log");
static UART_SCRIPT: &[u8] = include_bytes!("../../fixtures/uart-script.txt");

/// Limits that also hold on a busy machine, which takes many times as long as an idle one. For
/// waits that must fail, see [`HANG`].
const LIMITS: Limits = Limits {
    start: Duration::from_secs(60),
    silence: Duration::from_secs(60),
    total: Duration::from_secs(300),
    serial_bytes: 10_000,
    report_bytes: 1_000_000,
    qemu_bytes: 0,
};

/// Time limit for guests that hang.
const HANG: Duration = Duration::from_secs(2);

fn kvm(test: &str, uart: UartMode) -> Option<Kvm> {
    let pci = PciMode::Trap;
    kvm_with(test, Options { uart, pci })
}

fn guest<'a>(kernel: &'a [u8], work: &'a [Work], input: &'a [u8]) -> Guest<'a> {
    Guest {
        kernel,
        cpus: 1,
        work,
        repeat: 1,
        input,
        ram: None,
        flash: None,
        qemu_args: &[],
    }
}

/// Sends `text` once with each of `strategies`; all of it must arrive.
fn send(kvm: &Kvm, strategies: &[Strategy], writes: Writes, text: &[u8]) -> Vec<Sending> {
    let job = |&strategy| Job {
        driver: Driver::Ours(strategy),
        writes,
    };
    let jobs: Vec<_> = strategies.iter().map(job).collect();
    let plan = UartPlan {
        jobs: &jobs,
        repeat: 1,
        text,
    };
    let (sendings, _) = run(kvm, &guest(KERNEL, &[], &[]), &plan, &mut |_| {}).unwrap();
    for Sending { job, arrived, .. } in &sendings {
        assert!(*arrived == plan.on_the_line(), "{job}: not as sent");
    }
    assert_eq!(sendings.len(), jobs.len());
    sendings
}

const FIFO: [Strategy; 3] = [
    Strategy::FifoPolled,
    Strategy::FifoBurst,
    Strategy::FifoPaced,
];

/// Sends the boot log, and returns the exits per byte of each strategy.
fn boot_log(kvm: &Kvm, strategies: &[Strategy]) -> Vec<(f64, Exits)> {
    let sendings = send(kvm, strategies, Writes::Whole, BOOT_LOG);
    let of = |sending: &Sending| {
        let exits = sending.exits.unwrap();
        (exits.uart as f64 / sending.arrived.len() as f64, exits)
    };
    sendings.iter().map(of).collect()
}

#[test]
fn by_ports_every_access_is_an_exit() {
    let Some(kvm) = kvm("by_ports_every_access", UartMode::Ports) else {
        return;
    };
    for sending in send(&kvm, &FIFO[..2], Writes::Whole, BOOT_LOG) {
        let (sent, exits) = (sending.sent, sending.exits.unwrap());
        assert_eq!(exits.uart, sent.bus_accesses);
        assert!(exits.uart as f64 / 22_454.0 <= 1.07, "{exits:?}");
        assert_eq!(exits.collected, 0);
    }
}

#[test]
fn coalesced_ports_leave_an_exit_a_burst() {
    let Some(kvm) = kvm("coalesced_ports", UartMode::PortsCoalesced) else {
        return;
    };
    let measured = boot_log(&kvm, &FIFO[..2]);
    for (per_byte, exits) in &measured {
        assert!(*per_byte <= 0.07, "{exits:?}");
        assert_eq!(exits.collected, 22_454, "{exits:?}");
    }
    // Where the host's kernel counts them: one per burst, and a few more.
    let bursts = 22_454u64.div_ceil(16);
    let light = measured[1].1.light();
    let few = bursts + bursts / 10;
    assert!(light.is_none_or(|light| light <= few), "{light:?}");
}

#[test]
fn with_the_line_status_in_memory_only_a_full_ring_is_an_exit() {
    let Some(kvm) = kvm("with_the_line_status_in_memory", UartMode::MmioReadonly) else {
        return;
    };
    // The ring has 170 entries, and one stays empty: the 170th write is an exit, which empties it.
    for (_, exits) in boot_log(&kvm, &FIFO) {
        assert!(exits.uart <= 22_454 / 170, "{exits:?}");
    }
}

#[test]
fn nothing_is_lost_line_by_line_and_byte_by_byte() {
    let text = &BOOT_LOG[..2_000];
    for uart in UartMode::ALL {
        let Some(kvm) = kvm("nothing_is_lost", uart) else {
            continue;
        };
        send(&kvm, &Strategy::ALL, Writes::Lines, text);
    }
}

/// Runs an access script. Returns the values read, the exits at the port, and the output.
fn run_script(kvm: &Kvm, script: &[u8]) -> (Vec<u8>, Exits, Vec<u8>) {
    let work = [script::Job.into()];
    let ran = kvm
        .run(
            &guest(KERNEL, &work, script),
            &LIMITS,
            Ending::Done,
            &mut |_| {},
        )
        .unwrap();
    let mut read = Vec::new();
    for (_, script::JobResult { first, values }) in ran.results().unwrap() {
        assert_eq!(first as usize, read.len());
        read.extend(values);
    }
    (read, ran.exits.unwrap().total, ran.serial)
}

#[test]
fn every_register_reads_the_same_however_it_is_offered() {
    let (port, clock) = Model::in_virtual_time(Profile::VM, Vec::new());
    let mut expected = Vec::new();
    script::run(UART_SCRIPT, &port, &clock, |value| expected.push(value)).unwrap();
    let sent = port.into_sink();
    assert!(expected.len() > 150 && !sent.is_empty());
    for uart in UartMode::ALL {
        let Some(kvm) = kvm("every_register_reads_the_same", uart) else {
            continue;
        };
        let (read, _, serial) = run_script(&kvm, UART_SCRIPT);
        assert_eq!(read, expected, "{uart}");
        assert_eq!(serial, sent, "{uart}");
    }
}

#[test]
fn a_line_status_with_an_error_is_an_exit_and_the_next_look_is_none() {
    let Some(kvm) = kvm("a_line_status_with_an_error", UartMode::MmioReadonly) else {
        return;
    };
    // One byte too many for the FIFO, in loopback.
    let overrun = "w 0 41\n".repeat(17);
    let script = format!("w 2 7\nw 4 10\n{overrun}r 5\nr 5\nr 5\nw 2 7\nr 5\nw 4 0\n");
    let (read, exits, serial) = run_script(&kvm, script.as_bytes());
    assert_eq!(read, [0x63, 0x61, 0x61, 0x60]);
    assert_eq!(serial, b"");
    // Every access is an exit, except for three polls.
    assert_eq!(exits.uart, script.lines().count() as u64 - 3);
    assert_eq!((exits.mmio_reads, exits.collected), (1, 0));
}

#[test]
fn a_guest_that_waits_for_transmit_interrupts_makes_no_more_exits_than_by_ports() {
    // The script does an interrupt handler's accesses: enable, read the cause, read the line
    // status, fill the FIFO; at last disable.
    let handler = format!("r 2\nr 5\n{}r 2\n", "w 0 2a\n".repeat(16));
    let script = format!("w 2 7\nw 1 2\n{}w 1 0\nw 0 2e\n", handler.repeat(20));
    let exits = UartMode::ALL.map(|uart| {
        let kvm = kvm("a_guest_that_waits_for_transmit_interrupts", uart)?;
        let (read, exits, serial) = run_script(&kvm, script.as_bytes());
        // The transmitter is empty, and the registers show that.
        assert_eq!(read[..3], [0xc2, 0x60, 0xc2], "{uart}");
        assert_eq!(serial.len(), 20 * 16 + 1);
        Some(exits)
    });
    let accesses = script.lines().count() as u64;
    let [ports, others @ ..] = exits;
    if let Some(ports) = ports {
        assert_eq!(ports.uart, accesses);
        for exits in others.into_iter().flatten() {
            assert!(exits.uart <= ports.uart, "{exits:?}");
            // Every write traps, except the last byte, after which no interrupt is enabled.
            assert!(exits.collected <= 1, "{exits:?}");
        }
    }
}

#[test]
fn a_terminal_does_not_make_the_hosts_kernel_change_its_mind_with_every_write() {
    // A terminal's writes: the interrupt is enabled, and disabled once everything is sent. Then
    // messages of a kernel, which uses no interrupt.
    let terminal = "w 1 2\nw 0 61\nw 1 0\nw 0 62\n".repeat(20);
    let messages = "w 0 63\n".repeat(1_100);
    let script = format!("{terminal}{messages}w 1 2\nw 1 0\n{messages}");
    for uart in [UartMode::PortsCoalesced, UartMode::MmioReadonly] {
        let Some(kvm) = kvm("a_terminal_does_not_make", uart) else {
            continue;
        };
        let (_, exits, serial) = run_script(&kvm, script.as_bytes());
        assert_eq!(serial.len(), 2 * 20 + 2 * 1_100);
        // Collecting starts at once and lasts for the first three bytes `b`. Then 1,000 accesses
        // pay for each restart: 80 of the terminal and 920 messages; 180 more, two, and 818.
        assert_eq!(exits.collected, 3 + 180 + 282, "{uart}");
    }
}

#[test]
fn collected_output_is_visible_while_the_guest_runs_without_an_exit() {
    // Two bytes, then over an hour of reading the clock.
    let script = b"w 0 6f\nw 0 6b\np ffffffff\n";
    // The second byte ends it.
    let limits = Limits {
        serial_bytes: 1,
        ..LIMITS
    };
    for uart in [UartMode::PortsCoalesced, UartMode::MmioReadonly] {
        let Some(kvm) = kvm("collected_output_is_visible", uart) else {
            continue;
        };
        let work = [script::Job.into()];
        let mut seen = 0;
        let error = kvm
            .run(
                &guest(KERNEL, &work, script),
                &limits,
                Ending::Done,
                &mut |bytes| {
                    seen = bytes;
                },
            )
            .unwrap_err();
        assert!(matches!(error, Error::Flood(1)), "{uart}: {error}");
        assert_eq!(seen, 2, "{uart}");
    }
}

fn silence(failure: Failure) -> Duration {
    match failure {
        Failure::Hang => HANG,
        _ => LIMITS.silence,
    }
}

fn failing(kvm: &Kvm, failure: Failure) -> Error {
    let work = [failure.into()];
    let limits = Limits {
        silence: silence(failure),
        report_bytes: 10_000,
        ..LIMITS
    };
    kvm.run(
        &guest(KERNEL, &work, b"input"),
        &limits,
        Ending::Done,
        &mut |_| {},
    )
    .unwrap_err()
}

#[test]
fn a_guest_that_dies_is_quoted() {
    let Some(kvm) = kvm("a_guest_that_dies_is_quoted", UartMode::MmioReadonly) else {
        return;
    };
    for (failure, result) in [
        (
            Failure::Panic,
            "panic on CPU 0: on purpose (kernel/src/fail.rs:",
        ),
        (Failure::NullRead, "page fault on read, not mapped (pc 0x1"),
        (Failure::CodeWrite, "page fault on write, read-only (pc 0x1"),
        (
            Failure::StackOverflow,
            "double fault, the stack is full (pc 0x1",
        ),
    ] {
        let error = failing(&kvm, failure);
        assert!(error.to_string().contains(result), "{error}");
    }
}

#[test]
fn a_guest_that_hangs_or_floods_is_ended() {
    for uart in UartMode::ALL {
        let Some(kvm) = kvm("a_guest_that_hangs_or_floods", uart) else {
            continue;
        };
        let error = failing(&kvm, Failure::Flood);
        assert!(matches!(error, Error::Flood(10_000)), "{uart}: {error}");
    }
    let Some(kvm) = kvm("a_guest_that_hangs_or_floods", UartMode::Ports) else {
        return;
    };
    let error = failing(&kvm, Failure::ReportFlood);
    assert!(matches!(error, Error::ReportFlood(10_000)), "{error}");
    let error = failing(&kvm, Failure::Hang);
    assert!(matches!(error, Error::Hung(HANG)));
}

#[test]
fn every_port_instruction_does_what_it_should() {
    for pci in PciMode::ALL {
        let uart = UartMode::PortsCoalesced;
        let Some(kvm) = kvm_with("every_port_instruction", Options { uart, pci }) else {
            continue;
        };
        let work = [BusCheck.into()];
        let ran = kvm.run(
            &guest(KERNEL, &work, &[]),
            &LIMITS,
            Ending::Done,
            &mut |_| {},
        );
        assert_eq!(ran.unwrap().reports.last(), Some(&Report::Done), "{pci}");
    }
}

#[test]
fn ram_outlives_the_guest_and_the_next_one_finds_its_own_memory_clean() {
    let Some(kvm) = kvm("ram_outlives_the_guest", UartMode::Ports) else {
        return;
    };
    let ram = GuestRam::new(128).unwrap();
    for _ in 0..2 {
        let guest = Guest {
            ram: Some(&ram),
            ..guest(KERNEL, &[], &[])
        };
        let GuestRun { reports, .. } = kvm.run(&guest, &LIMITS, Ending::Done, &mut |_| {}).unwrap();
        assert!(matches!(
            reports[..],
            [Report::Ready { cpus: 1, .. }, Report::Done]
        ));
        let image = ram.read(0x10_0000..0x10_1000).unwrap();
        assert!(image.iter().any(|&byte| byte != 0), "the kernel is there");
    }
}
