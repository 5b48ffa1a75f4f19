//! Linux's function_graph tracer compared with nostall's recorder, in one QEMU guest. The kernel of
//! `make linux-peer` runs this benchmark's program, which measures both.

use std::io::{BufRead, BufReader, Cursor, Write};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

use cpio::newc::ModeFileType;
use cpio::{NewcBuilder, write_cpio};
use nostall_bench::{Effort, Table, Unit};
use nostall_io::Processor;
use nostall_trace::{Options, Recorder, Region, Tsc};

use crate::record::{Bare, SLOTS, scopes};

/// Environment variable that marks the guest.
const GUEST: &str = "NOSTALL_BENCH_GUEST";

/// Directory that `make linux-peer` creates.
const LINUX: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/linux-6.12");

/// Time limit for a boot, which takes 3 s, and many times that on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

const INIT: &str = "#!/busybox sh
trap '/busybox poweroff -f' EXIT
/busybox mount -t devtmpfs devtmpfs /dev
/busybox mount -t sysfs sysfs /sys
/busybox mount -t tracefs tracefs /sys/kernel/tracing
exec 3<>/dev/ttyS1
/busybox stty raw -echo <&3
NOSTALL_BENCH_GUEST=1 /bench <&3 >&3 2>/dev/ttyS0
";

pub fn tables(effort: Effort) {
    let title = "In a guest (QEMU without KVM), an entry and its exit: ns a pair";
    let guest = match Guest::start() {
        Ok(guest) => std::cell::RefCell::new(guest),
        Err(reason) => {
            println!("\n{title}");
            return println!("  {:56} {reason}", "ftrace, function_graph");
        }
    };
    let ask = |act| {
        let guest = &guest;
        move |times| guest.borrow_mut().ask(act, times)
    };
    let mut table = Table::new(title, Unit::Nanoseconds);
    let bare = "bare loop: counter read twice, stored twice";
    table.timed(bare, None, ask("bare"));
    table.timed("nostall-trace, trace_scope!", None, ask("scopes"));
    table.timed("ftrace, function_graph", None, ask("ftrace"));
    table.print(effort.rounds(101));
}

/// A running guest; dropping it ends the guest.
struct Guest {
    qemu: Child,
    answers: Receiver<String>,
    _folder: tempfile::TempDir,
}

impl Drop for Guest {
    fn drop(&mut self) {
        _ = self.qemu.kill();
        _ = self.qemu.wait();
    }
}

impl Guest {
    /// Boots the guest, or returns the reason why that is impossible.
    fn start() -> Result<Self, String> {
        if !Path::new(LINUX).is_dir() {
            return Err("needs a Linux: make linux-peer".to_owned());
        }
        let text = |error: io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(text)?;
        let initramfs = folder.path().join("initramfs");
        fs::write(&initramfs, archive().map_err(text)?).map_err(text)?;
        let log = folder.path().join("console");
        let mut qemu = Command::new("qemu-system-x86_64")
            .args(["-machine", "q35", "-accel", "tcg", "-m", "256M"])
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-kernel"])
            .arg(Path::new(LINUX).join("vmlinuz"))
            .arg("-initrd")
            .arg(initramfs)
            .args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"])
            .arg("-chardev")
            .arg(format!("file,id=console,path={}", log.display()))
            .args(["-device", "isa-serial,chardev=console"])
            .args(["-chardev", "stdio,id=questions,signal=off"])
            .args(["-device", "isa-serial,chardev=questions"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("needs qemu-system-x86_64: {error}"))?;
        let lines = BufReader::new(qemu.stdout.take().ok_or("no pipe")?).lines();
        let (send, answers) = channel();
        // The thread ends with QEMU or with the guest.
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| send.send(line))
        });
        let guest = Self {
            qemu,
            answers,
            _folder: folder,
        };
        match guest.answers.recv_timeout(LIMIT) {
            Ok(ready) if ready.trim() == "ready" => Ok(guest),
            other => {
                let console = fs::read(&log).unwrap_or_default();
                let console = String::from_utf8_lossy(&console);
                let last = console.lines().last().unwrap_or_default();
                Err(format!("the guest does not start ({other:?}): {last}"))
            }
        }
    }

    /// Returns the guest's time for `times` repetitions of an act.
    fn ask(&mut self, act: &str, times: u64) -> Duration {
        let questions = self.qemu.stdin.as_mut();
        let asked = questions.is_some_and(|pipe| writeln!(pipe, "{act} {times}").is_ok());
        let answer = self.answers.recv_timeout(LIMIT).ok();
        let nanoseconds = answer
            .filter(|_| asked)
            .and_then(|it| it.trim().parse().ok());
        Duration::from_nanos(nanoseconds.expect("the guest has ended"))
    }
}

/// Returns the guest's files: busybox, and this program with its libraries.
fn archive() -> io::Result<Vec<u8>> {
    let program = env::current_exe()?;
    let shown = Command::new("ldd").arg(&program).output()?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let libraries = shown
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    let folder = |name: &str| (name.to_owned(), None);
    let mut files = vec![folder("dev"), folder("sys")];
    for library in libraries.map(PathBuf::from) {
        let mut folders: Vec<_> = library.ancestors().skip(1).collect();
        folders.reverse();
        for above in folders {
            let name = above.to_string_lossy();
            let name = name.trim_start_matches('/');
            if !name.is_empty() && files.iter().all(|(known, _)| known != name) {
                files.push(folder(name));
            }
        }
        let name = library.to_string_lossy();
        files.push((
            name.trim_start_matches('/').to_owned(),
            Some(fs::read(&library)?),
        ));
    }
    let busybox = fs::read(Path::new(LINUX).join("busybox"))?;
    files.push(("busybox".to_owned(), Some(busybox)));
    files.push(("bench".to_owned(), Some(fs::read(program)?)));
    files.push(("init".to_owned(), Some(INIT.into())));
    let entries = files.into_iter().map(|(name, content)| {
        let kind = match content {
            Some(_) => ModeFileType::Regular,
            None => ModeFileType::Directory,
        };
        let builder = NewcBuilder::new(&name).mode(0o755).set_mode_file_type(kind);
        (builder, Cursor::new(content.unwrap_or_default()))
    });
    write_cpio(entries, Vec::new())
}

/// The guest's only CPU.
struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        0
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

static RECORDER: Recorder<'static, Tsc, Cpu> = Recorder::new(Tsc, Cpu);

/// The recorder's memory: a zone of [`SLOTS`] slots, headers and names.
#[repr(align(64))]
struct Memory([u8; SLOTS as usize * 16 + (1 << 13)]);

/// Runs the recorder as a kernel does, with the time stamp counter.
fn record() {
    let memory = Box::leak(Box::new(Memory([0; SLOTS as usize * 16 + (1 << 13)])));
    let options = Options {
        zones: 1,
        names: 4096,
        ..Options::default()
    };
    RECORDER.start(Region::format(&mut memory.0, &options).unwrap());
    nostall_trace::set_recorder(&RECORDER);
}

/// Returns whether this program runs in the guest. If so, answers the host's requests first.
pub fn is_guest() -> bool {
    if env::var_os(GUEST).is_none() {
        return false;
    }
    record();
    trace();
    let untraced = u64::from(untraced());
    let mut bare = Bare::new();
    println!("ready");
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((act, times)) = line.trim().split_once(' ') else {
            continue;
        };
        let times = times.parse().unwrap();
        let took = match act {
            "bare" => timed(|| bare.run(times)),
            "scopes" => timed(|| scopes(times)),
            // Subtracts the untraced system call, so that the tracer's share is left.
            _ => timed(|| calls(times, parent_id))
                .saturating_sub(Duration::from_nanos(untraced * times)),
        };
        println!("{}", took.as_nanos());
    }
    true
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// Starts tracing one function of the kernel. This takes seconds, so it is not part of a round.
fn trace() {
    for (file, value) in [
        // Linux may know the function by another of its names; an unknown name is an error.
        ("set_ftrace_filter", "*_sys_getppid\n"),
        ("current_tracer", "function_graph"),
    ] {
        fs::write(Path::new("/sys/kernel/tracing").join(file), value).unwrap();
    }
}

/// Returns the duration of an equally short, untraced system call in nanoseconds. It is the minimum
/// of some tries, which other load affects least.
fn untraced() -> u32 {
    const CALLS: u32 = 1_000;
    let tries = (0..50).map(|_| timed(|| calls(CALLS.into(), process::id)));
    tries.min().unwrap_or_default().as_nanos() as u32 / CALLS
}

fn calls(times: u64, call: fn() -> u32) {
    for _ in 0..times {
        std::hint::black_box(call());
    }
}
