//! Guests of a few instructions on the KVM machine: the results of their accesses, and the
//! errors of invalid guests.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::io::Write;
use std::thread;
use std::time::Duration;

use nostall_devices::pci::{HostBridge, Topology};
use nostall_vm::kvm::{Kvm, Options, PciMode, UartMode};
use nostall_vm::{Ending, Error, Guest, GuestRam, Limits, Machine as _, Work};
use nostall_work::script;
use vmm_sys_util::signal::{SIGRTMIN, block_signal};

/// Limits for guests that fail: the usual start, and little time after it.
const LIMITS: Limits = Limits {
    start: Duration::from_secs(60),
    silence: Duration::from_secs(60),
    total: Duration::from_secs(120),
    serial_bytes: 10_000,
    report_bytes: 1_000_000,
    qemu_bytes: 0,
};

/// Returns the host's KVM. Without KVM the test prints that it is skipped, and fails if
/// `NOSTALL_REQUIRE_KVM` is set.
fn kvm(test: &str, uart: UartMode) -> Option<Kvm> {
    let pci = PciMode::Trap;
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
    // The test harness captures the output of std's macros, so they are not used here.
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
        flash: None,
        qemu_args: &[],
    }
}

/// Returns an ELF file with a PVH entry and the 32-bit code `code`.
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
    let guest = guest(&kernel, &[], b"input");
    kvm.run(&guest, limits, Ending::Done, &mut |_| {})
        .unwrap_err()
}

/// `mov dx, port; mov al, value; out dx, al`.
fn out(port: u16, value: u8) -> Vec<u8> {
    let [low, high] = port.to_le_bytes();
    vec![0x66, 0xba, low, high, 0xb0, value, 0xee]
}

#[test]
fn each_failure_of_a_foreign_guest_has_its_own_error() {
    let Some(kvm) = kvm("a_guest_that_is_no_kernel", UartMode::Ports) else {
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

    // Guests without output: a loop without exits, and a halted CPU.
    let limits = Limits {
        start: Duration::from_secs(1),
        ..LIMITS
    };
    for silent in [&[0xeb, 0xfe][..], &[0xfa, 0xf4]] {
        let error = run_tiny(&kvm, silent, &limits);
        assert!(
            matches!(error, Error::NeverStarted(after) if after == limits.start),
            "{error}"
        );
    }
}

#[test]
fn a_caller_with_all_signals_blocked_can_still_end_a_guest() {
    let Some(kvm) = kvm("a_guest_is_ended_even_by_a_caller", UartMode::Ports) else {
        return;
    };
    let limits = Limits {
        start: Duration::from_secs(1),
        ..LIMITS
    };
    // `1: inc dword [COPY]; jmp 1b`
    let mut code = vec![0xff, 0x05];
    code.extend(COPY.to_le_bytes());
    code.extend([0xeb, 0xf8]);
    let kernel = tiny_kernel(&code);
    let ram = GuestRam::new(8).unwrap();
    let run = || {
        // Blocks the signal for this thread and the threads that it starts.
        block_signal(SIGRTMIN()).unwrap();
        let guest = Guest {
            ram: Some(&ram),
            ..guest(&kernel, &[], &[])
        };
        kvm.run(&guest, &limits, Ending::Done, &mut |_| {})
            .unwrap_err()
    };
    let error = thread::scope(|scope| scope.spawn(run).join().unwrap());
    assert!(matches!(error, Error::NeverStarted(_)), "{error}");
    let counted = || ram.read(COPY.into()..u64::from(COPY) + 4).unwrap();
    let then = counted();
    assert_ne!(then, [0; 4]);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(counted(), then, "the guest still runs");
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

/// Reports success, and ends.
fn done() -> Vec<u8> {
    let mut code: Vec<u8> = b"\"done\"\n".iter().flat_map(|&b| out(0xe9, b)).collect();
    code.extend(out(0xf4, 0x10));
    code
}

#[test]
fn exits_belong_to_their_report_regardless_of_empty_lines() {
    let Some(kvm) = kvm("exits_belong_to_their_report", UartMode::Ports) else {
        return;
    };
    let scratch = || out(0x3ff, 0);
    let empty_lines = [out(0xe9, b'\n'), scratch(), out(0xe9, b'\n')].concat();
    let code = [scratch(), empty_lines, scratch(), done()].concat();
    let kernel = tiny_kernel(&code);
    let ran = kvm
        .run(
            &guest(&kernel, &[], &[]),
            &LIMITS,
            Ending::Done,
            &mut |_| {},
        )
        .unwrap();
    let exits = ran.exits.unwrap();
    let uart: Vec<_> = exits.before_report.iter().map(|exits| exits.uart).collect();
    assert_eq!((ran.reports.len(), uart), (1, vec![3]));
}

#[test]
fn a_cpu_that_cannot_continue_is_reported_with_the_reason() {
    let Some(kvm) = kvm("a_cpu_that_cannot_go_on", UartMode::Ports) else {
        return;
    };
    // `mov eax, nowhere; jmp eax`: there is no memory to fetch instructions from.
    let error = run_tiny(&kvm, &[0xb8, 0, 0, 0, 0xd8, 0xff, 0xe0], &LIMITS);
    let result = "can neither run nor interpret the instruction at 0xd8000000";
    assert!(error.to_string().ends_with(result), "{error}");
}

/// The address where [`copy`] stores the values that it reads.
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
fn configuration_space_reads_the_same_from_memory_and_through_exits() {
    const ECAM: u32 = 0xe000_0000;
    const FUNCTION: u32 = 0x1000;
    const WORDS: u32 = FUNCTION / 4;
    let slot = |device: u32, function: u32| device << 15 | function << 12;
    // The host bridge, a function with BARs, a root port, and an absent function. Then a function
    // behind the root port, before and after it has its bus numbers, and a BAR during sizing.
    let reads = [slot(0, 0), slot(1, 0), slot(2, 0), slot(9, 0), 1 << 20];
    let (bar, buses) = (slot(1, 0) + 0x10, slot(2, 0) + 0x18);
    let writes = [(bar, u32::MAX), (buses, 0x0007_0100)];
    let mut bridge = Topology::new(0..=15).unwrap().bridge;
    let mut code = Vec::new();
    let mut expected = Vec::new();
    let mut read_all = |bridge: &mut HostBridge, code: &mut Vec<u8>| {
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
    for (pci, exits) in [(PciMode::Trap, all + 2), (PciMode::EcamShadow, 2)] {
        let uart = UartMode::Ports;
        let Some(kvm) = kvm_with("configuration_space_reads_the_same", Options { uart, pci })
        else {
            continue;
        };
        let ram = GuestRam::new(8).unwrap();
        let guest = Guest {
            ram: Some(&ram),
            ..guest(&kernel, &[], &[])
        };
        let ran = kvm.run(&guest, &LIMITS, Ending::Done, &mut |_| {}).unwrap();
        let (start, len) = (u64::from(COPY), expected.len() as u64);
        let read = ram.read(start..start + len).unwrap();
        let differs = read.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{pci}");
        assert_eq!(ran.exits.unwrap().total.pci, exits, "{pci}");
    }
}

/// Repeats `code`: `mov ebp, times; 1: CODE; dec ebp; jnz 1b`.
fn repeat(times: u32, code: &[u8]) -> Vec<u8> {
    let mut all = vec![0xbd];
    all.extend(times.to_le_bytes());
    all.extend(code);
    all.extend([0x4d, 0x0f, 0x85]);
    let back = -(code.len() as i32 + 7);
    all.extend(back.to_le_bytes());
    all
}

#[test]
fn a_guest_that_toggles_bus_numbers_changes_the_memory_map_in_proportion_to_its_exits() {
    const ECAM: u32 = 0xe000_0000;
    const NUMBERS: u32 = ECAM + (2 << 15) + 0x18;
    const TIMES: u32 = 400;
    const BUSES: u64 = 16;
    let (uart, pci) = (UartMode::Ports, PciMode::EcamShadow);
    let Some(kvm) = kvm_with("a_guest_that_toggles_bus_numbers", Options { uart, pci }) else {
        return;
    };
    // Each toggle moves the bus behind a root port, and reads both places.
    let toggle = [
        store(NUMBERS, 0x0001_0100),
        copy(ECAM + (1 << 20), 0, 1),
        store(NUMBERS, 0x0008_0800),
        copy(ECAM + (1 << 20), 4, 1),
        copy(ECAM + (8 << 20), 8, 1),
    ];
    let code = repeat(TIMES, &toggle.concat());
    let ram = GuestRam::new(8).unwrap();
    let kernel = tiny_kernel(&[&code[..], &done()].concat());
    let guest = Guest {
        ram: Some(&ram),
        ..guest(&kernel, &[], &[])
    };
    let ran = kvm.run(&guest, &LIMITS, Ending::Done, &mut |_| {}).unwrap();
    let exits = ran.exits.unwrap();
    // One mapping per bus at the start. Each is made and removed; four for each bus are free.
    assert_eq!(exits.maps_at_start.count, BUSES);
    let most = 2 * (4 * BUSES + exits.total.pci / 100 + 1);
    let made = exits.total.maps.count;
    assert!(
        made <= most,
        "{made} changes by {} writes, not {most}",
        2 * TIMES
    );
    // An upstream port is at the new place, and nothing at the old one.
    let start = u64::from(COPY);
    let seen = ram.read(start..start + 12).unwrap();
    let port = 0x10f2_1af4_u32.to_le_bytes();
    assert_eq!(seen, [port, [0xff; 4], port].concat());
}

#[test]
fn a_guest_that_makes_line_errors_changes_the_memory_map_in_proportion_to_its_exits() {
    const PORT: u32 = 0xd000_0000;
    const STRIDE: u32 = 0x1000;
    const TIMES: u32 = 600;
    let Some(kvm) = kvm("a_guest_that_makes_line_errors", UartMode::MmioReadonly) else {
        return;
    };
    // In loopback without a FIFO the second byte overruns the first, and a read of the line
    // status clears the error: `mov byte [THR], al` twice, `mov al, [LSR]`.
    let access = |opcode: u8, register: u32| {
        let mut code = vec![opcode];
        code.extend((PORT + register * STRIDE).to_le_bytes());
        code
    };
    let (write, read) = (0xa2, 0xa0);
    let overrun = [access(write, 0), access(write, 0), access(read, 5)].concat();
    let loopback = [&[0xb0, 0x10][..], &access(write, 4)].concat();
    let code = [loopback, repeat(TIMES, &overrun), done()].concat();
    let kernel = tiny_kernel(&code);
    let ran = kvm.run(
        &guest(&kernel, &[], &[]),
        &LIMITS,
        Ending::Done,
        &mut |_| {},
    );
    let exits = ran.unwrap().exits.unwrap();
    let most = 2 * (4 + exits.total.uart / 100 + 1);
    let made = exits.total.maps.count;
    assert!(made <= most, "{made} changes by {TIMES} errors, not {most}");
}

#[test]
fn a_collected_index_takes_effect_before_the_data_port_is_read() {
    // Registers 0 to 15 of the host bridge, of a function with BARs, and of an absent one: `mov
    // eax, index; mov dx, 0xcf8; out dx, eax; mov dl, 0xfc; in eax, dx; mov [to], eax`.
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
        (PciMode::Trap, 2 * reads, 0),
        (PciMode::PortsCoalesced, reads, reads),
    ];
    for (pci, exits, collected) in by {
        let uart = UartMode::Ports;
        let Some(kvm) = kvm_with("an_index_that_is_collected", Options { uart, pci }) else {
            continue;
        };
        let ram = GuestRam::new(8).unwrap();
        let guest = Guest {
            ram: Some(&ram),
            ..guest(&kernel, &[], &[])
        };
        let ran = kvm.run(&guest, &LIMITS, Ending::Done, &mut |_| {}).unwrap();
        let (start, len) = (u64::from(COPY), expected.len() as u64);
        assert_eq!(ram.read(start..start + len).unwrap(), expected, "{pci}");
        let total = ran.exits.unwrap().total;
        assert_eq!((total.pci, total.collected), (exits, collected), "{pci}");
    }
}

#[test]
fn the_ports_interrupt_reaches_the_interrupt_controller_through_its_gate() {
    let Some(kvm) = kvm("the_ports_interrupt_reaches", UartMode::Ports) else {
        return;
    };
    if !kvm.capabilities().interrupts {
        return;
    }
    // The 8259's requests, read at its command port after reset: `in al, 0x20; mov [to], al`.
    // The transmit interrupt is enabled behind the closed gate, which then opens.
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
    kvm.run(&guest, &LIMITS, Ending::Done, &mut |_| {}).unwrap();
    let start = u64::from(COPY);
    let seen = ram.read(start..start + 3).unwrap();
    let irq4: Vec<_> = seen.iter().map(|seen| seen >> 4 & 1).collect();
    assert_eq!(irq4, [0, 0, 1]);
}

#[test]
fn output_beyond_the_rings_size_arrives_in_order() {
    // The guest fills memory with a count: `mov edi, at; xor eax, eax; mov ecx, len; 1: stosb;
    // inc eax; loop 1b`.
    const AT: u32 = 0x20_0000;
    const LEN: u32 = 9_000;
    let mut by_ports = vec![0xbf];
    by_ports.extend(AT.to_le_bytes());
    by_ports.extend([0x31, 0xc0, 0xb9]);
    by_ports.extend(LEN.to_le_bytes());
    by_ports.extend([0xaa, 0x40, 0xe2, 0xfc]);
    by_ports.extend(rep_outsb(AT, LEN, 0x3f8));
    by_ports.extend(done());
    // The same count, written to the port: `xor eax, eax; mov ecx, len; 1: mov [THR], al; inc
    // eax; loop 1b`.
    let mut in_memory = vec![0x31, 0xc0, 0xb9];
    in_memory.extend(LEN.to_le_bytes());
    in_memory.push(0xa2);
    in_memory.extend(0xd000_0000u32.to_le_bytes());
    in_memory.extend([0x40, 0xe2, 0xf8]);
    in_memory.extend(done());
    let expected: Vec<u8> = (0..LEN).map(|n| n as u8).collect();
    for uart in UartMode::ALL {
        let Some(kvm) = kvm("more_than_can_be_collected", uart) else {
            continue;
        };
        let kernel = tiny_kernel(match uart {
            UartMode::MmioReadonly => &in_memory,
            _ => &by_ports,
        });
        let ran = kvm
            .run(
                &guest(&kernel, &[], &[]),
                &LIMITS,
                Ending::Done,
                &mut |_| {},
            )
            .unwrap();
        assert!(ran.serial == expected, "{uart}: the output differs");
        let exits = ran.exits.unwrap().total;
        assert_eq!(exits.uart + exits.collected, u64::from(LEN), "{exits:?}");
        assert_eq!(exits.collected > 0, uart != UartMode::Ports, "{exits:?}");
    }
}

#[test]
fn output_that_is_not_taken_is_bounded_for_every_kind_of_exit() {
    // Each hands over the collected writes: a read of the line status, and accesses unrelated to
    // the serial port.
    let exits: [(&str, &[u8]); 4] = [
        ("a read of the port", &[0x66, 0xba, 0xfd, 0x03, 0xec]),
        ("a read elsewhere", &[0x66, 0xba, 0x80, 0, 0xec]),
        ("a write elsewhere", &[0x66, 0xba, 0x80, 0, 0xee]),
        ("a read of memory", &[0xa0, 0, 0, 0, 0xd8]),
    ];
    for (kind, exit) in exits {
        let Some(kvm) = kvm("output_that_is_not_taken", UartMode::PortsCoalesced) else {
            return;
        };
        // Fewer bytes than the host's kernel collects before a write is an exit; for ever.
        let mut code = rep_outsb(0x10_0000, 160, 0x3f8);
        code.extend(exit);
        let back = -(code.len() as i32 + 2);
        code.extend([0xeb, back as u8]);
        let kernel = tiny_kernel(&code);
        // Nothing takes the output meanwhile, so the guest would exceed the room in its buffer.
        let pause = &mut |_| thread::sleep(Duration::from_millis(300));
        let error = kvm
            .run(&guest(&kernel, &[], &[]), &LIMITS, Ending::Done, pause)
            .unwrap_err();
        assert!(
            matches!(error, Error::Flood(bytes) if bytes == LIMITS.serial_bytes),
            "{kind}: {error}"
        );
    }
}

#[test]
fn the_memory_map_reserves_the_machines_registers() {
    let Some(kvm) = kvm("where_the_machine_has_registers", UartMode::MmioReadonly) else {
        return;
    };
    let kernel = tiny_kernel(&done());
    let ram = GuestRam::new(8).unwrap();
    let guest = Guest {
        ram: Some(&ram),
        ..guest(&kernel, &[], &[])
    };
    kvm.run(&guest, &LIMITS, Ending::Done, &mut |_| {}).unwrap();
    let word = |at: u64| {
        let bytes = ram.read(at..at + 8).unwrap();
        u64::from_le_bytes(bytes.try_into().unwrap())
    };
    // `struct hvm_start_info`: the address of the memory map, and its number of entries.
    let (map, entries) = (word(0x6000 + 40), word(0x6000 + 48) & 0xffff_ffff);
    let entries = (0..entries).map(|n| map + 24 * n);
    let reserved: Vec<_> = entries
        .filter(|&entry| word(entry + 16) == 2)
        .map(|entry| (word(entry), word(entry + 8)))
        .collect();
    assert_eq!(reserved, [(0xd000_0000, 0x8000), (0xe000_0000, 16 << 20)]);
}

#[test]
fn an_unbootable_guest_is_refused_with_the_reason() {
    let Some(kvm) = kvm("an_unbootable_guest", UartMode::Ports) else {
        return;
    };
    let refused = |guest: &Guest<'_>| {
        let error = kvm
            .run(guest, &LIMITS, Ending::Done, &mut |_| {})
            .unwrap_err();
        let is_refusal = matches!(error, Error::Unbootable(_) | Error::Cpus { .. });
        assert!(is_refusal, "{error}");
        error.to_string()
    };
    let tiny = tiny_kernel(&done());
    let usual = guest(&tiny, &[], &[]);
    for kernel in [
        &b""[..],
        b"no kernel",
        &tiny[..100],
        &tiny[..tiny.len() - 1],
    ] {
        assert!(refused(&Guest { kernel, ..usual }).contains("not a kernel"));
    }
    let result = refused(&Guest { cpus: 2, ..usual });
    assert!(
        result.contains("kvm can have 1 to 1 CPUs for the guest, not 2"),
        "{result}"
    );
    let ram = GuestRam::new(4).unwrap();
    let input = vec![0; 4 << 20];
    let result = refused(&Guest {
        ram: Some(&ram),
        input: &input,
        ..usual
    });
    assert!(result.contains("do not fit"), "{result}");
    let work = vec![Work::from(script::Job); 1_000];
    let result = refused(&Guest {
        work: &work,
        ..usual
    });
    assert!(result.contains("a command line of"), "{result}");
}
