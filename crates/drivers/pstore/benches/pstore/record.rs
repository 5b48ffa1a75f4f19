//! One record without error correction, compared with a loop that stores the same bytes.

use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_io::{Clock, HostClock, Processor};
use nostall_pstore::{
    ByClock, Dropping, Flushed, LinuxVersion, Masking, Memory, Nesting, OwnCounter, Ram, Recorder,
    SharedCounter, Stamp, Uncached, Zone, ZoneKind,
};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::AtomicUsize;

/// The size of a zone in bytes.
pub const ZONE: usize = 64 << 10;

/// Address of a function, as in a kernel.
pub const IP: u64 = 0xffff_ffff_8100_0000;
pub const PARENT: u64 = 0xffff_ffff_8200_0000;

/// Returns memory for a zone, at the start of a page.
pub fn memory() -> &'static mut [u8] {
    const PAGE: usize = 4096;
    let bytes = vec![0; ZONE + PAGE].leak();
    let skip = bytes.as_ptr().align_offset(PAGE);
    &mut bytes[skip..][..ZONE]
}

pub fn recorder<M: Memory, S: Stamp>(memory: M, stamp: S) -> Recorder<'static, M, S> {
    let zone = Zone::attach(memory, ZoneKind::Ftrace, LinuxVersion(0), None);
    Recorder::new(zone.unwrap().0, 0, stamp)
}

pub fn ram() -> Ram<'static> {
    Ram::of(memory())
}

/// A plain loop in C style: it stores 24 bytes, advances the header, and keeps the position in a
/// register.
#[inline(never)]
pub fn plain(memory: &mut [u8], records: u64, stamp: impl Fn() -> u64) {
    const HEADER: usize = 12;
    let data = (memory.len() - HEADER) / 24 * 24;
    let base = memory.as_mut_ptr();
    let mut at = 0;
    for _ in 0..records {
        // SAFETY: `at` is a multiple of 24 below `data`, so the record is in the memory, like the
        // header.
        unsafe {
            let record = base.add(HEADER + at).cast::<u64>();
            record.write_unaligned(black_box(IP));
            record.add(1).write_unaligned(PARENT);
            record.add(2).write_unaligned(stamp() << 8);
            at += 24;
            if at >= data {
                at = 0;
            }
            base.add(4).cast::<u32>().write_volatile(at as u32);
        }
    }
}

/// Returns a counter in a register.
pub fn counter() -> impl Fn() -> u64 {
    let count = Cell::new(0);
    move || {
        count.set(count.get() + 1);
        count.get()
    }
}

/// Returns the CPU's time-stamp counter, or the system's clock on other architectures.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 CPU has the instruction, and user space may execute it unless the kernel
    // forbids it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return HostClock::new().now().0;
}

/// A processor that masks no interrupts, because a program cannot.
struct Host;

impl Processor for Host {
    fn id(&self) -> usize {
        0
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

/// Calls `record` for each record.
fn each(mut record: impl FnMut(u64)) -> impl FnMut(u64) {
    move |records| {
        for _ in 0..records {
            record(black_box(IP));
        }
    }
}

pub fn tables(effort: Effort) {
    by_counter(effort);
    by_ticks(effort);
    by_host_clock(effort);
    around(effort);
    other_memory(effort);
}

fn by_counter(effort: Effort) {
    let title = "One record of 24 bytes, counted (zones of 64 KiB, no error correction)";
    let mut table = Table::new(title, Unit::Nanoseconds);
    let bytes = memory();
    table.row("plain loop", None, |n| plain(bytes, n, counter()));
    let limit = Limit::RatioAtMost(1.3);
    let mut own = recorder(ram(), OwnCounter::new());
    table.row(
        "Recorder, OwnCounter",
        limit,
        each(move |ip| own.record(ip, PARENT)),
    );
    static SHARED: AtomicUsize = AtomicUsize::new(0);
    let mut shared = recorder(ram(), SharedCounter(&SHARED));
    table.row(
        "Recorder, SharedCounter",
        limit,
        each(move |ip| shared.record(ip, PARENT)),
    );
    let mut called = recorder(ram(), OwnCounter::new());
    table.row(
        "Recorder, OwnCounter, in a function that is not inlined",
        None,
        each(move |ip| call(&mut called, ip)),
    );
    table.print(effort);
}

#[inline(never)]
fn call(recorder: &mut Recorder<'_, Ram<'_>, OwnCounter>, ip: u64) {
    recorder.record(ip, PARENT);
}

fn by_ticks(effort: Effort) {
    let clock = if cfg!(target_arch = "x86_64") {
        "rdtsc"
    } else {
        "the system's clock"
    };
    let title = format!("One record, stamped by {clock}");
    let mut table = Table::new(title, Unit::Nanoseconds);
    let bytes = memory();
    table.row("plain loop", None, |n| plain(bytes, n, ticks));
    let mut recorder = recorder(ram(), ticks);
    table.row(
        "Recorder, a closure",
        Limit::RatioAtMost(1.3),
        each(move |ip| recorder.record(ip, PARENT)),
    );
    table.print(effort);
}

fn by_host_clock(effort: Effort) {
    let title = "One record, stamped in nanoseconds by the system's clock";
    let mut table = Table::new(title, Unit::Nanoseconds);
    let bytes = memory();
    let clock = HostClock::new();
    table.row("plain loop", None, move |n| {
        plain(bytes, n, || clock.now().0);
    });
    let mut recorder = recorder(ram(), ByClock(HostClock::new()));
    table.row(
        "Recorder, ByClock<HostClock>",
        Limit::RatioAtMost(1.3),
        each(move |ip| recorder.record(ip, PARENT)),
    );
    table.print(effort);
}

fn around(effort: Effort) {
    let title = "Cost of records by interrupt handlers (OwnCounter)";
    let mut table = Table::new(title, Unit::Nanoseconds);
    let mut bare = recorder(ram(), OwnCounter::new());
    table.row("Recorder", None, each(move |ip| bare.record(ip, PARENT)));
    let dropping = Dropping::new(recorder(ram(), OwnCounter::new()));
    table.row(
        "Dropping",
        None,
        each(move |ip| dropping.record(ip, PARENT)),
    );
    let masking = Masking::new(recorder(ram(), OwnCounter::new()), Host);
    table.row(
        "Masking, less the masking (the host has none)",
        None,
        each(move |ip| masking.record(ip, PARENT)),
    );
    let nesting = Nesting::new(recorder(ram(), OwnCounter::new())).unwrap();
    table.row("Nesting", None, each(move |ip| nesting.record(ip, PARENT)));
    table.print(effort);
}

fn other_memory(effort: Effort) {
    let title = "Cost of other memory (OwnCounter; the memory is cached all the same)";
    let mut table = Table::new(title, Unit::Nanoseconds);
    let mut cached = recorder(ram(), OwnCounter::new());
    table.row("Ram", None, each(move |ip| cached.record(ip, PARENT)));
    let mut careful = recorder(Uncached::new(ram()), OwnCounter::new());
    table.row(
        "Uncached: aligned stores of 32 bits",
        None,
        each(move |ip| careful.record(ip, PARENT)),
    );
    #[cfg(target_arch = "x86_64")]
    if has_clwb() {
        let bytes = memory();
        let start = bytes.as_ptr().addr();
        let memory = Flushed::new(Ram::of(bytes), move |at, len| write_back(start + at, len));
        let mut flushed = recorder(memory, OwnCounter::new());
        table.row(
            "Flushed: clwb and sfence for the record and the header",
            None,
            each(move |ip| flushed.record(ip, PARENT)),
        );
    }
    table.print(effort);
}

/// Returns whether the CPU has `clwb`: CPUID leaf 7, EBX bit 24 (Intel SDM volume 2A, CPUID).
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "safe from Rust 1.94 on")]
fn has_clwb() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & 1 << 24 != 0 }
}

#[cfg(target_arch = "x86_64")]
fn write_back(address: usize, len: usize) {
    const LINE: usize = 64;
    let mut line = address & !(LINE - 1);
    while line < address + len {
        // SAFETY: the CPU has the instruction (`has_clwb`), which changes no byte.
        unsafe { core::arch::asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) };
        line += LINE;
    }
    // SAFETY: every x86_64 CPU has the instruction.
    unsafe { core::arch::x86_64::_mm_sfence() };
}
