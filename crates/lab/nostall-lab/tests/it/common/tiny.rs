//! Guests of a few instructions, which fail at once.

use nostall_vm::qemu::Architecture;

/// Behaviour of a tiny guest.
#[derive(Clone, Copy)]
pub enum Tiny {
    /// Ends the machine before a report, with success or failure.
    Ends { well: bool },
    /// Reports bytes that are no report.
    Nonsense,
    /// Resets the machine.
    Reset,
}

/// Returns the guest's ELF file.
pub fn kernel(architecture: Architecture, tiny: Tiny) -> Vec<u8> {
    match architecture {
        Architecture::X86_64 => {
            // Ports of QEMU's isa-debugcon and isa-debug-exit.
            let end = |well| out(0xf4, if well { 0x10 } else { 0x11 });
            pc(&match tiny {
                Tiny::Ends { well } => end(well),
                Tiny::Nonsense => [out(0xe9, b'x'), out(0xe9, 0xff), end(true)].concat(),
                // An undefined instruction without a table of handlers.
                Tiny::Reset => vec![0x0f, 0x0b],
            })
        }
        Architecture::Riscv64 => {
            let end = |well| exit(if well { 33 } else { 35 });
            elf(
                243,
                0x8020_0000,
                &match tiny {
                    Tiny::Ends { well } => end(well),
                    Tiny::Nonsense => {
                        let text = u32::from_le_bytes(*b"x\xff\0\0");
                        let over = 0x0080_006f; // j over the text
                        [&semihosting(WRITE, 7)[..], &[over, text], &end(true)].concat()
                    }
                    // SBI 2.0, 10.1: extension 0x53525354 in a7, function 0 in a6, a cold reboot in a0.
                    Tiny::Reset => vec![
                        0x5352_58b7, // lui a7, 0x53525
                        0x3548_8893, // addi a7, a7, 0x354
                        0x0000_0813, // li a6, 0
                        0x0010_0513, // li a0, 1
                        0x0000_0593, // li a1, 0
                        0x0000_0073, // ecall
                        0x0000_006f, // j here
                    ],
                },
            )
        }
        Architecture::Aarch64 => {
            let end = |well| arm_exit(if well { 33 } else { 35 });
            elf(
                183,
                0x4020_0000,
                &match tiny {
                    Tiny::Ends { well } => end(well),
                    Tiny::Nonsense => {
                        let text = u32::from_le_bytes(*b"x\xff\0\0");
                        let over = 0x1400_0002; // b over the text
                        [&arm_semihosting(WRITE, 4)[..], &[over, text], &end(true)].concat()
                    }
                    // PSCI, DEN0022: SYSTEM_RESET, 0x8400_0009 in w0.
                    Tiny::Reset => vec![
                        0x5280_0120, // mov w0, 9
                        0x72b0_8000, // movk w0, 0x8400, lsl 16
                        0xd400_0002, // hvc 0
                        0x1400_0000, // b here
                    ],
                },
            )
        }
    }
}

/// Returns an ELF file with a PVH entry and the 32-bit code `code`.
fn pc(code: &[u8]) -> Vec<u8> {
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

/// `mov dx, port; mov al, value; out dx, al`.
fn out(port: u16, value: u8) -> Vec<u8> {
    let [low, high] = port.to_le_bytes();
    vec![0x66, 0xba, low, high, 0xb0, value, 0xee]
}

/// Returns an ELF file for the architecture with this number, which consists of `code` at `base`.
fn elf(machine: u16, base: u64, code: &[u32]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([2, machine].map(u16::to_le_bytes).concat()); // executable
    elf.extend(1_u32.to_le_bytes());
    elf.extend([base, 64, 0].map(u64::to_le_bytes).concat());
    elf.extend(0_u32.to_le_bytes());
    elf.extend([64_u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    let len = 4 * code.len() as u64;
    elf.extend([1_u32, 7].map(u32::to_le_bytes).concat()); // loaded
    elf.extend(
        [HEADERS, base, base, len, len, 0x1000]
            .map(u64::to_le_bytes)
            .concat(),
    );
    elf.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    elf
}

/// Returns `addi a0, zero, operation`, and a semihosting call with its arguments `words` words
/// behind the call's first instruction.
fn semihosting(operation: u32, words: u32) -> [u32; 6] {
    [
        0x0000_0513 | operation << 20,
        0x0000_0597,                         // auipc a1, 0
        0x0005_8593 | (4 * words - 4) << 20, // addi a1, a1, ...
        0x01f0_1013,                         // slli zero, zero, 31
        0x0010_0073,                         // ebreak
        0x4070_5013,                         // srai zero, zero, 7
    ]
}

const WRITE: u32 = 4;
const EXIT_EXTENDED: u32 = 0x20;
const APPLICATION_EXIT: u32 = 0x2_0026;

/// Returns code that ends the machine with `status`.
fn exit(status: u32) -> Vec<u32> {
    let call = semihosting(EXIT_EXTENDED, 6);
    [&call[..], &[APPLICATION_EXIT, 0, status, 0]].concat()
}

/// The same as [`semihosting`] for Arm: `mov w0, operation`, `adr x1, ...`, `hlt 0xf000`.
fn arm_semihosting(operation: u32, words: u32) -> [u32; 3] {
    [
        0x5280_0000 | operation << 5,
        0x1000_0001 | (words - 1) << 5,
        0xd45e_0000,
    ]
}

/// The same as [`exit`] for Arm.
fn arm_exit(status: u32) -> Vec<u32> {
    let call = arm_semihosting(EXIT_EXTENDED, 3);
    [&call[..], &[APPLICATION_EXIT, 0, status, 0]].concat()
}
