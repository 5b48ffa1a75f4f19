//! Panics and oopses in a kernel's log, and the normalised functions of their stacks.
//!
//! These functions are the same for every build and load address:
//!
//! 1. Frames that Linux marks as unreliable are left out: `?`, PowerPC's `(unreliable)`, and s390's
//!    parentheses. The stack scan found them, and no call did.
//! 2. A name ends at its first dot (`.constprop.0`, `.isra.0`, `.cold`, `.part.0`), and has no
//!    offset, length or module. A mangled Rust name becomes its path, without the crate's hash.
//! 3. Functions that report or enter (`dump_stack`, `panic`, `oops_end`, `asm_exc_page_fault`,
//!    `worker_thread`) are left out, and so are repetitions of a name in a row.
//! 4. The first [`FRAMES`] names remain.
//!
//! The precedent is ABRT's `duphash` of kernel oopses. It has the names of reliable frames, cut off
//! at the first dot, without frames of a list of helpers.
//!
//! Reports of x86, arm, arm64, riscv, powerpc and s390 are read.

use std::fmt::{self, Write};

/// Maximum number of normalised functions.
pub const FRAMES: usize = 5;

/// Maximum number of frames of a stack.
const MOST_FRAMES: usize = 32;

/// Maximum number of crashes of a log and of a dump: a forged log may have any number.
pub(super) const MOST_CRASHES: usize = 1000;

/// Maximum length of a C function's name in bytes: Linux's limit up to 6.0.
const LONGEST_NAME: usize = 128;

/// Maximum length of a mangled Rust name and of its path in bytes: Linux's limit from 6.1 on.
const LONGEST_RUST_NAME: usize = 512;

/// Maximum length of a release, and of a build's version, in bytes (`__NEW_UTS_LEN` in Linux).
const LONGEST_RELEASE: usize = 64;

/// Maximum length of a task's name in bytes: Linux's names of its own threads have up to 63.
const LONGEST_TASK: usize = 64;

/// Linux's taint flags, in the order of their bits.
const TAINT_FLAGS: &str = "GPFSRMBUDAWCIOELKXTNJVH";

/// Functions that are in the stack of every report of some kind, or under every thread.
const HELPERS: &[&str] = &[
    "__die",
    "__die_body",
    "__dump_stack",
    "__panic",
    "__report_bug",
    "__warn",
    "__rustc::rust_begin_unwind",
    "bad_area_nosemaphore",
    "__bad_area_nosemaphore",
    "bust_spinlocks",
    "crash_kexec",
    "__crash_kexec",
    "die",
    "die_addr",
    "die_kernel_fault",
    "do_error_trap",
    "do_exit",
    "do_kernel_fault",
    "do_mem_abort",
    "do_page_fault",
    "__do_kernel_fault",
    "__do_page_fault",
    "do_softirq",
    "do_trap",
    "do_user_addr_fault",
    "do_vfs_ioctl",
    "dump_backtrace",
    "dump_stack",
    "dump_stack_lvl",
    "el1_abort",
    "el1h_64_sync",
    "el1h_64_sync_handler",
    "exc_divide_error",
    "exc_general_protection",
    "exc_invalid_op",
    "exc_page_fault",
    "fixup_exception",
    "gs_change",
    "handle_bug",
    "irq_exit",
    "kernel_thread_helper",
    "kernelmode_fixup_or_oops",
    "kthread",
    "make_task_dead",
    "no_context",
    "oops_end",
    "page_fault",
    "page_fault_oops",
    "panic",
    "process_one_work",
    "report_bug",
    "ret_from_fork",
    "ret_from_fork_asm",
    "rewind_stack_and_make_dead",
    "rust_begin_unwind",
    "rust_helper_BUG",
    "show_regs",
    "show_stack",
    "show_trace_log_lvl",
    "system_call_fastpath",
    "unwind_backtrace",
    "vpanic",
    "warn_slowpath_common",
    "warn_slowpath_fmt",
    "warn_slowpath_fmt_taint",
    "warn_slowpath_null",
    "worker_thread",
];

/// A panic or oops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crash {
    /// Class, as in the column `class` of the table `crashes`.
    pub class: &'static str,
    /// First line of the report.
    pub reason: String,
    /// Message of the panic, if the kernel panicked.
    pub panic: Option<String>,
    /// Reliable functions of the stack, innermost first, without offsets.
    pub stack: Vec<String>,
    /// Taint flags in the order of their bits; `-` for a clean kernel.
    pub taint: Option<String>,
    /// CPU that crashed.
    pub cpu: Option<i32>,
    /// Name of the task that ran on it.
    pub task: Option<String>,
    /// Release of the kernel.
    pub release: Option<String>,
    /// Version of the kernel's build.
    pub build: Option<String>,
    /// Nanoseconds since boot at the first line.
    pub uptime: Option<i64>,
}

impl Crash {
    /// Returns the normalised functions of the stack, innermost first, at most [`FRAMES`].
    pub fn frames(&self) -> Vec<String> {
        let mut frames: Vec<String> = Vec::with_capacity(FRAMES);
        for function in &self.stack {
            let Some(name) = stable(function) else {
                continue;
            };
            let starts = ["asm_exc_", "core::panicking::"];
            let is_helper = HELPERS.contains(&&*name)
                || starts.iter().any(|start| name.starts_with(start))
                || name.ends_with("::unwrap_failed");
            if !is_helper && frames.last() != Some(&name) {
                frames.push(name);
            }
            if frames.len() == FRAMES {
                break;
            }
        }
        frames
    }

    /// Returns whether the kernel crashed. A lockup or hung task without a panic is only a warning.
    fn is_crash(&self) -> bool {
        self.panic.is_some() || !is_warning(self.class)
    }

    /// Returns whether both are the same report, in two logs of one boot.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.uptime == other.uptime && self.reason == other.reason
    }
}

/// Reads a log line by line.
#[derive(Debug, Default)]
pub struct Parser {
    crashes: Vec<Crash>,
    open: Option<Crash>,
    stack: Stack,
}

/// Position in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stack {
    /// Before its stack.
    #[default]
    Before,
    /// In its stack.
    In,
    /// After it.
    After,
}

impl Parser {
    /// Reads a line, without its level and time.
    pub fn line(&mut self, line: &str, uptime: Option<i64>) {
        if let Some(message) = line.trim_start().strip_prefix("Kernel panic - not syncing") {
            let message = message.trim_start_matches(':').trim();
            return self.panic(line, message, uptime);
        }
        if let Some(class) = class_of(line) {
            let goes_on = self.open.as_ref().is_some_and(|open| {
                let is_detail = matches!(class, "oops" | "invalid-opcode");
                is_detail && open.stack.is_empty() && self.stack == Stack::Before
            });
            if !goes_on {
                self.start(class, line, uptime);
            }
            return;
        }
        if self.open.is_some() {
            self.inside(line);
        }
    }

    /// Returns all crashes.
    pub fn finish(mut self) -> Vec<Crash> {
        self.close();
        self.crashes
    }

    fn close(&mut self) {
        if let Some(crash) = self.open.take()
            && crash.is_crash()
        {
            // The last one ended the machine.
            self.crashes.truncate(MOST_CRASHES - 1);
            self.crashes.push(crash);
        }
        self.stack = Stack::Before;
    }

    fn start(&mut self, class: &'static str, line: &str, uptime: Option<i64>) {
        self.close();
        self.open = Some(Crash {
            class,
            reason: line.trim().to_owned(),
            uptime,
            ..Crash::default()
        });
    }

    fn panic(&mut self, line: &str, message: &str, uptime: Option<i64>) {
        let ends = |open: &Crash| match open.class {
            _ if open.panic.is_some() => false,
            "soft-lockup" => message.starts_with("softlockup"),
            "hard-lockup" => message.starts_with("Hard LOCKUP"),
            "hung-task" => message.starts_with("hung_task"),
            // arm64 puts the name of the oops before the words.
            _ => message.contains("Fatal exception") || message.starts_with("Attempted to kill"),
        };
        if !self.open.as_ref().is_some_and(ends) {
            self.start(class_of_panic(message), line, uptime);
        } else if self.stack != Stack::Before {
            self.stack = Stack::After;
        }
        if let Some(open) = &mut self.open {
            open.panic = Some(message.to_owned());
        }
    }

    fn inside(&mut self, line: &str) {
        let Some(open) = &mut self.open else {
            return;
        };
        let text = line.trim();
        if text.starts_with("---[ end") {
            self.stack = Stack::After;
        } else if let Some(cpu) = text.strip_prefix("CPU: ") {
            if open.cpu.is_some() {
                // The stack of another CPU.
                self.stack = Stack::After;
            } else {
                about_cpu(open, cpu);
            }
        } else if let Some(flags) = text.strip_prefix("Tainted: [") {
            // From Linux 6.13 on, in a line of their own with their names.
            open.taint = Some(long_flags(flags));
        } else if text.starts_with("Last Breaking-Event-Address:") {
            // The last branch on s390, which is no caller.
            self.stack = Stack::After;
        } else if self.stack == Stack::After || open.stack.len() >= MOST_FRAMES {
        } else if let Some(at) = pc(text) {
            match frame(at) {
                // ARM and RISC-V print the register without a name, too.
                None if self.stack == Stack::Before => {}
                Some(function) if self.stack == Stack::Before && open.stack.is_empty() => {
                    open.stack.push(function);
                }
                _ => self.stack = Stack::After,
            }
        } else if text.eq_ignore_ascii_case("call trace:") || text == "Backtrace:" {
            self.stack = match self.stack {
                Stack::Before => Stack::In,
                _ => Stack::After,
            };
        } else if self.stack == Stack::In
            || text.contains(" from ")
            // RISC-V has no title above an oops's stack.
            || (text.starts_with("[<") && !open.stack.is_empty())
        {
            // ARM prints `callee from caller`, so that the caller is in the next line, too.
            let (callee, caller) = text.split_once(" from ").unwrap_or(("", text));
            let callee = without_addresses(callee).trim_matches(['(', ')']);
            if let Some(caller) = frame(caller) {
                self.stack = Stack::In;
                if is_name(callee) && open.stack.last().is_none_or(|last| last != callee) {
                    open.stack.push(callee.to_owned());
                }
                open.stack.push(caller);
            }
        }
    }
}

/// Returns whether a line may contain the words of a panic or lockup, all of which have a B or K.
/// One search for these letters is faster than one for each word, and most lines have neither.
fn may_have_words(line: &str) -> bool {
    memchr::memchr2(b'B', b'K', line.as_bytes()).is_some()
}

/// Returns the class of a report that starts with a line; `None` for any other line.
fn class_of(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    if is_about_program(line) {
        return None;
    }
    let starts = |words: &str| line.starts_with(words);
    let may_have = may_have_words(line);
    let has = |words: &str| may_have && line.contains(words);
    Some(match () {
        () if starts("BUG: kernel NULL pointer dereference") => "null-dereference",
        () if starts("BUG: unable to handle kernel NULL pointer") => "null-dereference",
        () if starts("BUG: Kernel NULL pointer dereference") => "null-dereference",
        () if starts("Unable to handle kernel NULL pointer") => "null-dereference",
        () if starts("BUG: unable to handle") => "page-fault",
        () if starts("BUG: Unable to handle kernel") => "page-fault",
        () if starts("Unable to handle kernel") => "page-fault",
        () if starts("Oops: general protection fault") => "protection-fault",
        () if starts("general protection fault") => "protection-fault",
        () if starts("divide error:") || starts("Oops: divide error:") => "divide-error",
        () if starts("invalid opcode:") || starts("Oops: invalid opcode:") => "invalid-opcode",
        () if starts("kernel BUG at ") => "bug",
        () if has("BUG: soft lockup") => "soft-lockup",
        () if has("detected hard LOCKUP") => "hard-lockup",
        () if starts("INFO: task ") && line.contains(" blocked for more than ") => "hung-task",
        () if starts("Oops: ") || starts("Oops [#") || starts("Internal error: ") => "oops",
        () => return None,
    })
}

/// Returns whether a line starts with a program's name and its ID, as in `cat[77]: segfault`. The
/// program chooses that name.
fn is_about_program(line: &str) -> bool {
    /// Maximum length of the name (`TASK_COMM_LEN` in Linux).
    const NAME: usize = 16;

    let id = line.find('[').filter(|at| *at < NAME);
    let id = id.and_then(|at| line[at + 1..].split_once(']'));
    id.is_some_and(|(id, _)| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}

fn class_of_panic(message: &str) -> &'static str {
    let starts = |words: &str| message.starts_with(words);
    match () {
        () if starts("sysrq") => "sysrq",
        () if starts("Out of memory") || starts("System is deadlocked") => "out-of-memory",
        () if starts("No working init") || starts("Attempted to kill init") => "no-init",
        () if starts("Requested init") => "no-init",
        () if starts("VFS: Unable to mount root") => "no-root",
        () if starts("softlockup") => "soft-lockup",
        () if starts("Hard LOCKUP") => "hard-lockup",
        () if starts("hung_task") => "hung-task",
        () => "panic",
    }
}

fn is_warning(class: &str) -> bool {
    matches!(class, "soft-lockup" | "hard-lockup" | "hung-task")
}

/// Reads `0 PID: 1 Comm: init Tainted: G  D 6.1.192 #1 Debian`.
fn about_cpu(crash: &mut Crash, text: &str) {
    let digits = text.split(' ').next().unwrap_or_default();
    crash.cpu = digits.parse().ok();
    let task = text.split_once("Comm: ").and_then(|(_, rest)| {
        let ends = [" Not tainted", " Tainted: "];
        let mut ends = ends.iter().filter_map(|end| rest.find(end));
        rest.get(..ends.next()?)
    });
    let task = task.filter(|task| task.len() <= LONGEST_TASK);
    crash.task = task.map(str::to_owned);
    let rest = if let Some((_, rest)) = text.split_once("Not tainted ") {
        crash.taint = Some("-".to_owned());
        rest
    } else if let Some((_, rest)) = text.split_once("Tainted: ") {
        let is_flags = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase());
        let flags: String = rest.split_ascii_whitespace().take_while(is_flags).collect();
        crash.taint = Some(taint_flags(&flags));
        let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != ' ');
        &rest[end.unwrap_or(rest.len())..]
    } else {
        return;
    };
    let (words, build) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    crash.release = release(words).map(str::to_owned);
    let build = version(build).filter(|_| crash.release.is_some());
    crash.build = build.map(str::to_owned);
}

/// Reads `D]=DIE, [W]=WARN`.
fn long_flags(text: &str) -> String {
    let flags = text.split('[').filter_map(|flag| flag.split_once("]="));
    taint_flags(&flags.map(|(flag, _)| flag).collect::<String>())
}

/// Returns Linux's taint flags in the text, each once. The result contains no other characters.
fn taint_flags(text: &str) -> String {
    let has = |flag: &char| text.contains(*flag);
    TAINT_FLAGS.chars().filter(has).collect()
}

/// Returns the text if it has the form of a kernel's release. An example is `6.1.0-13-amd64`: a
/// version number, then letters, digits and `.-_+~`, 64 bytes at most.
pub(super) fn release(text: &str) -> Option<&str> {
    let (major, rest) = text.trim().split_once('.')?;
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = (1..=3).contains(&major.len()) && is_number(major);
    let text = text.trim();
    (is_version
        && rest.starts_with(|c: char| c.is_ascii_digit())
        && text.len() <= LONGEST_RELEASE
        && text.chars().all(is_of_release))
    .then_some(text)
}

/// Returns whether a kernel's release may contain a character.
pub const fn is_of_release(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '~')
}

/// Returns the text if it has the form of the version of a kernel's build. An example is `#1 SMP
/// Fri Nov 20 23:26:33 UTC 2026`: a number sign and a number, 64 bytes at most.
pub(super) fn version(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_allowed = |c: char| is_of_release(c) || matches!(c, ' ' | '#' | ':' | '(' | ')' | '/');
    let number = text.strip_prefix('#')?;
    (number.starts_with(|c: char| c.is_ascii_digit())
        && text.len() <= LONGEST_RELEASE
        && text.chars().all(is_allowed))
    .then_some(text)
}

/// Returns the program counter's place in a line that has it.
fn pc(text: &str) -> Option<&str> {
    let place = text
        .strip_prefix("RIP: ")
        .map(|rip| rip.split_once(':').map_or(rip, |(_, at)| at));
    // s390 has the registers in front of the name, in parentheses.
    let psw = || Some(text.strip_prefix("Krnl PSW : ")?.split_once('(')?.1);
    let starts = ["EIP: ", "pc : ", "PC is at ", "epc : ", "NIP "];
    let others = || starts.iter().find_map(|start| text.strip_prefix(start));
    place.or_else(psw).or_else(others)
}

/// Returns the function of a frame; `None` for an unreliable one, and for any other line.
///
/// Forms: `vfs_write+0xa7/0x2d0 [module]`, `[<c0101234>] (vfs_write+0xa7/0x2d0)`, and PowerPC's
/// `[c0000000fe1b3b70] [c0000000008d7c44] vfs_write+0xa7/0x2d0`.
fn frame(text: &str) -> Option<String> {
    let text = text.trim();
    // s390's mark of an unreliable frame, and PowerPC's.
    if text.starts_with("([<") || text.ends_with("(unreliable)") {
        return None;
    }
    let text = without_addresses(text);
    let text = text.strip_prefix('(').unwrap_or(text);
    if text.starts_with('?') {
        return None;
    }
    let (name, rest) = text.split_once("+0x")?;
    let offset = rest.split([' ', ')']).next()?;
    let (offset, len) = offset.split_once("/0x")?;
    (is_name(name) && is_hex(offset) && is_hex(len)).then(|| name.to_owned())
}

/// Returns the text after its addresses, such as `[<c0101234>]`.
fn without_addresses(mut text: &str) -> &str {
    while let Some((address, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && is_hex(address.trim_matches(['<', '>']))
    {
        text = rest.trim_start();
    }
    text
}

fn is_hex(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a text has the form of a function's name.
pub fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    let longest = match name.starts_with("_R") {
        true => LONGEST_RUST_NAME,
        false => LONGEST_NAME,
    };
    !name.is_empty()
        && name.len() <= longest
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(is_part)
}

/// Returns the part of a name that is the same in other builds. `None` for a Rust name whose path
/// is too long.
fn stable(name: &str) -> Option<String> {
    let name = name.split('.').next().unwrap_or_default();
    let Ok(rust) = rustc_demangle::try_demangle(name) else {
        return Some(name.to_owned());
    };
    let mut path = Path(String::new());
    // The alternate form has no hashes.
    write!(path, "{rust:#}").ok()?;
    Some(path.0)
}

/// The path of a Rust name. A short mangled name may stand for a path of any length.
struct Path(String);

impl Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        match self.0.len() <= LONGEST_RUST_NAME && text.chars().all(|c| matches!(c, ' '..='~')) {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use nostall_pstore::Trust;

    use super::*;
    use crate::kernel::CrashedKernel;

    const OOPS: &str = "\
<1>[   12.345678] BUG: kernel NULL pointer dereference, address: 0000000000000008
<1>[   12.345690] #PF: supervisor read access in kernel mode
<4>[   12.345700] Oops: 0000 [#1] PREEMPT SMP NOPTI
<4>[   12.345710] CPU: 3 PID: 812 Comm: kworker/3:1 Tainted: G      D W  OE 6.1.0-13-amd64 #1  Debian 6.1.55-1
<4>[   12.345720] RIP: 0010:nvme_complete_rq.cold+0x1c/0x2f0 [nvme_core]
<4>[   12.345725] Code: 00 <8b> 47
<4>[   12.345730] Call Trace:
<4>[   12.345740]  <IRQ>
<4>[   12.345750]  ? __die_body.cold+0x1a/0x1f
<4>[   12.345755]  nvme_pci_complete_rq+0x21/0x60 [nvme]
<4>[   12.345760]  blk_complete_reqs.isra.0+0x40/0x50
<4>[   12.345770]  blk_complete_reqs+0x40/0x50
<4>[   12.345780]  do_softirq.part.0+0x61/0x70
<4>[   12.345790]  asm_common_interrupt+0x22/0x40
<4>[   12.345800]  cpuidle_enter_state+0xd4/0x440
<4>[   12.345810]  cpuidle_enter+0x29/0x40
<4>[   12.345820] ---[ end trace 0000000000000000 ]---
<4>[   12.345830] RIP: 0010:nvme_complete_rq.cold+0x1c/0x2f0 [nvme_core]
<0>[   12.400000] Kernel panic - not syncing: Fatal exception in interrupt
<0>[   12.400100] Kernel Offset: 0x2a000000 from 0xffffffff81000000
<0>[   12.400200] ---[ end Kernel panic - not syncing: Fatal exception in interrupt ]---
";

    fn crashes(log: &str) -> Vec<Crash> {
        let mut kernel = CrashedKernel::default();
        kernel.read_log(log, Trust::Unchecked);
        let causes = kernel.causes().iter();
        causes.map(|cause| cause.crash.clone()).collect()
    }

    #[test]
    fn an_oops_that_ends_in_a_panic_is_one_crash() {
        let [crash] = &crashes(OOPS)[..] else {
            panic!("{:#?}", crashes(OOPS));
        };
        assert_eq!(crash.class, "null-dereference");
        assert_eq!(crash.panic.as_deref(), Some("Fatal exception in interrupt"));
        assert_eq!(crash.taint.as_deref(), Some("GDWOE"));
        assert_eq!(crash.cpu, Some(3));
        assert_eq!(crash.task.as_deref(), Some("kworker/3:1"));
        assert_eq!(crash.release.as_deref(), Some("6.1.0-13-amd64"));
        assert_eq!(crash.build.as_deref(), Some("#1  Debian 6.1.55-1"));
        assert_eq!(crash.uptime, Some(12_345_678_000));
        let frames = [
            "nvme_complete_rq",
            "nvme_pci_complete_rq",
            "blk_complete_reqs",
            "asm_common_interrupt",
            "cpuidle_enter_state",
        ];
        assert_eq!(crash.frames(), frames);
    }

    #[test]
    fn frames_are_the_same_for_other_addresses_offsets_and_suffixes() {
        let other = OOPS
            .replace(
                "nvme_complete_rq.cold+0x1c/0x2f0",
                "nvme_complete_rq+0x99/0x300",
            )
            .replace("blk_complete_reqs.isra.0+0x40", "blk_complete_reqs+0x44")
            .replace("  ? __die_body.cold+0x1a/0x1f", "  ? vfs_read+0x1/0x2")
            .replace("0x2a000000", "0x1c000000");
        assert_eq!(of(OOPS), of(&other));
    }

    #[test]
    fn recorded_panics_of_two_kernels_have_the_same_frames() {
        const PSTORE: &str = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../drivers/pstore/tests/fixtures"
        );
        const SYSRQ: &str =
            "sysrq_handle_crash __handle_sysrq write_sysrq_trigger proc_reg_write vfs_write";
        for (fixture, frames, taint) in [
            ("plain", SYSRQ, "-"),
            ("ecc16", SYSRQ, "GL"),
            ("linux-6.12", SYSRQ, "-"),
            // The other CPU's stack is not the crash's.
            ("armv7", "sysrq_reset_seq_param_set", "-"),
        ] {
            let log = std::fs::read(format!("{PSTORE}/{fixture}/pstore/dmesg-ramoops-0")).unwrap();
            let crashes = crashes(&String::from_utf8_lossy(&log));
            assert_eq!(crashes.len(), 1, "{fixture}: {crashes:#?}");
            assert_eq!(crashes[0].frames().join(" "), frames, "{fixture}");
            assert_eq!(crashes[0].class, "sysrq", "{fixture}");
            assert_eq!(crashes[0].taint.as_deref(), Some(taint), "{fixture}");
        }
    }

    #[test]
    fn a_lockup_is_a_crash_if_the_kernel_panics() {
        let lockup = "\
[  100.000001] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [cat:77]
[  100.000002] CPU: 1 PID: 77 Comm: cat Not tainted 6.1.192 #1
[  100.000003] RIP: 0010:wait_for_xmitr+0x31/0xa0
[  100.000004] Call Trace:
[  100.000005]  serial8250_console_putchar+0x16/0x30
";
        assert_eq!(crashes(lockup), []);
        let panic = "[  100.100000] Kernel panic - not syncing: softlockup: hung tasks\n\
                     [  100.100001] Call Trace:\n[  100.100002]  watchdog_timer_fn+0x1/0x2\n";
        let [crash] = &crashes(&(lockup.to_owned() + panic))[..] else {
            panic!("not one");
        };
        assert_eq!(crash.class, "soft-lockup");
        assert_eq!(
            crash.frames(),
            ["wait_for_xmitr", "serial8250_console_putchar"]
        );
    }

    #[test]
    fn two_logs_of_a_boot_have_each_crash_once() {
        let (oops, _) = OOPS.split_once("<0>[").unwrap();
        let mut kernel = CrashedKernel::default();
        kernel.read_log(oops, Trust::Unverified);
        kernel.read_log(OOPS, Trust::Verified);
        let [cause] = kernel.causes() else {
            panic!("{:#?}", kernel.causes());
        };
        assert!(cause.crash.panic.is_some());
        assert_eq!(cause.trust, Trust::Verified);
    }

    #[test]
    fn the_other_taint_form_and_lines_that_are_none_are_read() {
        let log = "Kernel panic - not syncing: x\nCPU: 0 UID: 0 PID: 1 Comm: x Tainted: G      D             6.13.0 #2\n\
                   Tainted: [D]=DIE, [W]=WARN\n";
        assert_eq!(crashes(log)[0].taint.as_deref(), Some("DW"));
        assert_eq!(crashes("Oops\nCall Trace:\n f+0x1/0x2\n"), []);
        // A program chooses its name, and the names of its files.
        for log in [
            "Oops: hi[612]: segfault at 0 ip 0 sp 0 error 4 in x[400000+1000]\n",
            "cat[612]: segfault at 0 ip 0 sp 0 error 4 in Kernel panic - not syncing: x[0+0]\n",
            "kernel BUG at x[7]: segfault at 0 ip 0 sp 0 error 4 in x[400000+1000]\n",
        ] {
            assert_eq!(crashes(log), [], "{log}");
        }
        for line in [
            "",
            "?",
            "+0x1/0x2",
            "f+0x1",
            "1f+0x1/0x2",
            "f+0xg/0x2",
            " ? f+0x1/0x2",
            "a b+0x1/0x2",
        ] {
            assert_eq!(frame(line), None, "{line}");
        }
        assert_eq!(frame(" [<c0101234>] (f+0x1/0x2)").as_deref(), Some("f"));
    }

    /// The frames of a report's only crash, and its class.
    fn of(log: &str) -> (String, &'static str) {
        let [crash] = &crashes(log)[..] else {
            panic!("{:#?}", crashes(log));
        };
        (crash.frames().join(" "), crash.class)
    }

    #[test]
    fn a_powerpc_oops_has_no_unreliable_frames() {
        // Adapted from the forms in a driver course and in a report on linuxppc-dev.
        let old = "\
Unable to handle kernel paging request for data at address 0x00000000
Faulting instruction address: 0xd107c0c8
Oops: Kernel access of bad area, sig: 11 [#1]
NIP: d107c0c8 LR: c0072834 CTR: 0fe368a4
REGS: cf9cfe40 TRAP: 0300 Not tainted (2.6.25-rc2-00102-g0640ebb)
NIP [d107c0c8] faulty_write+0x8/0x10 [faulty]
LR [c0072834] vfs_write+0xcc/0x16c
Call Trace:
[cf9cfef0] [c0072804] vfs_write+0x9c/0x16c (unreliable)
[cf9cff10] [c0072ec8] sys_write+0x4c/0x90
[cf9cff40] [c000cf20] ret_from_syscall+0x0/0x3c
Instruction dump:
38810008 7cbdf850 480000d1 7c7d1a14 4bffffc4 7fc3f378 38810008 7fe5fb78
---[ end trace 4d8ed6ffb404bf6e ]---
";
        assert_eq!(
            of(old),
            (
                "faulty_write sys_write ret_from_syscall".to_owned(),
                "page-fault"
            )
        );
        let new = "\
BUG: Kernel NULL pointer dereference on read at 0x00000000
Oops: Kernel access of bad area, sig: 7 [#1]
CPU: 1 PID: 0 Comm: swapper/1 Not tainted 6.5.0-rc6 #1
NIP:  c000000000f92830 LR: c000000000f92830 CTR: 0000000000000000
NIP [c000000000f92830] __dev_xmit_skb+0x49c/0xc3c
LR [c000000000f92830] __dev_xmit_skb+0x49c/0xc3c
Call Trace:
[c000000071d3f360] [c000000000f92830] __dev_xmit_skb+0x49c/0xc3c (unreliable)
[c000000071d3f3e0] [c000000000f98294] __dev_queue_xmit+0x484/0xaa8
[c000000071d3f540] [c0000000010a46d8] neigh_hh_output+0xbc/0x154
--- interrupt: 3000 at 0x7fffa8d4f5a4
NIP:  00007fffa8d4f5a4 LR: 0000000000000000 CTR: 0000000000000000
NIP [00007fffa8d4f5a4] 0x7fffa8d4f5a4
[c000000071d3f540] [c0000000010a46d8] after_it+0xbc/0x154
";
        let frames = "__dev_xmit_skb __dev_queue_xmit neigh_hh_output";
        assert_eq!(of(new), (frames.to_owned(), "null-dereference"));
    }

    #[test]
    fn an_s390_oops_has_no_frames_in_parentheses_and_not_the_last_branch() {
        // Adapted from the forms in reports of Linux's continuous builds and of btrfs.
        let log = "\
[    1.707778] Unable to handle kernel pointer dereference in virtual kernel address space
[    1.707942] Failing address: 000000000133b000 TEID: 000000000133b407
[    1.709436] Oops: 0004 ilc:2 [#1] SMP 
[    1.709851] CPU: 0 PID: 32 Comm: kworker/u2:1 Not tainted 5.17.0-next-20220321 #1
[    1.710420] Krnl PSW : 0704d00180000000 00000000009e59e4 (number+0x464/0x5d0)
[    1.710587]            R:0 T:1 IO:1 EX:1 Key:0 M:1 W:0 P:0 AS:3 CC:1 PM:0 RI:0 EA:3
[    1.711937] Krnl Code: 00000000009e59d4: ecdcfff8a065\tclgrj\t%r13,%r12,10
[    1.720000] Call Trace:
[    1.720001]  [<0000021761df6538>] number+0x464/0x5d0
[    1.720002] ([<0000021761df6534>] vsnprintf_stale+0x194/0x1a0)
[    1.720003]  [<0000021761d97788>] vsnprintf+0x3b8/0x6d0 
[    1.720004]  [<0000021761645760>] process_one_work+0x2b0/0x5d0
[    1.720005] INFO: lockdep is turned off.
[    1.720006] Last Breaking-Event-Address:
[    1.720007]  [<0000021761597924>] _printk+0x4c/0x58
[    1.720008] Kernel panic - not syncing: Fatal exception: panic_on_oops
";
        assert_eq!(of(log), ("number vsnprintf".to_owned(), "page-fault"));
    }

    #[test]
    fn an_arm_or_riscv_oops_prints_its_registers_between_its_name_and_its_stack() {
        // Adapted from the forms in reports on a Raspberry Pi and on QEMU's machine.
        let arm = "\
[135992.726639] Unable to handle kernel NULL pointer dereference at virtual address 0000000c
[135992.726715] Internal error: Oops: 17 [#2] ARM
[135992.726854] CPU: 0 PID: 7690 Comm: htop Tainted: G      D  C        5.4.79+ #1373
[135992.726890] PC is at seq_vprintf+0x18/0x64
[135992.726903] LR is at seq_printf+0x3c/0x5c
[135992.726912] pc : [<c01f3218>]    lr : [<c01f32a0>]    psr: 60000013
[135992.726923] sp : cd009d54  ip : cd009d6c  fp : cd009d68
[135992.727000] [<c01f3218>] (seq_vprintf) from [<c01f32a0>] (seq_printf+0x3c/0x5c)
[135992.727001] [<c01f32a0>] (seq_printf) from [<c024801c>] (proc_pid_limits+0x1c/0x164)
";
        let frames = "seq_vprintf seq_printf proc_pid_limits";
        assert_eq!(of(arm), (frames.to_owned(), "null-dereference"));
        let riscv = "\
[    9.185877] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000
[    9.187000] Oops [#1]
[    9.188979] CPU: 7 PID: 0 Comm: swapper/7 Not tainted 6.6.25 #20
[    9.190947] epc : arch_local_irq_enable+0xc/0x14
[    9.191988]  ra : default_idle_call+0x3a/0x42
[    9.193013] epc : ffffffff8007dbb0 ra : ffffffff80ed8120 sp : ff2000000013bed0
[    9.194166]  gp : ffffffff8202d8a0 tp : ff60000080289900 t0 : ff200000006d35c0
[    9.205000] status: 0000000200000120 badaddr: 0000000000000000 cause: 000000000000000d
[    9.205001] [<ffffffff8007dbb0>] arch_local_irq_enable+0xc/0x14
[    9.205002] [<ffffffff80ed8120>] default_idle_call+0x3a/0x42
[    9.205003] [<ffffffff80ed8200>] cpu_startup_entry+0x3a/0x42
";
        let frames = "arch_local_irq_enable default_idle_call cpu_startup_entry";
        assert_eq!(of(riscv), (frames.to_owned(), "null-dereference"));
    }

    #[test]
    fn an_arm64_oops_and_one_of_an_old_x86_have_frames() {
        let arm64 = "\
Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000
Internal error: Oops: 0000000096000044 [#1] SMP
CPU: 2 PID: 1423 Comm: bash Tainted: G        W         6.1.0 #1
pstate: 60400005 (nZCv daif +PAN -UAO -TCO -DIT -SSBS BTYPE=--)
pc : sysrq_handle_crash+0x1c/0x30
lr : __handle_sysrq+0x9c/0x1e0
sp : ffff80000b5fbca0
Call trace:
 sysrq_handle_crash+0x1c/0x30 (P)
 __handle_sysrq+0x9c/0x1e0
 el1h_64_sync+0x64/0x68
Code: d503201f
---[ end trace 0000000000000000 ]---
Kernel panic - not syncing: Oops: Fatal exception
";
        let frames = "sysrq_handle_crash __handle_sysrq";
        assert_eq!(of(arm64), (frames.to_owned(), "null-dereference"));
        let x86 = "\
[ 5797.598826] BUG: unable to handle kernel NULL pointer dereference at 000000000000000a
[ 5797.607974] IP: [<ffffffffc0841d99>] octf_trace_push+0x19/0x240 [iotrace]
[ 5797.619308] Oops: 0000 [#1] SMP 
[ 5797.730719] CPU: 67 PID: 0 Comm: swapper/67 Tainted: G           OE   4.4.0 #1
[ 5797.740000] RIP: 0010:[<ffffffffc0841d99>]  [<ffffffffc0841d99>] octf_trace_push+0x19/0x240 [iotrace]
[ 5797.750000] Call Trace:
[ 5797.750001]  [<ffffffffc0841000>] ? stale+0x1/0x2
[ 5797.750002]  [<ffffffffc0841e00>] bio_queue+0x10/0x20 [iotrace]
";
        let frames = "octf_trace_push bio_queue";
        assert_eq!(of(x86), (frames.to_owned(), "null-dereference"));
    }

    #[test]
    fn a_rust_frame_has_the_same_name_in_every_build_of_its_crate() {
        let log = |hash: &str| {
            format!(
                "kernel BUG at rust/helpers/bug.c:7!\nRIP: 0010:rust_helper_BUG+0x8/0x10\nCall Trace:\n \
                 _RNvCs{hash}_7___rustc17rust_begin_unwind+0x1/0x2\n \
                 _RNvNtCs{hash}_4core9panicking9panic_fmt+0x1/0x2\n \
                 _RNvMs_NtCs{hash}_6kernel5queueNtB4_5Queue4push.llvm.123+0x1/0x2 [null_blk]\n \
                 blk_mq_start_request+0x1/0x2\n"
            )
        };
        let frames = "<kernel::queue::Queue>::push blk_mq_start_request";
        assert_eq!(of(&log("5IfkLP8x1ny")), (frames.to_owned(), "bug"));
        assert_eq!(of(&log("bZ9dTtyVRA4")), (frames.to_owned(), "bug"));
        // A crafted name with references to itself stands for a long path.
        let long = format!("_RIC1a{}E", "TB0_B0_B0_B0_B0_B0_B0_B0_E".repeat(10));
        assert!(stable(&long).is_none_or(|path| path.len() <= LONGEST_RUST_NAME));
    }

    #[test]
    fn text_that_is_no_release_version_flag_or_name_does_not_pass() {
        for sound in [
            "6.1.192",
            "6.1.0-13-amd64",
            "2.6.25-rc2-00102-g0640ebb",
            "6.8.0-31~22.04+x_y",
        ] {
            assert_eq!(release(sound), Some(sound));
        }
        let long = format!("6.1-{}", "a".repeat(61));
        for wrong in [
            "",
            "6",
            "hello",
            "6.x",
            ".1",
            "6.1/../../etc",
            "6.1\u{e9}",
            "1234.5",
            &long,
        ] {
            assert_eq!(release(wrong), None, "{wrong}");
        }
        for sound in [
            "#1 SMP Fri Nov 20 23:26:33 UTC 2026",
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1 (2023-09-29)",
            "#35~22.04.1-Ubuntu SMP",
        ] {
            assert_eq!(version(sound), Some(sound));
        }
        let long = format!("#1 {}", "a".repeat(62));
        for wrong in ["", "#", "1", "# my password", "#1 a=b", "#1 a@b", &long] {
            assert_eq!(version(wrong), None, "{wrong}");
        }
        let log = "Kernel panic - not syncing: x\n\
                   CPU: 0 PID: 1 Comm: x Tainted: G SECRET PASSWORD 6.1/secret #1\nCall Trace:\n ";
        let name = "a".repeat(LONGEST_NAME);
        let crashes = crashes(&format!(
            "{log}{name}a+0x1/0x2\n {name}+0x1/0x2\n my.secret@home+0x1/0x2\n"
        ));
        assert_eq!(crashes[0].taint.as_deref(), Some("GPSRDAWCOET"));
        assert_eq!(crashes[0].release, None);
        assert_eq!(crashes[0].stack, [name]);
    }
}
