//! Guests on our own KVM machine: exits counted, nothing lost, every run bounded.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::io::Write;
use std::time::{Duration, Instant};

use nostall_devices::pci::Topology;
use nostall_devices::uart::{Profile, Uart as Model};
use nostall_uart::Strategy;
use nostall_vm::kvm::{Kvm, Options, Pci, Uart};
use nostall_vm::uart::{Experiment, Outcome};
use nostall_vm::{Error, Exits, Guest, GuestRam, Limits, Ran};
use nostall_work::script;
use nostall_work::uart::{Driver, Job, Writes};
use nostall_work::{Failure, Report, Work};

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));
static BOOT_LOG: &[u8] = include_bytes!("../fixtures/console/linux-boot.log");
static UART_SCRIPT: &[u8] = include_bytes!("../fixtures/uart-script.txt");

/// For guests that are to fail: the start as ever, the rest short.
const LIMITS: Limits = Limits {
    start: Duration::from_secs(30),
    silence: Duration::from_secs(5),
    total: Duration::from_secs(120),
    serial_bytes: 10_000,
    report_bytes: 1_000_000,
    qemu_bytes: 0,
};

/// The host's KVM. Without one the test is skipped, which is said where it can be
/// seen; with `NOSTALL_REQUIRE_KVM` set it fails.
fn kvm(test: &str, uart: Uart) -> Option<Kvm> {
    let pci = Pci::Trap;
    kvm_with(test, Options { uart, pci })
}

fn kvm_with(test: &str, options: Options) -> Option<Kvm> {
    let missing = match Kvm::find(options) {
        Ok(kvm) if kvm.options() == options => return Some(kvm),
        Ok(kvm) => kvm.notes().join("; "),
        Err(error) => error.to_string(),
    };
    let required = std::env::var_os("NOSTALL_REQUIRE_KVM").is_some();
    assert!(!required, "{test}: {missing}");
    // Not by a macro of std: the test harness would swallow it.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing}");
    None
}

fn guest<'a>(kernel: &'a [u8], work: &'a [Work], input: &'a [u8]) -> Guest<'a> {
    Guest {
        kernel,
        cpus: 1,
        work,
        repeat: 1,
        input,
        ram: None,
        qemu_args: &[],
    }
}

/// Sends `text` once by each of `strategies`; all of it must arrive.
fn send(kvm: &Kvm, strategies: &[Strategy], writes: Writes, text: &[u8]) -> Outcome {
    let job = |&strategy| Job {
        driver: Driver::Ours(strategy),
        writes,
    };
    let jobs: Vec<_> = strategies.iter().map(job).collect();
    let experiment = Experiment {
        jobs: &jobs,
        repeat: 1,
        text,
    };
    let (outcome, _) = kvm
        .uart(&guest(KERNEL, &[], &[]), &experiment, &mut |_| {})
        .unwrap();
    for (arrived, job) in outcome.arrived.iter().zip(&jobs) {
        assert!(*arrived == experiment.on_the_line(), "{job}: not as sent");
    }
    assert_eq!(outcome.exits.len(), jobs.len());
    outcome
}

const FIFO: [Strategy; 3] = [
    Strategy::FifoPolled,
    Strategy::FifoBurst,
    Strategy::FifoPaced,
];

/// The boot log, and its exits a byte by each of the strategies.
fn boot_log(kvm: &Kvm, strategies: &[Strategy]) -> Vec<(f64, Exits)> {
    let outcome = send(kvm, strategies, Writes::Whole, BOOT_LOG);
    let of =
        |(exits, arrived): (&Exits, &Vec<u8>)| (exits.uart as f64 / arrived.len() as f64, *exits);
    outcome.exits.iter().zip(&outcome.arrived).map(of).collect()
}

#[test]
fn by_ports_every_access_is_an_exit() {
    let Some(kvm) = kvm("by_ports_every_access", Uart::Ports) else {
        return;
    };
    let outcome = send(&kvm, &FIFO[..2], Writes::Whole, BOOT_LOG);
    for ((_, sent), exits) in outcome.sent.iter().zip(&outcome.exits) {
        assert_eq!(exits.uart, sent.bus_accesses);
        assert!(exits.uart as f64 / 22_454.0 <= 1.07, "{exits:?}");
        assert_eq!(exits.collected, 0);
    }
}

#[test]
fn coalesced_ports_leave_an_exit_a_burst() {
    let Some(kvm) = kvm("coalesced_ports", Uart::PortsCoalesced) else {
        return;
    };
    let measured = boot_log(&kvm, &FIFO[..2]);
    for (per_byte, exits) in &measured {
        assert!(*per_byte <= 0.07, "{exits:?}");
        assert_eq!(exits.collected, 22_454, "{exits:?}");
    }
    // Where the host's kernel counts them: one a burst, and a few of its own.
    let bursts = 22_454u64.div_ceil(16);
    let light = measured[1].1.light();
    let few = bursts + bursts / 10;
    assert!(light.is_none_or(|light| light <= few), "{light:?}");
}

#[test]
fn with_the_line_status_in_memory_hardly_an_exit_is_left() {
    let Some(kvm) = kvm("with_the_line_status_in_memory", Uart::MmioReadonly) else {
        return;
    };
    for (per_byte, exits) in boot_log(&kvm, &FIFO) {
        assert!(per_byte <= 0.01, "{exits:?}");
    }
}

#[test]
fn nothing_is_lost_line_by_line_and_byte_by_byte() {
    let text = &BOOT_LOG[..2_000];
    for uart in Uart::ALL {
        let Some(kvm) = kvm("nothing_is_lost", uart) else {
            continue;
        };
        send(&kvm, &Strategy::ALL, Writes::Lines, text);
    }
}

/// What an access script reads, and its exits at the port.
fn run_script(kvm: &Kvm, script: &[u8]) -> (Vec<u8>, Exits, Vec<u8>) {
    let work = [Work::UartScript];
    let ran = kvm
        .run(&guest(KERNEL, &work, script), &LIMITS, &mut |_| {})
        .unwrap();
    let mut read = Vec::new();
    for report in &ran.reports {
        if let Report::Read { first, values } = report {
            assert_eq!(*first as usize, read.len());
            read.extend_from_slice(values);
        }
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
    for uart in Uart::ALL {
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
    let Some(kvm) = kvm("a_line_status_with_an_error", Uart::MmioReadonly) else {
        return;
    };
    // One byte too many for the FIFO, in loopback.
    let overrun = "w 0 41\n".repeat(17);
    let script = format!("w 2 7\nw 4 10\n{overrun}r 5\nr 5\nr 5\nw 2 7\nr 5\nw 4 0\n");
    let (read, exits, serial) = run_script(&kvm, script.as_bytes());
    assert_eq!(read, [0x63, 0x61, 0x61, 0x60]);
    assert_eq!(serial, b"");
    // All but three looks.
    assert_eq!(exits.uart, script.lines().count() as u64 - 3);
    assert_eq!((exits.mmio_reads, exits.collected), (1, 0));
}

#[test]
fn a_guest_that_waits_for_transmit_interrupts_makes_no_more_exits_than_by_ports() {
    // As an interrupt handler does: enable, look why, look at the line status, fill
    // the FIFO; at last disable.
    let handler = format!("r 2\nr 5\n{}r 2\n", "w 0 2a\n".repeat(16));
    let script = format!("w 2 7\nw 1 2\n{}w 1 0\nw 0 2e\n", handler.repeat(20));
    let exits = Uart::ALL.map(|uart| {
        let kvm = kvm("a_guest_that_waits_for_transmit_interrupts", uart)?;
        let (read, exits, serial) = run_script(&kvm, script.as_bytes());
        // The transmitter is empty and says so.
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
            // But for the last byte, whose answer nobody waits for, all trapped.
            assert!(exits.collected <= 1, "{exits:?}");
        }
    }
}

#[test]
fn what_was_collected_is_seen_while_the_guest_goes_on_without_an_exit() {
    // Two bytes, then over an hour of looking at the clock.
    let script = b"w 0 6f\nw 0 6b\np ffffffff\n";
    let limits = Limits {
        total: Duration::from_secs(3),
        ..LIMITS
    };
    for uart in [Uart::PortsCoalesced, Uart::MmioReadonly] {
        let Some(kvm) = kvm("what_was_collected_is_seen", uart) else {
            continue;
        };
        let work = [Work::UartScript];
        let mut seen = 0;
        let error = kvm
            .run(&guest(KERNEL, &work, script), &limits, &mut |bytes| {
                seen = bytes;
            })
            .unwrap_err();
        assert!(matches!(error, Error::TooLong(_)), "{error}");
        assert_eq!(seen, 2, "{uart}");
    }
}

fn failing(kvm: &Kvm, failure: Failure) -> Error {
    let work = [Work::Fail(failure)];
    let limits = Limits {
        report_bytes: 10_000,
        ..LIMITS
    };
    kvm.run(&guest(KERNEL, &work, b"input"), &limits, &mut |_| {})
        .unwrap_err()
}

#[test]
fn a_guest_that_dies_is_quoted() {
    let Some(kvm) = kvm("a_guest_that_dies_is_quoted", Uart::MmioReadonly) else {
        return;
    };
    for (failure, told) in [
        (
            Failure::Panic,
            "panic on CPU 0: on purpose (kernel/src/fail.rs:",
        ),
        (Failure::NullRead, "page fault on read, not mapped (rip 0x1"),
        (
            Failure::CodeWrite,
            "page fault on write, read-only (rip 0x1",
        ),
        (
            Failure::StackOverflow,
            "double fault, the stack is full (rip 0x1",
        ),
    ] {
        let error = failing(&kvm, failure);
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn a_guest_that_hangs_or_floods_is_ended() {
    for uart in Uart::ALL {
        let Some(kvm) = kvm("a_guest_that_hangs_or_floods", uart) else {
            continue;
        };
        let error = failing(&kvm, Failure::Flood);
        assert!(matches!(error, Error::Flood(10_000)), "{uart}: {error}");
    }
    let Some(kvm) = kvm("a_guest_that_hangs_or_floods", Uart::Ports) else {
        return;
    };
    let error = failing(&kvm, Failure::ReportFlood);
    assert!(matches!(error, Error::ReportFlood(10_000)), "{error}");
    let error = failing(&kvm, Failure::Hang);
    assert!(matches!(error, Error::Hung(after) if after == LIMITS.silence));
}

/// An ELF file with a PVH entry, whose code is `code`, 32-bit.
fn tiny_kernel(code: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x10_0000;
    const HEADERS: u64 = 64 + 2 * 56;
    let note_len = 20;
    let entry = BASE + HEADERS + note_len;
    let len = HEADERS + note_len + code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let halves = |elf: &mut Vec<u8>, values: &[u16]| {
        values.iter().for_each(|v| elf.extend(v.to_le_bytes()));
    };
    let words = |elf: &mut Vec<u8>, values: &[u32]| {
        values.iter().for_each(|v| elf.extend(v.to_le_bytes()));
    };
    let longs = |elf: &mut Vec<u8>, values: &[u64]| {
        values.iter().for_each(|v| elf.extend(v.to_le_bytes()));
    };
    halves(&mut elf, &[2, 62]); // executable, x86-64
    words(&mut elf, &[1]);
    longs(&mut elf, &[entry, 64, 0]);
    words(&mut elf, &[0]);
    halves(&mut elf, &[64, 56, 2, 64, 0, 0]);
    words(&mut elf, &[1, 7]); // to be loaded
    longs(&mut elf, &[0, BASE, BASE, len, len, 0x1000]);
    words(&mut elf, &[4, 4]); // notes
    let note = BASE + HEADERS;
    longs(&mut elf, &[HEADERS, note, note, note_len, note_len, 4]);
    words(&mut elf, &[4, 4, 18]);
    elf.extend(b"Xen\0");
    words(&mut elf, &[entry as u32]);
    elf.extend(code);
    elf
}

fn run_tiny(kvm: &Kvm, code: &[u8], limits: &Limits) -> Error {
    let kernel = tiny_kernel(code);
    kvm.run(&guest(&kernel, &[], b"input"), limits, &mut |_| {})
        .unwrap_err()
}

/// `mov dx, port; mov al, value; out dx, al`.
fn out(port: u16, value: u8) -> Vec<u8> {
    let [low, high] = port.to_le_bytes();
    vec![0x66, 0xba, low, high, 0xb0, value, 0xee]
}

#[test]
fn a_guest_that_is_no_kernel_of_ours_is_told_from_one() {
    let Some(kvm) = kvm("a_guest_that_is_no_kernel", Uart::Ports) else {
        return;
    };
    let undefined = [0x0f, 0x0b]; // and no handler: a triple fault
    assert!(matches!(run_tiny(&kvm, &undefined, &LIMITS), Error::Reset));
    for status in [0x10, 0x11] {
        let error = run_tiny(&kvm, &out(0xf4, status), &LIMITS);
        assert!(matches!(error, Error::Undone), "{error}");
    }
    let nonsense = [out(0xe9, b'x'), out(0xe9, 0xff), out(0xf4, 0x10)].concat();
    let error = run_tiny(&kvm, &nonsense, &LIMITS);
    assert!(matches!(&error, Error::NotAReport(line) if line == "x\u{fffd}"));

    // It never says a word: a loop without an exit, and one that is halted.
    let limits = Limits {
        start: Duration::from_secs(1),
        ..LIMITS
    };
    for silent in [&[0xeb, 0xfe][..], &[0xfa, 0xf4]] {
        let start = Instant::now();
        let error = run_tiny(&kvm, silent, &limits);
        assert!(matches!(error, Error::NeverStarted(_)), "{error}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

/// `mov esi, text; mov ecx, len; mov dx, port; cld; rep outsb`.
fn rep_outsb(text: u32, len: u32, port: u16) -> Vec<u8> {
    let [low, high] = port.to_le_bytes();
    let mut code = vec![0xbe];
    code.extend(text.to_le_bytes());
    code.push(0xb9);
    code.extend(len.to_le_bytes());
    code.extend([0x66, 0xba, low, high, 0xfc, 0xf3, 0x6e]);
    code
}

/// Says that all is done, and ends.
fn done() -> Vec<u8> {
    let mut code: Vec<u8> = b"\"done\"\n".iter().flat_map(|&b| out(0xe9, b)).collect();
    code.extend(out(0xf4, 0x10));
    code
}

/// Where [`copy`] puts what it reads.
const COPY: u32 = 0x20_0000;

/// `mov esi, from; mov edi, COPY + at; mov ecx, words; cld; 1: lodsd; stosd; loop 1b`.
fn copy(from: u32, at: u32, words: u32) -> Vec<u8> {
    let mut code = Vec::new();
    for (opcode, value) in [(0xbe, from), (0xbf, COPY + at), (0xb9, words)] {
        code.push(opcode);
        code.extend(value.to_le_bytes());
    }
    code.extend([0xfc, 0xad, 0xab, 0xe2, 0xfc]);
    code
}

/// `mov dword [to], value`.
fn store(to: u32, value: u32) -> Vec<u8> {
    let mut code = vec![0xc7, 0x05];
    code.extend(to.to_le_bytes());
    code.extend(value.to_le_bytes());
    code
}

#[test]
fn configuration_space_reads_the_same_from_memory_and_by_exits() {
    const ECAM: u32 = 0xe000_0000;
    const FUNCTION: u32 = 0x1000;
    const WORDS: u32 = FUNCTION / 4;
    let slot = |device: u32, function: u32| device << 15 | function << 12;
    // The host bridge, one with BARs, a root port, nobody; behind the root port, before
    // and after it has its bus numbers; a BAR being sized.
    let reads = [slot(0, 0), slot(1, 0), slot(2, 0), slot(9, 0), 1 << 20];
    let (bar, buses) = (slot(1, 0) + 0x10, slot(2, 0) + 0x18);
    let writes = [(bar, u32::MAX), (buses, 0x0007_0100)];
    let mut bridge = Topology::new(0..=15).unwrap().bridge;
    let mut code = Vec::new();
    let mut expected = Vec::new();
    let mut read_all = |bridge: &mut nostall_devices::pci::HostBridge, code: &mut Vec<u8>| {
        for offset in reads {
            code.extend(copy(ECAM + offset, expected.len() as u32, WORDS));
            let mut bytes = vec![0; FUNCTION as usize];
            for (n, word) in bytes.chunks_mut(4).enumerate() {
                bridge.ecam_read(u64::from(offset) + 4 * n as u64, word);
            }
            expected.extend(bytes);
        }
    };
    read_all(&mut bridge, &mut code);
    for (to, value) in writes {
        code.extend(store(ECAM + to, value));
        bridge.ecam_write(to.into(), &value.to_le_bytes());
        read_all(&mut bridge, &mut code);
    }
    code.extend(done());
    let kernel = tiny_kernel(&code);
    let all = expected.len() as u64 / 4;
    for (pci, exits) in [(Pci::Trap, all + 2), (Pci::EcamShadow, 2)] {
        let uart = Uart::Ports;
        let Some(kvm) = kvm_with("configuration_space_reads_the_same", Options { uart, pci })
        else {
            continue;
        };
        let ram = GuestRam::new(8).unwrap();
        let guest = Guest {
            ram: Some(&ram),
            ..guest(&kernel, &[], &[])
        };
        let ran = kvm.run(&guest, &LIMITS, &mut |_| {}).unwrap();
        let (start, len) = (u64::from(COPY), expected.len() as u64);
        let read = ram.read(start..start + len).unwrap();
        let differs = read.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{pci}");
        assert_eq!(ran.exits.unwrap().total.pci, exits, "{pci}");
    }
}

#[test]
fn an_index_that_is_collected_is_there_when_the_data_port_is_read() {
    // Registers 0 to 15 of the host bridge, of one with BARs, and of nobody: `mov eax,
    // index; mov dx, 0xcf8; out dx, eax; mov dl, 0xfc; in eax, dx; mov [to], eax`.
    let mut bridge = Topology::new(0..=15).unwrap().bridge;
    let mut code = Vec::new();
    let mut expected = Vec::new();
    for device in [0, 1, 9] {
        for register in (0..64).step_by(4) {
            let index: u32 = 1 << 31 | device << 11 | register;
            code.push(0xb8);
            code.extend(index.to_le_bytes());
            code.extend([0x66, 0xba, 0xf8, 0x0c, 0xef, 0xb2, 0xfc, 0xed, 0xa3]);
            code.extend((COPY + expected.len() as u32).to_le_bytes());
            let mut word = [0; 4];
            bridge.ecam_read(u64::from(device << 15 | register), &mut word);
            expected.extend(word);
        }
    }
    code.extend(done());
    let kernel = tiny_kernel(&code);
    let reads = expected.len() as u64 / 4;
    let by = [
        (Pci::Trap, 2 * reads, 0),
        (Pci::PortsCoalesced, reads, reads),
    ];
    for (pci, exits, collected) in by {
        let uart = Uart::Ports;
        let Some(kvm) = kvm_with("an_index_that_is_collected", Options { uart, pci }) else {
            continue;
        };
        let ram = GuestRam::new(8).unwrap();
        let guest = Guest {
            ram: Some(&ram),
            ..guest(&kernel, &[], &[])
        };
        let ran = kvm.run(&guest, &LIMITS, &mut |_| {}).unwrap();
        let (start, len) = (u64::from(COPY), expected.len() as u64);
        assert_eq!(ram.read(start..start + len).unwrap(), expected, "{pci}");
        let total = ran.exits.unwrap().total;
        assert_eq!((total.pci, total.collected), (exits, collected), "{pci}");
    }
}

#[test]
fn the_ports_interrupt_reaches_the_interrupt_controller_through_its_gate() {
    let Some(kvm) = kvm("the_ports_interrupt_reaches", Uart::Ports) else {
        return;
    };
    if !kvm.capabilities().interrupts {
        return;
    }
    // What the 8259 has seen, at its command port after reset: `in al, 0x20; mov [to],
    // al`. The transmit interrupt is enabled behind the closed gate, which then opens.
    let look = |at: u32| [&[0xe4, 0x20, 0xa2][..], &(COPY + at).to_le_bytes()].concat();
    let code = [
        look(0),
        out(0x3f9, 2),
        look(1),
        out(0x3fc, 8),
        look(2),
        done(),
    ];
    let kernel = tiny_kernel(&code.concat());
    let ram = GuestRam::new(8).unwrap();
    let guest = Guest {
        ram: Some(&ram),
        ..guest(&kernel, &[], &[])
    };
    kvm.run(&guest, &LIMITS, &mut |_| {}).unwrap();
    let start = u64::from(COPY);
    let seen = ram.read(start..start + 3).unwrap();
    let irq4: Vec<_> = seen.iter().map(|seen| seen >> 4 & 1).collect();
    assert_eq!(irq4, [0, 0, 1]);
}

#[test]
fn every_port_instruction_does_what_it_should() {
    for pci in Pci::ALL {
        let uart = Uart::PortsCoalesced;
        let Some(kvm) = kvm_with("every_port_instruction", Options { uart, pci }) else {
            continue;
        };
        let work = [Work::BusCheck];
        let ran = kvm.run(&guest(KERNEL, &work, &[]), &LIMITS, &mut |_| {});
        assert_eq!(ran.unwrap().reports.last(), Some(&Report::Done), "{pci}");
    }
}

#[test]
fn more_than_can_be_collected_arrives_in_order_all_the_same() {
    // Memory that counts, as the guest itself makes it: `mov edi, at; xor eax, eax;
    // mov ecx, len; 1: stosb; inc eax; loop 1b`.
    const AT: u32 = 0x20_0000;
    const LEN: u32 = 9_000;
    let mut code = vec![0xbf];
    code.extend(AT.to_le_bytes());
    code.extend([0x31, 0xc0, 0xb9]);
    code.extend(LEN.to_le_bytes());
    code.extend([0xaa, 0x40, 0xe2, 0xfc]);
    code.extend(rep_outsb(AT, LEN, 0x3f8));
    code.extend(done());
    let kernel = tiny_kernel(&code);
    let expected: Vec<u8> = (0..LEN).map(|n| n as u8).collect();
    for uart in [Uart::Ports, Uart::PortsCoalesced] {
        let Some(kvm) = kvm("more_than_can_be_collected", uart) else {
            continue;
        };
        let ran = kvm
            .run(&guest(&kernel, &[], &[]), &LIMITS, &mut |_| {})
            .unwrap();
        assert!(ran.serial == expected, "{uart}: not as sent");
        let exits = ran.exits.unwrap().total;
        assert_eq!(exits.uart + exits.collected, u64::from(LEN), "{exits:?}");

        assert_eq!(exits.collected > 0, uart != Uart::Ports, "{exits:?}");
    }
}

#[test]
fn what_cannot_be_booted_is_refused_with_the_reason() {
    let Some(kvm) = kvm("what_cannot_be_booted", Uart::Ports) else {
        return;
    };
    let refused = |guest: &Guest<'_>| {
        let error = kvm.run(guest, &LIMITS, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Unbootable(_)), "{error}");
        error.to_string()
    };
    let usual = guest(KERNEL, &[], &[]);
    for kernel in [&b""[..], b"no kernel", &KERNEL[..100], &KERNEL[..5_000]] {
        assert!(refused(&Guest { kernel, ..usual }).contains("not a kernel"));
    }
    let told = refused(&Guest { cpus: 2, ..usual });
    assert!(told.contains("2 CPUs: it has one"), "{told}");
    let ram = GuestRam::new(4).unwrap();
    let input = vec![0; 4 << 20];
    let told = refused(&Guest {
        ram: Some(&ram),
        input: &input,
        ..usual
    });
    assert!(told.contains("do not fit"), "{told}");
    let work = vec![Work::UartScript; 1_000];
    let told = refused(&Guest {
        work: &work,
        ..usual
    });
    assert!(told.contains("a command line of"), "{told}");
}

#[test]
fn ram_outlives_the_guest_and_the_next_one_finds_its_own_memory_clean() {
    let Some(kvm) = kvm("ram_outlives_the_guest", Uart::Ports) else {
        return;
    };
    let ram = GuestRam::new(128).unwrap();
    for _ in 0..2 {
        let guest = Guest {
            ram: Some(&ram),
            ..guest(KERNEL, &[], &[])
        };
        let Ran { reports, .. } = kvm.run(&guest, &LIMITS, &mut |_| {}).unwrap();
        assert!(matches!(
            reports[..],
            [Report::Ready { cpus: 1, .. }, Report::Done]
        ));
        let image = ram.read(0x10_0000..0x10_1000).unwrap();
        assert!(image.iter().any(|&byte| byte != 0), "the kernel is there");
    }
}
