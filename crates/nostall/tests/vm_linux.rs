//! A stock kernel's boot on our own machine, as far as the test host allows. On KVM it is a small
//! kernel in Linux's format. In QEMU, Linux reads our tables.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "common/kvm.rs"]
mod common_kvm;
#[path = "common/pauses.rs"]
mod pauses;
#[path = "common/terminal.rs"]
mod terminal;

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use common_kvm::{kvm_with, skip};
use nostall_vm::kvm::linux::{Ended, Finished, Linux, LinuxConsole, PciAccess};
use nostall_vm::kvm::{self, Kvm, Options, UartMode};
use nostall_vm::{Error, Exits};
use pauses::pause_until;

fn kvm(test: &str, uart: UartMode) -> Option<Kvm> {
    let options = Options {
        uart,
        ..Options::default()
    };
    find(test, options)
}

/// Returns the host's KVM, if it supports a kernel's interrupts.
fn find(test: &str, options: Options) -> Option<Kvm> {
    let kvm = kvm_with(test, options)?;
    if !kvm.capabilities().interrupts {
        skip(test, "no interrupt controllers");
        return None;
    }
    Some(kvm)
}

/// Returns a bzImage (Linux: Documentation/arch/x86/boot.rst) with the 64-bit entry `code`.
fn bzimage(code: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 0x600];
    let mut put = |at: usize, bytes: &[u8]| image[at..][..bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[1]); // sectors of set-up code
    put(0x1fe, &[0x55, 0xaa, 0xeb, 0x6a]);
    put(0x202, b"HdrS\x0f\x02");
    put(0x211, &[1]); // loaded high
    put(0x22c, &0x7fff_ffffu32.to_le_bytes()); // highest address of an initrd
    put(0x230, &0x20_0000u32.to_le_bytes()); // alignment
    put(0x234, &[1, 21, 1]); // may be moved; has a 64-bit entry
    put(0x238, &2047u32.to_le_bytes()); // longest command line
    put(0x258, &0x100_0000u64.to_le_bytes()); // preferred address
    put(0x260, &0x10_0000u32.to_le_bytes()); // size needed there
    // The entry is 0x200 after the set-up code.
    image.extend(code);
    image
}

/// `mov edx, port; mov al, value; out dx, al`.
fn out(port: u32, value: u8) -> Vec<u8> {
    let mut code = vec![0xba];
    code.extend(port.to_le_bytes());
    code.extend([0xb0, value, 0xee]);
    code
}

/// `mov eax, address; mov byte [rax], value`.
fn store(address: u32, value: u8) -> Vec<u8> {
    let mut code = vec![0xb8];
    code.extend(address.to_le_bytes());
    code.extend([0xc6, 0x00, value]);
    code
}

/// Ends with the status 2 * `error` + 1 if the 32 bits at `RSI + offset` differ: `cmp dword [rsi
/// + offset], expected; je past`.
fn expect(offset: u32, expected: u32, error: u8) -> Vec<u8> {
    let mut code = vec![0x81, 0xbe];
    code.extend(offset.to_le_bytes());
    code.extend(expected.to_le_bytes());
    let end = out(0xf4, error);
    code.extend([0x74, end.len() as u8]);
    code.extend(end);
    code
}

const END: u8 = 0x10;
const ENDED: Ended = Ended::Status(2 * END as i32 + 1);

fn run(kvm: &Kvm, code: &[u8], linux: Linux<'_>, limit: u64) -> (Finished, Vec<u8>) {
    let kernel = bzimage(code);
    let mut output = Vec::new();
    let console = LinuxConsole {
        output: &mut output,
        input: None,
        escape: false,
        limit: Some(Duration::from_secs(limit)),
        signals: None,
    };
    let linux = Linux {
        kernel: &kernel,
        ..linux
    };
    let finished = kvm.linux(&linux, console).unwrap();
    (finished, output)
}

const LINUX: Linux<'_> = Linux {
    kernel: &[],
    initrd: &[],
    command_line: "console=ttyS0",
    memory: 64 << 20,
    pci: PciAccess::Ports,
};

#[test]
fn a_kernel_is_entered_as_the_64_bit_protocol_has_it() {
    let magic = u32::from_le_bytes(*b"HdrS");
    let code = [
        expect(0x202, magic, 0x21),
        expect(0x218, 0x3ff_f000, 0x22), // the initrd, at the end of RAM
        expect(0x21c, 4, 0x23),
        out(0x3f8, b'h'),
        // Valid only in long mode: `mov rax, 'i' << 32; shr rax, 32`.
        vec![0x48, 0xb8, 0, 0, 0, 0, b'i', 0, 0, 0],
        vec![0x48, 0xc1, 0xe8, 0x20],
        vec![0xba, 0xf8, 0x03, 0, 0, 0xee],
        out(0xf4, END),
    ];
    let code = code.concat();
    for uart in [UartMode::Ports, UartMode::PortsCoalesced] {
        let Some(kvm) = kvm("a_kernel_is_entered", uart) else {
            continue;
        };
        let linux = Linux {
            initrd: b"disk",
            ..LINUX
        };
        let (finished, output) = run(&kvm, &code, linux, 60);
        assert_eq!(finished.ended, ENDED, "{uart}");
        assert_eq!((&output[..], finished.bytes), (&b"hi"[..], 2));
        assert!(finished.first_byte.is_some_and(|at| at <= finished.took));
        let collected = if uart == UartMode::Ports { 0 } else { 2 };
        assert_eq!(finished.exits.uart, 2 - collected);
        assert_eq!(finished.exits.collected, collected);
    }
}

#[test]
fn ram_may_go_on_above_4_gib() {
    let Some(kvm) = kvm("ram_may_go_on_above_4_gib", UartMode::Ports) else {
        return;
    };
    // An entry of the memory map in the zero page: start and length of the last range.
    let entry = |n: u32, word: u32| 0x2d0 + 20 * n + 4 * word;
    let code = [
        expect(0x1e8, 4, 0x21), // four ranges, and no other byte in the word
        expect(entry(3, 0), 0, 0x22),
        expect(entry(3, 1), 1, 0x23),
        expect(entry(3, 2), 1 << 30, 0x24),
        out(0xf4, END),
    ];
    let linux = Linux {
        memory: 4 << 30,
        ..LINUX
    };
    let (finished, _) = run(&kvm, &code.concat(), linux, 60);
    assert_eq!(finished.ended, ENDED);
}

#[test]
fn an_elf_file_is_entered_by_pvh() {
    // Our reference kernel. It has no job here, and reports its end to port 0xf4.
    static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));
    let Some(kvm) = kvm("an_elf_file_is_entered_by_pvh", UartMode::Ports) else {
        return;
    };
    let linux = |command_line| Linux {
        kernel: KERNEL,
        initrd: b"input",
        command_line,
        ..LINUX
    };
    let ended = |command_line| {
        let console = LinuxConsole {
            output: &mut std::io::sink(),
            input: None,
            escape: false,
            limit: Some(Duration::from_secs(60)),
            signals: None,
        };
        kvm.linux(&linux(command_line), console).unwrap().ended
    };
    assert_eq!(ended("cpus=1 repeat=1 uart=ports timer=none"), ENDED);
    // One CPU more than the machine can have: the kernel panics.
    assert_ne!(ended("cpus=2 repeat=1 uart=ports timer=none"), ENDED);
}

#[test]
fn the_serial_port_is_in_memory_and_its_status_costs_nothing() {
    let Some(kvm) = kvm("the_serial_port_is_in_memory", UartMode::MmioReadonly) else {
        return;
    };
    // A hundred times, as a console does: `1: test byte [LSR], 0x20; jz 1b`, and a byte.
    let mut code = vec![0xb9, 100, 0, 0, 0]; // mov ecx, 100
    code.extend([0xbb, 0x00, 0x50, 0x00, 0xd0]); // mov ebx, LSR
    code.extend([0xf6, 0x03, 0x20, 0x74, 0xfb]);
    code.extend(store(0xd000_0000, b'x'));
    code.extend([0xff, 0xc9]); // dec ecx
    let back = -(code.len() as i32 - 10 + 2);
    code.extend([0x75, back as u8]); // jnz
    // A DesignWare's register at 0xf8 of the first page: `mov eax, at; cmp dword [rax], 0; je
    // past`.
    code.extend([0xb8, 0xf8, 0, 0, 0xd0, 0x83, 0x38, 0]);
    let end = out(0xf4, 0x21);
    code.extend([0x74, end.len() as u8]);
    code.extend(end);
    code.extend(out(0xf4, END));
    let (finished, output) = run(&kvm, &code, LINUX, 60);
    assert_eq!(finished.ended, ENDED);
    assert_eq!(output, [b'x'; 100]);
    let Exits {
        uart, collected, ..
    } = finished.exits;
    assert_eq!((uart, collected), (1, 100));
}

/// Returns code that reads the first words of devices 0 to 31 of bus 0, through ECAM or ports, and
/// sends the number of devices. Then `END`.
fn scan(pci: PciAccess) -> Vec<u8> {
    let mut code = vec![0x31, 0xdb, 0x31, 0xf6]; // xor ebx, ebx; xor esi, esi
    let first = code.len();
    match pci {
        PciAccess::Ports => {
            code.extend([0x89, 0xf0, 0xc1, 0xe0, 0x0b]); // eax = esi << 11
            code.extend([0x0d, 0, 0, 0, 0x80]); // or eax, 1 << 31
            code.extend([0xba, 0xf8, 0x0c, 0, 0, 0xef]); // out 0xcf8, eax
            code.extend([0xba, 0xfc, 0x0c, 0, 0, 0xed]); // in eax, 0xcfc
        }
        PciAccess::Ecam => {
            code.extend([0x89, 0xf0, 0xc1, 0xe0, 0x0f]); // eax = esi << 15
            code.extend([0x0d, 0, 0, 0, 0xe0]); // or eax, ECAM
            code.extend([0x8b, 0x00]); // mov eax, [rax]
        }
    }
    code.extend([0x83, 0xf8, 0xff, 0x74, 0x02, 0xff, 0xc3]); // if it is there, inc ebx
    code.extend([0xff, 0xc6, 0x83, 0xfe, 32]); // the next of 32
    let back = -(code.len() as i32 + 2 - first as i32);
    code.extend([0x72, back as u8]);
    code.extend([0xba, 0xf8, 0x03, 0, 0, 0x88, 0xd8, 0xee]); // out 0x3f8, bl
    code.extend(out(0xf4, END));
    code
}

#[test]
fn the_pci_bridge_is_found_in_each_way_by_its_number_of_exits() {
    for (pci, way, exits) in [
        (PciAccess::Ports, kvm::PciMode::Trap, 64),
        (PciAccess::Ports, kvm::PciMode::PortsCoalesced, 32),
        (PciAccess::Ecam, kvm::PciMode::Trap, 32),
        (PciAccess::Ecam, kvm::PciMode::EcamShadow, 0),
    ] {
        let options = Options {
            uart: UartMode::Ports,
            pci: way,
        };
        let Some(kvm) = find("the_pci_bridge_is_found", options) else {
            continue;
        };
        let (finished, output) = run(&kvm, &scan(pci), Linux { pci, ..LINUX }, 60);
        assert_eq!(finished.ended, ENDED, "{way}");
        // Five devices are on the root bus.
        assert_eq!(output, [5], "{way}");
        // In addition: the byte that is sent, and the end.
        let all = finished.exits;
        let accesses = all.port_reads + all.port_writes + all.mmio_reads + all.mmio_writes;
        assert_eq!(accesses, exits + 2, "{way}: {all:?}");
    }
}

#[test]
fn a_write_is_seen_in_the_shadow_at_once() {
    let options = Options {
        uart: UartMode::Ports,
        pci: kvm::PciMode::EcamShadow,
    };
    let Some(kvm) = find("a_write_is_seen_in_the_shadow", options) else {
        return;
    };
    // The interrupt line register of 01.0: written, read, sent.
    let register = 0xe000_803c;
    let mut code = store(register, 0x2a);
    code.push(0xb8);
    code.extend(register.to_le_bytes());
    code.extend([0x8a, 0x00, 0xba, 0xf8, 0x03, 0, 0, 0xee]); // mov al, [rax]; out
    code.extend(out(0xf4, END));
    let linux = Linux {
        pci: PciAccess::Ecam,
        ..LINUX
    };
    let (finished, output) = run(&kvm, &code, linux, 60);
    assert_eq!((finished.ended, &output[..]), (ENDED, &[0x2a][..]));
    assert_eq!(
        (finished.exits.mmio_reads, finished.exits.mmio_writes),
        (0, 1)
    );
}

#[test]
fn it_ends_by_power_off_and_reset_and_at_the_limit() {
    let Some(kvm) = kvm("it_ends_by_power_off", UartMode::Ports) else {
        return;
    };
    // `mov edx, 0x604; mov eax, SLP_EN | 5 << 10; out dx, ax`.
    let off = [0xba, 0x04, 0x06, 0, 0, 0xb8, 0x00, 0x34, 0, 0, 0x66, 0xef];
    let undefined = [0x0f, 0x0b]; // and no handler: a triple fault
    for (code, ended) in [
        (&off[..], Ended::Off),
        (&out(0xcf9, 6), Ended::Reset),
        (&out(0x64, 0xfe), Ended::Reset),
        (&undefined, Ended::Reset),
    ] {
        let (finished, output) = run(&kvm, code, LINUX, 60);
        assert_eq!((finished.ended, output), (ended, vec![]));
        assert_eq!(finished.first_byte, None);
    }
    let (finished, _) = run(&kvm, &ENDLESS, LINUX, 1);
    assert_eq!(finished.ended, Ended::TooLong);
}

const ENDLESS: [u8; 2] = [0xeb, 0xfe];

#[test]
fn a_reset_that_kvm_collects_as_if_it_were_an_index_is_a_reset() {
    let options = Options {
        pci: kvm::PciMode::PortsCoalesced,
        ..Options::default()
    };
    let Some(kvm) = find("a_reset_that_kvm_collects", options) else {
        return;
    };
    // Followed by nothing at all, or by a byte that must not be sent.
    for then in [&ENDLESS[..], &[out(0x3f8, b'x'), out(0xf4, END)].concat()] {
        let code = [&out(0xcf9, 6), then].concat();
        let (finished, output) = run(&kvm, &code, LINUX, 60);
        assert_eq!((finished.ended, output), (Ended::Reset, vec![]));
        assert_eq!((finished.exits.collected, finished.exits.pci), (1, 0));
    }
    // A byte of the index, and a write that is no reset, have no effect.
    let code = [out(0xcf8, 6), out(0xcf9, 2), out(0xf4, END)].concat();
    let (finished, _) = run(&kvm, &code, LINUX, 60);
    assert_eq!(finished.ended, ENDED);
    assert_eq!((finished.exits.collected, finished.exits.pci), (2, 0));
}

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}

/// Returns code that sends back every byte that it reads, until that is `q`.
fn echo() -> Vec<u8> {
    let mut code = vec![0xba, 0xfd, 0x03, 0, 0, 0xec]; // in al, LSR
    code.extend([0xa8, 0x01, 0x74, 0xf6]); // until there is data
    code.extend([0xba, 0xf8, 0x03, 0, 0, 0xec]); // in al, RBR
    code.extend([0x3c, b'q', 0x74, 0x03]); // q leaves
    let back = -(code.len() as i32 + 3);
    code.extend([0xee, 0xeb, back as u8]); // out THR; again
    code.extend(out(0xf4, END));
    code
}

/// The same code for a port in memory.
fn echo_in_memory() -> Vec<u8> {
    let mut code = vec![0xbb, 0x00, 0x50, 0x00, 0xd0]; // mov ebx, LSR
    code.extend([0xb9, 0x00, 0x00, 0x00, 0xd0]); // mov ecx, RBR and THR
    code.extend([0xf6, 0x03, 0x01, 0x74, 0xfb]); // until there is data
    code.extend([0x8a, 0x01, 0x3c, b'q', 0x74, 0x04]); // mov al, [rcx]; q leaves
    code.extend([0x88, 0x01, 0xeb, 0xf1]); // mov [rcx], al; again
    code.extend(out(0xf4, END));
    code
}

#[test]
fn typed_bytes_arrive_in_order_in_any_amount() {
    for uart in UartMode::ALL {
        let Some(kvm) = kvm("typed_bytes_arrive", uart) else {
            continue;
        };
        let text: Vec<u8> = (0..1000u32).map(|n| b'0' + (n % 10) as u8).collect();
        let input = file(&[&text[..], b"q", b"not read"].concat());
        // In memory the guest waits without an exit, because the value there changes.
        let code = match uart {
            UartMode::MmioReadonly => echo_in_memory(),
            _ => echo(),
        };
        let kernel = bzimage(&code);
        let mut output = Vec::new();
        let console = LinuxConsole {
            output: &mut output,
            input: Some(input.as_fd()),
            escape: false,
            limit: Some(Duration::from_secs(120)),
            signals: None,
        };
        let linux = Linux {
            kernel: &kernel,
            ..LINUX
        };
        let finished = kvm.linux(&linux, console).unwrap();
        assert_eq!(finished.ended, ENDED, "{uart}");
        assert!(output == text, "{uart}: {} bytes", output.len());
    }
}

#[test]
fn control_a_and_x_leaves_a_guest_that_hangs() {
    let Some(kvm) = kvm("control_a_and_x_leaves", UartMode::Ports) else {
        return;
    };
    let input = file(b"is it there?\x01x");
    let kernel = bzimage(&[0xeb, 0xfe]);
    let console = LinuxConsole {
        output: &mut std::io::sink(),
        input: Some(input.as_fd()),
        escape: true,
        limit: Some(Duration::from_secs(60)),
        signals: None,
    };
    let linux = Linux {
        kernel: &kernel,
        ..LINUX
    };
    assert_eq!(kvm.linux(&linux, console).unwrap().ended, Ended::Left);
}

#[test]
fn a_guest_that_floods_waits_for_the_reader() {
    /// A reader that pauses between reads, and at last stops reading.
    struct Slow(usize);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            std::thread::sleep(Duration::from_millis(20));
            self.0 += bytes.len();
            if self.0 > 20_000 {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let Some(kvm) = kvm("a_guest_that_floods", UartMode::PortsCoalesced) else {
        return;
    };
    // `1: out 0x3f8, al; jmp 1b`, for ever.
    let kernel = bzimage(&[0xba, 0xf8, 0x03, 0, 0, 0xee, 0xeb, 0xfd]);
    let console = LinuxConsole {
        output: &mut Slow(0),
        input: None,
        escape: false,
        limit: Some(Duration::from_secs(60)),
        signals: None,
    };
    let linux = Linux {
        kernel: &kernel,
        ..LINUX
    };
    let error = kvm.linux(&linux, console).unwrap_err();
    assert!(matches!(error, Error::System(_)), "{error}");
}

/// An output that takes nothing for a while, and then records the size of each piece.
struct Stuck {
    held: bool,
    pieces: Vec<usize>,
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if !std::mem::replace(&mut self.held, true) {
            // Long enough for megabytes, from a guest that does not wait.
            std::thread::sleep(Duration::from_secs(2));
        }
        self.pieces.push(bytes.len());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn output_that_is_not_taken_is_bounded_for_every_kind_of_exit() {
    /// The limit of waiting bytes, plus slack: one string instruction and one full ring.
    const MOST: usize = (1 << 20) + 1 + 4096 + 170;
    // Less than the host's kernel collects before a write is an exit.
    const BYTES: u32 = 160;
    const ROUNDS: u32 = 12_000;
    // Each of these hands over the collected writes: a read of the line status, and accesses
    // unrelated to the serial port.
    let exits: [(&str, &[u8]); 4] = [
        ("a read of the port", &[0xba, 0xfd, 0x03, 0, 0, 0xec]),
        ("a read elsewhere", &[0xba, 0x80, 0, 0, 0, 0xec]),
        ("a write elsewhere", &[0xba, 0x80, 0, 0, 0, 0xee]),
        ("a read of memory", &[0xb8, 0, 0, 0, 0xd8, 0x8a, 0x00]),
    ];
    for (kind, exit) in exits {
        let Some(kvm) = kvm("output_that_is_not_taken", UartMode::PortsCoalesced) else {
            return;
        };
        // `mov ebx, rounds; cld; 1: mov esi, entry; mov ecx, bytes; mov edx, 0x3f8;
        // rep outsb; EXIT; dec ebx; jnz 1b`.
        let mut code = vec![0xbb];
        code.extend(ROUNDS.to_le_bytes());
        code.push(0xfc);
        let again = code.len();
        code.extend([0xbe, 0, 0, 0, 1, 0xb9]);
        code.extend(BYTES.to_le_bytes());
        code.extend([0xba, 0xf8, 0x03, 0, 0, 0xf3, 0x6e]);
        code.extend(exit);
        code.extend([0xff, 0xcb]);
        let back = -(code.len() as i32 + 2 - again as i32);
        code.extend([0x75, back as u8]);
        code.extend(out(0xf4, END));
        let kernel = bzimage(&code);
        let mut output = Stuck {
            held: false,
            pieces: Vec::new(),
        };
        let console = LinuxConsole {
            output: &mut output,
            input: None,
            escape: false,
            limit: Some(Duration::from_secs(300)),
            signals: None,
        };
        let linux = Linux {
            kernel: &kernel,
            ..LINUX
        };
        let finished = kvm.linux(&linux, console).unwrap();
        assert_eq!(finished.ended, ENDED, "{kind}");
        assert_eq!(finished.bytes, u64::from(ROUNDS * BYTES), "{kind}: lost");
        let most = output.pieces.iter().max();
        assert!(most <= Some(&MOST), "{kind}: {most:?} bytes were kept");
    }
}

/// Returns the command with a kernel that prints "hi" and then runs `end`.
fn command(end: &[u8]) -> (assert_cmd::Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("bzImage");
    let hi = [out(0x3f8, b'h'), out(0x3f8, b'i')].concat();
    std::fs::write(&kernel, bzimage(&[&hi[..], end].concat())).unwrap();
    let mut command = assert_cmd::Command::cargo_bin("nostall").unwrap();
    command.args(["vm", "run"]).arg(kernel);
    (command, folder)
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_command_shows_what_is_sent_and_then_what_it_cost() {
    if kvm("the_command_shows_what_is_sent", UartMode::PortsCoalesced).is_none() {
        return;
    }
    let (mut command, _folder) = command(&out(0x64, 0xfe));
    command.args(["--force", "--stats", "--timeout", "60", "--memory", "64M"]);
    let output = command.output().unwrap();
    let stats = said(&output.stderr);
    assert!(output.status.success(), "{stats}");
    assert_eq!(output.stdout, b"hi");
    for line in [
        "uart: ports-coalesced",
        "ended by: reset",
        "bytes sent: 2",
        "exits at the UART: 0",
        "exits at the UART per byte: 0.0000",
        "writes collected: 2",
        "port writes: 1",
    ] {
        assert!(stats.lines().any(|told| told == line), "{line}: {stats}");
    }
}

#[test]
fn the_command_ends_in_order_at_its_limit_and_by_a_signal() {
    if kvm("the_command_ends_in_order", UartMode::PortsCoalesced).is_none() {
        return;
    }
    let for_ever = [0xeb, 0xfe];
    let (mut limited, _folder) = command(&for_ever);
    // Time for two bytes, however busy the host is.
    let output = limited
        .args(["--force", "--timeout", "3"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"hi");
    assert!(said(&output.stderr).contains("still runs at the end of --timeout"));

    let (command, _folder) = command(&for_ever);
    let mut child = std::process::Command::new(command.get_program())
        .args(command.get_args())
        .args(["--force", "--stats"])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // After its first output the guest is running.
    let mut hi = [0; 2];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut hi).unwrap();
    let kill = std::process::Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    let stats = said(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stats}");
    assert!(stats.contains("ended by: a signal"), "{stats}");
}

#[test]
fn the_terminal_is_the_guests_and_as_before_when_the_user_leaves() {
    use rustix::termios::{LocalModes, tcgetattr};

    if kvm("the_terminal_is_the_guests", UartMode::PortsCoalesced).is_none() {
        return;
    }
    let (user, terminal) = terminal::terminal();
    let before = tcgetattr(&terminal).unwrap().local_modes;
    let is_raw = || {
        !tcgetattr(&terminal)
            .unwrap()
            .local_modes
            .contains(LocalModes::ISIG)
    };
    assert!(!is_raw());

    let (command, folder) = command(&[]);
    std::fs::write(folder.path().join("bzImage"), bzimage(&echo())).unwrap();
    let mut child = std::process::Command::new(command.get_program())
        .args(command.get_args())
        .args(["--force", "--uart-mode", "ports", "--timeout", "60"])
        .stdin(terminal.try_clone().unwrap())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Ctrl-C goes to the guest, which sends it back.
    assert!(pause_until(is_raw), "never raw");
    (&user).write_all(b"ab\x03").unwrap();
    let mut sent = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut sent).unwrap();
    assert_eq!(&sent, b"ab\x03");
    (&user).write_all(b"\x01x").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(tcgetattr(&terminal).unwrap().local_modes, before);
}

#[test]
fn the_command_refuses_what_cannot_be_in_one_line() {
    if kvm("the_command_refuses", UartMode::PortsCoalesced).is_none() {
        return;
    }
    let refused = |args: &[&str]| {
        let (mut command, _folder) = command(&[0xf4]);
        let output = command.args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = said(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let interpreted = Kvm::find(Options::default()).unwrap().speed().unwrap();
    if interpreted.is_interpreted() {
        let said = refused(&[]);
        assert!(
            said.contains("or stop at an unsupported instruction; --force"),
            "{said}"
        );
    }
    let said = refused(&["--force", "--memory", "1M"]);
    assert!(said.contains("RAM: use whole pages, from 16"), "{said}");
    let said = refused(&["--initrd", "/nowhere"]);
    assert!(said.contains("cannot read /nowhere"), "{said}");
}

#[test]
fn the_recipe_boots_each_way_and_prints_what_to_report() {
    let ways = UartMode::ALL.map(|uart| kvm("the_recipe", uart).is_some());
    let busybox = concat!(env!("CARGO_TARGET_TMPDIR"), "/linux-peer/busybox");
    if ways.contains(&false) || !std::path::Path::new(busybox).exists() {
        // The test harness captures the output of std's macros, so they are not used here.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the_recipe: no KVM, or no busybox"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("bzImage");
    // Each machine has only one of the two ports; the other byte is not sent.
    let off = [0xba, 0x04, 0x06, 0, 0, 0xb8, 0x00, 0x34, 0, 0, 0x66, 0xef];
    let code = [&out(0x3f8, b'p')[..], &store(0xd000_0000, b'm'), &off].concat();
    std::fs::write(&kernel, bzimage(&code)).unwrap();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/recipes/uart-boot.sh"
    );
    let run = |rounds: &str| {
        assert_cmd::Command::new(script)
            .arg(&kernel)
            .arg(rounds)
            .env("NOSTALL", env!("CARGO_BIN_EXE_nostall"))
            .env("NOSTALL_ARGS", "--force")
            .env("BUSYBOX", busybox)
            .output()
            .unwrap()
    };
    let output = run("2");
    let (told, wrong) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{told}{wrong}");
    let row = |way: &str| {
        let row = told
            .lines()
            .find(|line| line.starts_with(&format!("{way} ")));
        let row = row.unwrap_or_else(|| panic!("{way}: {told}"));
        row.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // Bytes, exits at the UART, and exits per byte.
    for (way, figures) in [
        ("ports", ["1", "1", "1.0000"]),
        ("ports-coalesced", ["1", "0", "0.0000"]),
        ("mmio-readonly", ["1", "0", "0.0000"]),
    ] {
        let row = row(way);
        assert_eq!([&row[2], &row[4], &row[5]], figures, "{told}");
    }
    for line in ["CPU: ", "host kernel: Linux ", "KVM: ", "nostall: "] {
        assert!(told.contains(line), "{told}");
    }
    assert_eq!(run("0").status.code(), Some(1));
}
