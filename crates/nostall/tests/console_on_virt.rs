//! `nostall run console --machine virt` and `nostall log read` of that machine, as a user
//! meets them: a RISC-V machine has nothing that interrupts a CPU that has masked
//! interrupts, and no port of its own that the firmware has not used before.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use common::qemu_for;
use nostall_vm::qemu::{Error, Guest, GuestRam, Limits, Machine};
use nostall_work::pstore::REGION;
use nostall_work::{FIRMWARE_DONE, Failure, Work};
use tempfile::TempDir;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64"));

fn nostall(dir: &Path, args: &str) -> Output {
    Command::new(cargo_bin("nostall"))
        .args(args.split_whitespace())
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// So many lines, logged at once.
fn log(lines: usize) -> String {
    let line = |n| format!("[    1.000000] sd {n}:0:0:0: Attached scsi generic sg{n} type 0\n");
    (0..lines).map(line).collect()
}

#[test]
fn a_guest_loses_nothing_sends_nothing_twice_and_brings_its_panic_without_an_nmi() {
    if qemu_for("a_guest_loses_nothing", Machine::Virt).is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("log"), log(50)).unwrap();
    // The machine is QEMU's, which need not be said.
    let args = "run console --machine virt --input log --cpus 3 --panic-at 0.1 \
                --json figures --report flood.svg";
    let output = nostall(dir.path(), args);
    let out = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}{out}");
    assert_eq!(stderr, "", "nothing but the answer");
    assert!(!out.contains("FAILS"), "{out}");
    for line in out.lines() {
        assert!(line.len() <= 80 && line == line.trim_end(), "{line}");
    }
    assert!(out.contains(", virt, 3 CPUs on "), "{out}");
    assert!(out.contains("\nNothing here interrupts a CPU that has masked interrupts"));
    assert_eq!(out.matches("lines once, as logged").count(), 3, "{out}");
    assert_eq!(out.matches("brings all of a panic's text").count(), 3);
    assert_eq!(out.matches("text in persistent RAM").count(), 3);

    let figures = fs::read_to_string(dir.path().join("figures")).unwrap();
    let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(figures["host"]["machine"], "virt");
    let results = figures["results"].as_array().unwrap();
    let of = |strategy: &str, metric: &str| {
        let found = results
            .iter()
            .find(|result| result["strategy"] == strategy && result["metric"] == metric);
        let found = found.unwrap_or_else(|| panic!("{strategy} {metric}"));
        assert_eq!(
            (&found["path"], &found["on"]),
            (&"console".into(), &"qemu".into())
        );
        found["value"].as_f64().unwrap()
    };
    for strategy in ["print-inline", "fifo-inline", "bounded"] {
        // The line is never faster than its rate: 11,520 bytes a second.
        let rate = of(strategy, "bytes_per_second");
        assert!(rate > 0.0 && rate < 11_600.0, "{strategy}: {rate}");
        assert_eq!(of(strategy, "records_lost"), 0.0);
        assert!(of(strategy, "longest_hold_ns") > 0.0);
        let first = of(strategy, "panic_first_byte_ns");
        assert!(first > 0.0 && first < of(strategy, "panic_last_byte_ns"));
    }
    assert!(of("bounded", "second_task_share") > 0.0);
    let svg = fs::read_to_string(dir.path().join("flood.svg")).unwrap();
    assert_eq!(svg.matches("class=\"lane\"").count(), 2 * 3 * 3);
}

#[test]
fn whichever_way_a_kernel_dies_its_log_is_in_persistent_ram() {
    let Some(qemu) = qemu_for("whichever_way_a_kernel_dies", Machine::Virt) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    for (failure, words) in [
        (Failure::Panic, "panic: on purpose"),
        (Failure::PanicInFlush, "on purpose, in the flush"),
        (Failure::PanicEverywhere, "on purpose, on CPU "),
        (Failure::StackOverflow, "the stack is full"),
    ] {
        let ram = GuestRam::new(128).unwrap();
        let guest = Guest {
            kernel: KERNEL,
            cpus: 3,
            work: &[Work::Fail(failure)],
            repeat: 1,
            input: &[],
            ram: Some(&ram),
            drives: &[],
            qemu_args: &[],
        };
        let ran = qemu.run_to_panic(&guest, &Limits::of(1, 0), &mut |_| {});
        match ran {
            Err(Error::Guest(_)) if failure == Failure::StackOverflow => {}
            ran => drop(ran.unwrap()),
        }
        fs::write(dir.path().join("region"), ram.read(REGION).unwrap()).unwrap();
        let output = nostall(dir.path(), "pstore decode region");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{failure:?}: {stderr}");
        let log = String::from_utf8(output.stdout).unwrap();
        assert!(log.contains("\nPanic#1 Part1\n"), "{failure:?}: {log}");
        assert!(log.contains("reference kernel, 3 CPUs\n"), "{log}");
        assert!(log.contains(words), "{failure:?}: {log}");
    }
}

/// A QEMU of the test's own, killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What has come over the line since the firmware was done with it.
fn of_the_kernel(serial: &Path) -> Vec<u8> {
    let all = fs::read(serial).unwrap_or_default();
    let done = FIRMWARE_DONE.as_bytes();
    let at = all.windows(done.len()).position(|window| window == done);
    at.map_or_else(Vec::new, |at| all[at + done.len()..].to_vec())
}

#[test]
fn what_a_machine_killed_in_mid_flood_had_not_printed_is_in_its_ring() {
    if qemu_for("what_a_machine_killed_in_mid_flood", Machine::Virt).is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name);
    fs::write(file("log"), log(400)).unwrap();
    fs::write(file("kernel"), KERNEL).unwrap();
    File::create(file("ram"))
        .unwrap()
        .set_len(128 << 20)
        .unwrap();
    let words = "-machine virt,memory-backend=ram -smp 4 -m 128M -accel tcg -nodefaults \
                 -no-user-config -no-reboot -display none -kernel kernel -initrd log \
                 -object memory-backend-file,id=ram,share=on,size=128M,mem-path=ram \
                 -bios default -chardev file,id=serial,path=serial -serial chardev:serial \
                 -chardev file,id=reports,path=reports \
                 -semihosting-config enable=on,target=native,chardev=reports";
    let child = Command::new("qemu-system-riscv64")
        .args(words.split_whitespace())
        .args(["-append", "cpus=4 repeat=1 console:bounded:115200:1"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .spawn();
    let machine = Killed(child.unwrap());
    let start = Instant::now();
    // All is logged at once; the line takes seconds.
    while of_the_kernel(&file("serial")).len() < 5_000 {
        assert!(start.elapsed() < Duration::from_secs(60), "no 5000 bytes");
        sleep(Duration::from_millis(5));
    }
    drop(machine);

    let read = |args: &str| {
        let output = nostall(dir.path(), &format!("log read ram {args}"));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        (String::from_utf8(output.stdout).unwrap(), stderr)
    };
    let (left, told) = read("");
    assert!(told.contains(", printed up to "), "{told}");
    let (all, _) = read("--all");
    let serial = String::from_utf8(of_the_kernel(&file("serial"))).unwrap();
    // What is behind the last line's end was cut by the kill.
    let (printed, _) = serial.rsplit_once("\r\n").unwrap();
    let printed: Vec<_> = printed.split("\r\n").collect();
    let (left, all): (Vec<_>, Vec<_>) = (left.lines().collect(), all.lines().collect());
    assert!(all.len() > 300 && left.len() > 100, "{}", all.len());
    assert!(all.starts_with(&printed), "printed as logged");
    assert!(all.ends_with(&left), "the rest of what was logged");
    // A line whose end was on its way when the machine died may be in both.
    let both = (printed.len() + left.len()).checked_sub(all.len());
    assert!(
        matches!(both, Some(0..=1)),
        "{} {}",
        printed.len(),
        left.len()
    );
}
