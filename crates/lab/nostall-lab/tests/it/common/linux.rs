//! Linux as the reference for persistent memory: in QEMU, a kernel reads images with its ramoops
//! driver, and returns the files that it finds. The kernel is Debian's for clouds, or the one of
//! `make linux-peer`, which shows function traces.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use cpio::newc::ModeFileType;
use cpio::{NewcBuilder, NewcReader, write_cpio};
use nostall_vm::process::{MemoryFile, name, spawn};
use tempfile::TempDir;

use crate::common::pauses::pause_until;
use crate::common::qemu;

/// The folder that `scripts/setup linux` fills.
pub const PEER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/linux-peer");

/// The folder that `make linux-peer` fills.
const BUILT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/linux-6.12");

const RAM: usize = 128 << 20;

/// The address of the images. The kernel unpacks itself to 16 MiB (`nokaslr`) and needs 52 MiB
/// there (`init_size` in its header). The initramfs and the firmware's tables lie at the end of
/// RAM.
const ADDRESS: usize = 96 << 20;
const ROOM: usize = 16 << 20;

// File descriptors of the child.
const MEMORY: i32 = 3;
const INITRAMFS: i32 = 4;
const CONSOLE: i32 = 5;
const FOUND: i32 = 6;

/// The names and contents of the files that Linux shows in `/sys/fs/pstore`.
pub type Found = BTreeMap<String, Vec<u8>>;

/// A region of persistent memory.
#[derive(Clone, Debug, Default)]
pub struct Region {
    pub image: Vec<u8>,
    /// The division into zones.
    pub geometry: Geometry,
}

/// The parameters of the ramoops module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    pub record_size: u32,
    pub console_size: u32,
    pub ftrace_size: u32,
    pub pmsg_size: u32,
    pub ecc: u32,
}

/// A kernel's folder. QEMU and the kernel are there.
pub struct Linux(&'static Path);

/// Returns Debian's cloud kernel. Without QEMU or the kernel the test prints that it is skipped,
/// and fails if `NOSTALL_REQUIRE_QEMU` or `NOSTALL_REQUIRE_LINUX` is set.
pub fn linux(test: &str) -> Option<Linux> {
    found(test, PEER, "scripts/setup linux", "NOSTALL_REQUIRE_LINUX")
}

/// Returns the kernel that shows function traces, or `None` as [`linux`]; the variable is
/// `NOSTALL_REQUIRE_LINUX_PEER`.
pub fn linux_with_traces(test: &str) -> Option<Linux> {
    found(test, BUILT, "make linux-peer", "NOSTALL_REQUIRE_LINUX_PEER")
}

fn found(test: &str, folder: &'static str, command: &str, variable: &str) -> Option<Linux> {
    qemu(test)?;
    let folder = Path::new(folder);
    if folder.exists() {
        return Some(Linux(folder));
    }
    let error = format!("there is no Linux kernel to ask: run {command}");
    assert!(env::var_os(variable).is_none(), "{test}: {error}");
    // The test harness captures the output of std's macros, so they are not used here.
    let _ = writeln!(io::stderr(), "SKIPPED {test}: {error}");
    None
}

/// Runs a script of `linux/`, which boots a guest to its end. Returns the folder with its files.
/// Where the script leaves the guest out, for example without its kernel, the test prints that it is
/// skipped, and fails if `NOSTALL_REQUIRE_LINUX` is set.
pub fn run_script(test: &str, script: &str, arguments: &[&OsStr]) -> Option<TempDir> {
    qemu(test)?;
    let folder = tempfile::tempdir().unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../linux");
    let output = Command::new(scripts.join(script))
        .arg("--out")
        .arg(folder.path())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.success() {
        return Some(folder);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let may_skip = error.contains("is left out") && env::var_os("NOSTALL_REQUIRE_LINUX").is_none();
    assert!(may_skip, "{test}: {error}");
    // The test harness captures the output of std's macros, so they are not used here.
    let _ = write!(io::stderr(), "SKIPPED {test}: {error}");
    None
}

impl Linux {
    /// Returns the path of a file in the kernel's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the files that Linux finds in each region, in one boot, or the reason for a
    /// failure with Linux's last output. Linux reserves a trace zone for each of its `cpus`.
    pub fn read(&self, cpus: u32, regions: &[Region]) -> Result<Vec<Found>, String> {
        let files = Files::new(self, regions).map_err(|error| error.to_string())?;
        let failed = match files.boot(&self.file("vmlinuz"), cpus) {
            Ok(()) => match unpack(&files.found, regions.len()) {
                Ok(found) => return Ok(found),
                Err(error) => format!("it ended without sending all it found ({error})"),
            },
            Err(error) => error.to_string(),
        };
        Err(format!("Linux: {failed}\n{}", files.last_words()))
    }
}

/// The guest's memory, its boot files and its output.
struct Files {
    memory: MemoryFile,
    initramfs: MemoryFile,
    console: MemoryFile,
    found: MemoryFile,
    qemu: MemoryFile,
}

impl Files {
    fn new(linux: &Linux, regions: &[Region]) -> io::Result<Self> {
        let mut memory = vec![0; RAM];
        for (address, Region { image, .. }) in addresses(regions) {
            memory[address..][..image.len()].copy_from_slice(image);
        }
        Ok(Self {
            memory: MemoryFile::new(&memory)?,
            initramfs: MemoryFile::new(&initramfs(linux, regions)?)?,
            console: MemoryFile::new(&[])?,
            found: MemoryFile::new(&[])?,
            qemu: MemoryFile::new(&[])?,
        })
    }

    /// Runs the guest to its end.
    fn boot(&self, kernel: &Path, cpus: u32) -> io::Result<()> {
        let port = |id, number| format!("file,id={id},path={}", name(number));
        let mut command = Command::new("qemu-system-x86_64");
        command
            // The test does not depend on the host's KVM. One thread for all CPUs: with two, a CPU may
            // meet a breakpoint (int3) of Linux's own patching that is gone.
            .args(["-machine", "q35,memory-backend=memory"])
            .args(["-accel", "tcg,thread=single"])
            .args(["-smp", &cpus.to_string()])
            .args(["-m", &format!("{}M", RAM >> 20)])
            .args(["-object", &backend()])
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none"])
            .arg("-kernel")
            .arg(kernel)
            .args(["-initrd", &name(INITRAMFS)])
            .args(["-append", &command_line()])
            .args(["-chardev", &port("console", CONSOLE)])
            .args(["-device", "isa-serial,chardev=console"])
            .args(["-chardev", &port("found", FOUND)])
            .args(["-device", "isa-serial,chardev=found"])
            .stdin(Stdio::null())
            .stdout(self.qemu.to_stdio()?)
            .stderr(self.qemu.to_stdio()?);
        let files = [
            (&self.memory, MEMORY),
            (&self.initramfs, INITRAMFS),
            (&self.console, CONSOLE),
            (&self.found, FOUND),
        ];
        let qemu = spawn(command, &files)?;
        let mut ended = None;
        pause_until(|| {
            ended = qemu.ended().transpose();
            ended.is_some()
        });
        match ended.transpose()? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(io::Error::other(format!("QEMU: {status}"))),
            None => Err(io::Error::other("it does not end")),
        }
    }

    /// Returns the end of QEMU's and the guest's output.
    fn last_words(&self) -> String {
        let mut words = String::new();
        for said in [&self.qemu, &self.console] {
            let end = said.read_last(4000).unwrap_or_default();
            words += &String::from_utf8_lossy(&end);
        }
        words
    }
}

fn backend() -> String {
    let file = name(MEMORY);
    format!("memory-backend-file,id=memory,size={RAM},mem-path={file},share=on")
}

fn command_line() -> String {
    // The images' memory is reserved. Self-tests are left out because they take long, and a
    // panic ends the guest at once. The timer's check fails on a busy machine.
    format!(
        "console=ttyS0 quiet nokaslr cryptomgr.notests no_timer_check panic=-1 \
         memmap={ROOM:#x}${ADDRESS:#x}"
    )
}

/// Returns the address of each region: one after the other, in whole pages.
fn addresses(regions: &[Region]) -> Vec<(usize, &Region)> {
    let mut next = ADDRESS;
    let mut lie = Vec::new();
    for region in regions {
        lie.push((next, region));
        next += region.image.len().next_multiple_of(4096);
    }
    assert!(next <= ADDRESS + ROOM, "more than {ROOM} bytes of images");
    lie
}

/// Returns the guest's script. It lets ramoops read each region in turn, and sends the files in
/// one archive, because they are binary. A failed step ends the script, and with it the guest.
fn init(regions: &[Region]) -> String {
    let mut script = String::from(
        "#!/busybox sh
set -e
trap '/busybox poweroff -f' EXIT
/busybox mount -t devtmpfs devtmpfs /dev
/busybox mount -t sysfs sysfs /sys
/busybox mount -t pstore pstore /sys/fs/pstore
/busybox dmesg -n 7
/busybox insmod /reed_solomon.ko
",
    );
    for (number, (address, Region { image, geometry })) in addresses(regions).iter().enumerate() {
        let size = image.len();
        let Geometry {
            record_size,
            console_size,
            ftrace_size,
            pmsg_size,
            ecc,
        } = geometry;
        // insmod succeeds even if ramoops refuses the region.
        script += &format!(
            "/busybox insmod /ramoops.ko mem_address={address} mem_size={size} \
record_size={record_size} console_size={console_size} ftrace_size={ftrace_size} \
pmsg_size={pmsg_size} ecc={ecc}
/busybox grep ramoops /sys/module/pstore/parameters/backend
/busybox cp -r /sys/fs/pstore /found/{number}
/busybox rmmod ramoops
"
        );
    }
    script
        + "cd /found
exec 3<>/dev/ttyS1
/busybox stty raw <&3
/busybox find * -type f | /busybox cpio -o -H newc >&3
"
}

fn initramfs(linux: &Linux, regions: &[Region]) -> io::Result<Vec<u8>> {
    let entry = |name: &str, kind, content| {
        let builder = NewcBuilder::new(name).mode(0o755).set_mode_file_type(kind);
        (builder, Cursor::new(content))
    };
    let script = init(regions).into_bytes();
    let mut entries = vec![
        entry("dev", ModeFileType::Directory, Vec::new()),
        entry("found", ModeFileType::Directory, Vec::new()),
        entry("sys", ModeFileType::Directory, Vec::new()),
        entry("init", ModeFileType::Regular, script),
    ];
    for name in ["busybox", "reed_solomon.ko", "ramoops.ko"] {
        let content = fs::read(linux.file(name))?;
        entries.push(entry(name, ModeFileType::Regular, content));
    }
    write_cpio(entries.into_iter(), Vec::new())
}

/// Returns the files of an archive. `0/dmesg-ramoops-0` belongs to the first region.
fn unpack(archive: &MemoryFile, regions: usize) -> io::Result<Vec<Found>> {
    let mut archive = Cursor::new(archive.read_from(0, u64::MAX)?);
    let mut found = vec![Found::new(); regions];
    loop {
        let mut file = NewcReader::new(archive)?;
        if file.entry().is_trailer() {
            return Ok(found);
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let (region, name) = file.entry().name().split_once('/').unwrap();
        let region: usize = region.parse().unwrap();
        found[region].insert(name.to_owned(), content);
        archive = file.finish()?;
    }
}
