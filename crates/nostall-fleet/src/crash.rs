//! Panics and oopses in a kernel's log, and the signature of their stacks.
//!
//! The signature is the same for every build and load address. It is made of function names alone:
//!
//! 1. Frames that Linux marks with `?` are left out. The stack scan found them, and no call did.
//! 2. A name ends at its first dot (`.constprop.0`, `.isra.0`, `.cold`, `.part.0`), and has no
//!    offset, length or module.
//! 3. Functions that report or enter (`dump_stack`, `panic`, `oops_end`, `asm_exc_page_fault`,
//!    `worker_thread`) are left out, and so are repetitions of a name in a row.
//! 4. The first [`FRAMES`] names, each with a line feed, are hashed with SHA-256. The signature is
//!    the first 16 hexadecimal digits.
//!
//! The precedent is ABRT's `duphash` of kernel oopses. It hashes the names of reliable frames, cut
//! off at the first dot, without frames of a list of helpers.

use sha2::{Digest, Sha256};

/// Most frames in a signature.
pub const FRAMES: usize = 5;

/// Most frames of a stack that are kept.
const MOST_FRAMES: usize = 32;

/// Most crashes of a log, and of a dump: a log may be made to have any number.
const MOST_CRASHES: usize = 1000;

/// Functions that are in the stack of every report of some kind, or under every thread.
const HELPERS: &[&str] = &[
    "__die",
    "__die_body",
    "__dump_stack",
    "__panic",
    "__report_bug",
    "__warn",
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
    /// Its kind.
    pub class: &'static str,
    /// First line of the report.
    pub reason: String,
    /// Message of the panic, if the kernel panicked.
    pub panic: Option<String>,
    /// Reliable functions of the stack, innermost first, without offsets.
    pub stack: Vec<String>,
    /// Taint flags; `-` for a clean kernel.
    pub taint: Option<String>,
    /// CPU that crashed.
    pub cpu: Option<i32>,
    /// Release of the kernel.
    pub release: Option<String>,
    /// Version of the kernel's build.
    pub build: Option<String>,
    /// Nanoseconds since boot at the first line.
    pub uptime: Option<i64>,
}

impl Crash {
    /// Returns the functions of the signature.
    pub fn frames(&self) -> Vec<String> {
        let mut frames: Vec<String> = Vec::with_capacity(FRAMES);
        for function in &self.stack {
            let name = function.split('.').next().unwrap_or_default();
            let is_helper = HELPERS.contains(&name) || name.starts_with("asm_exc_");
            if !is_helper && frames.last().is_none_or(|last| last != name) {
                frames.push(name.to_owned());
            }
            if frames.len() == FRAMES {
                break;
            }
        }
        frames
    }

    /// Whether the kernel crashed: a warning of a lockup alone is no crash.
    fn is_crash(&self) -> bool {
        self.panic.is_some() || !is_warning(self.class)
    }

    /// Whether both are the same report, in two logs of one boot.
    fn is_same(&self, other: &Self) -> bool {
        self.uptime == other.uptime && self.reason == other.reason
    }
}

/// Returns the signature of a stack; `None` for an empty one.
pub fn signature(frames: &[String]) -> Option<String> {
    let mut hash = Sha256::new();
    for frame in frames {
        hash.update(frame);
        hash.update("\n");
    }
    let hash = hash.finalize();
    let digits = hash[..8].iter().map(|byte| format!("{byte:02x}"));
    (!frames.is_empty()).then(|| digits.collect())
}

/// Adds a log's crashes to those of other logs of the same boot. Of a report in two logs, the
/// longer one stays. `T` is anything known of the log.
pub fn merge<T>(all: &mut Vec<(Crash, T)>, new: impl IntoIterator<Item = (Crash, T)>) {
    for (crash, log) in new {
        let weight = |crash: &Crash| (crash.panic.is_some(), crash.stack.len());
        let is_full = all.len() >= MOST_CRASHES;
        match all.iter_mut().find(|(known, _)| known.is_same(&crash)) {
            Some(known) if weight(&known.0) >= weight(&crash) => {}
            Some(known) => *known = (crash, log),
            None if is_full => {}
            None => all.push((crash, log)),
        }
    }
    all.sort_by_key(|(crash, _)| crash.uptime);
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
        if let Some(at) = line.find("Kernel panic - not syncing")
            && !line.contains("end Kernel panic")
        {
            let message = line[at + 26..].trim_start_matches(':').trim();
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
            && self.crashes.len() < MOST_CRASHES
        {
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
            _ => message.starts_with("Fatal exception") || message.starts_with("Attempted to kill"),
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
        } else if self.stack == Stack::After || open.stack.len() >= MOST_FRAMES {
        } else if let Some(at) = pc(text) {
            if self.stack == Stack::Before && open.stack.is_empty() {
                open.stack.extend(frame(at));
            } else {
                self.stack = Stack::After;
            }
        } else if text.eq_ignore_ascii_case("call trace:") || text == "Backtrace:" {
            self.stack = match self.stack {
                Stack::Before => Stack::In,
                _ => Stack::After,
            };
        } else if self.stack == Stack::In || text.contains(" from ") {
            // ARM prints `callee from caller`, so that the caller is in the next line, too.
            let (callee, caller) = text.split_once(" from ").unwrap_or(("", text));
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

/// Returns the class of a report that starts with a line; `None` for any other line.
fn class_of(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    let starts = |words: &str| line.starts_with(words);
    let has = |words: &str| line.contains(words);
    Some(match () {
        () if starts("BUG: kernel NULL pointer dereference") => "null-dereference",
        () if starts("BUG: unable to handle kernel NULL pointer") => "null-dereference",
        () if starts("Unable to handle kernel NULL pointer") => "null-dereference",
        () if starts("BUG: unable to handle") => "page-fault",
        () if starts("Unable to handle kernel") => "page-fault",
        () if starts("Oops: general protection fault") => "protection-fault",
        () if starts("general protection fault") => "protection-fault",
        () if starts("divide error:") || starts("Oops: divide error:") => "divide-error",
        () if starts("invalid opcode:") || starts("Oops: invalid opcode:") => "invalid-opcode",
        () if starts("kernel BUG at ") => "bug",
        () if has("BUG: soft lockup") => "soft-lockup",
        () if has("detected hard LOCKUP") => "hard-lockup",
        () if starts("INFO: task ") && has(" blocked for more than ") => "hung-task",
        () if starts("Oops: ") || starts("Oops [#") || starts("Internal error: ") => "oops",
        () => return None,
    })
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
    let rest = if let Some((_, rest)) = text.split_once("Not tainted ") {
        crash.taint = Some("-".to_owned());
        rest
    } else if let Some((_, rest)) = text.split_once("Tainted: ") {
        let is_flags = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase());
        let flags = rest.split_ascii_whitespace().take_while(is_flags);
        crash.taint = Some(flags.collect());
        let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != ' ');
        &rest[end.unwrap_or(rest.len())..]
    } else {
        return;
    };
    let (release, build) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let is_release = release.starts_with(|c: char| c.is_ascii_digit());
    crash.release = is_release.then(|| release.to_owned());
    let build = build.trim();
    crash.build = (is_release && build.starts_with('#')).then(|| build.to_owned());
}

/// Reads `D]=DIE, [W]=WARN`.
fn long_flags(text: &str) -> String {
    let flags = text.split('[').filter_map(|flag| flag.split_once("]="));
    flags.map(|(flag, _)| flag).collect()
}

/// Returns the place where the CPU was, in a line that has it.
fn pc(text: &str) -> Option<&str> {
    let place = text
        .strip_prefix("RIP: ")
        .map(|rip| rip.split_once(':').map_or(rip, |(_, at)| at));
    let place = place.or_else(|| text.strip_prefix("pc : "));
    let place = place.or_else(|| text.strip_prefix("PC is at "));
    place.or_else(|| text.strip_prefix("epc : "))
}

/// Returns the function of a frame; `None` for an unreliable one, and for any other line.
///
/// Forms: `vfs_write+0xa7/0x2d0 [module]` and `[<c0101234>] (vfs_write+0xa7/0x2d0)`.
fn frame(text: &str) -> Option<String> {
    let mut text = text.trim();
    if let Some(rest) = text.strip_prefix("[<") {
        text = rest.split_once(">]")?.1.trim_start();
    }
    let text = text.strip_prefix('(').unwrap_or(text);
    if text.starts_with('?') {
        return None;
    }
    let (name, rest) = text.split_once("+0x")?;
    let offset = rest.split([' ', ')']).next()?;
    let (offset, len) = offset.split_once("/0x")?;
    let is_hex = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    (is_name(name) && is_hex(offset) && is_hex(len)).then(|| name.to_owned())
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    !name.is_empty()
        && name.len() <= 512
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(is_part)
}

/// Reads a whole log, each line with its level and time.
pub fn crashes(log: &str) -> Vec<Crash> {
    let mut parser = Parser::default();
    for line in log.lines() {
        let (about, text) = crate::line::about(line);
        parser.line(text, about.time);
    }
    parser.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_oops_that_ends_in_a_panic_is_one_crash() {
        let [crash] = &crashes(OOPS)[..] else {
            panic!("{:#?}", crashes(OOPS));
        };
        assert_eq!(crash.class, "null-dereference");
        assert_eq!(crash.panic.as_deref(), Some("Fatal exception in interrupt"));
        assert_eq!(crash.taint.as_deref(), Some("GDWOE"));
        assert_eq!(crash.cpu, Some(3));
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
    fn a_signature_is_the_same_for_other_addresses_offsets_and_suffixes() {
        let other = OOPS
            .replace(
                "nvme_complete_rq.cold+0x1c/0x2f0",
                "nvme_complete_rq+0x99/0x300",
            )
            .replace("blk_complete_reqs.isra.0+0x40", "blk_complete_reqs+0x44")
            .replace("  ? __die_body.cold+0x1a/0x1f", "  ? vfs_read+0x1/0x2")
            .replace("0x2a000000", "0x1c000000");
        let of = |log: &str| signature(&crashes(log)[0].frames()).unwrap();
        assert_eq!(of(OOPS), of(&other));
        assert_eq!(of(OOPS).len(), 16);
        assert_ne!(
            of(OOPS),
            of(&OOPS.replace("nvme_pci_complete_rq", "virtblk_done"))
        );
    }

    #[test]
    fn recorded_panics_of_two_kernels_have_the_same_signature() {
        const PSTORE: &str = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../nostall-pstore/tests/fixtures"
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
        let mut all = Vec::new();
        merge(&mut all, crashes(oops).into_iter().map(|crash| (crash, 1)));
        merge(&mut all, crashes(OOPS).into_iter().map(|crash| (crash, 2)));
        assert_eq!(all.len(), 1);
        assert!(all[0].0.panic.is_some());
        assert_eq!(all[0].1, 2);
    }

    #[test]
    fn a_log_that_is_full_of_crashes_has_the_first_thousand() {
        let log = |from: usize| {
            (from..from + 2000).fold(String::new(), |log, number| {
                log + &format!("[{number:5}.000000] kernel BUG at {number}\n")
            })
        };
        let mut all = Vec::new();
        for from in [0, 2000] {
            let found = crashes(&log(from));
            assert_eq!(found.len(), 1000);
            merge(&mut all, found.into_iter().map(|crash| (crash, ())));
        }
        assert_eq!(all.len(), 1000);
        assert_eq!(all[999].0.uptime, Some(999_000_000_000));
    }

    #[test]
    fn the_other_taint_form_and_lines_that_are_none_are_read() {
        let log = "Kernel panic - not syncing: x\nCPU: 0 UID: 0 PID: 1 Comm: x Tainted: G      D             6.13.0 #2\n\
                   Tainted: [D]=DIE, [W]=WARN\n";
        assert_eq!(crashes(log)[0].taint.as_deref(), Some("DW"));
        assert_eq!(crashes("Oops\nCall Trace:\n f+0x1/0x2\n"), []);
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
}
