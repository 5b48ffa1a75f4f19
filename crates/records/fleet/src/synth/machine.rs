//! The memory of one crashed machine.

use std::cell::Cell;
use std::fmt::Write;

use anyhow::Result;
use nostall_pstore::{
    Code, DumpHeader, FTRACE_PER_CPU, Layout, LinuxVersion, Matches, Params, Ram, RecordFormat,
    Recorder, Zone, ZoneKind, ZoneOrder,
};

use super::kernel::{Build, LINKED};
use super::random::Random;
use super::signatures::{COMMON, Signature};

/// Recorded first lines of a boot, for every log.
const BOOT: &str = include_str!("../../fixtures/boot.log");

/// Activity of a machine before its memory was dumped.
pub struct Machine<'a> {
    /// Kernel that ran.
    pub build: &'a Build,
    /// Reason of the crash; `None` for a planned restart.
    pub signature: Option<&'a Signature>,
    /// Distance of the kernel from its linked address, in bytes.
    pub offset: u64,
    /// Seconds since 1970 at the crash.
    pub seconds: i64,
    /// Size of the region in bytes.
    pub size: usize,
    /// Parity bytes for each block.
    pub ecc: usize,
}

impl Machine<'_> {
    /// Returns its memory: a region of ramoops. With `is_empty`, the region has no records.
    pub fn memory(&self, random: &mut Random, is_empty: bool) -> Result<Vec<u8>> {
        let part = self.size / 8;
        let layout = Layout::new(&Params {
            mem_size: self.size,
            record_size: part,
            console_size: part,
            ftrace_size: 2 * part,
            pmsg_size: part / 4,
            ecc: self.ecc,
            cpus: 2,
            flags: FTRACE_PER_CPU,
            zone_order: ZoneOrder::Linux6_2,
        })?;
        let linux = self
            .build
            .release
            .parse()
            .unwrap_or(LinuxVersion::new(6, 1, 0));
        let code = Code::new(self.ecc).map(Box::new);
        let mut memory = vec![0; self.size];
        let log = self.log(random);
        let mut traces = Vec::new();
        let stamp = Cell::new(0);
        for (place, memory) in layout.split(Ram::of(&mut memory)) {
            let (mut zone, _) = Zone::attach(memory, place.kind, linux, code.as_deref())?;
            match place.kind {
                _ if is_empty => {}
                ZoneKind::Dmesg if place.index == 0 && self.signature.is_some() => {
                    let header = DumpHeader {
                        seconds: self.seconds,
                        micros: random.below(1_000_000) as u32,
                        ..DumpHeader::PANIC
                    };
                    let mut room = vec![0; place.division.data()];
                    zone.write_dmesg_deflated(
                        &header,
                        log.as_bytes(),
                        &mut Matches::new(),
                        &mut room,
                    );
                }
                ZoneKind::Dmesg => {}
                ZoneKind::Console => {
                    // The console shows the log without levels.
                    for line in log.lines() {
                        let text = line.split_once('>').map_or(line, |(_, text)| text);
                        zone.append_text(text.as_bytes());
                        zone.append_text(b"\n");
                    }
                }
                ZoneKind::Pmsg => zone.append_text(b"user space started\n"),
                ZoneKind::Ftrace => {
                    let cpu = place.index as u8;
                    let next = || stamp.get();
                    let format = RecordFormat::Bits64;
                    traces.push(Recorder::with_record_format(zone, cpu, next, format));
                }
            }
        }
        for (number, (function, caller)) in self.calls(random).into_iter().enumerate() {
            let cpu = random.below(traces.len() as u64) as usize;
            stamp.set(number as u64);
            if let Some(trace) = traces.get_mut(cpu) {
                let [ip, parent] =
                    [function, caller].map(|name| self.build.address(name) + self.offset);
                trace.record(ip, parent + 0x12);
            }
        }
        drop(traces);
        Ok(memory)
    }

    /// Returns functions with their callers, in order. The calls of a crash are among the last.
    fn calls(&self, random: &mut Random) -> Vec<(&'static str, &'static str)> {
        let number = self.size / 4 / 24;
        let mut any = || COMMON[random.below(COMMON.len() as u64) as usize];
        let mut calls: Vec<_> = (0..number).map(|_| (any(), any())).collect();
        if let Some(signature) = self.signature {
            calls.extend(signature.before.iter().map(|function| (*function, any())));
            calls.extend((0..8).map(|_| (any(), any())));
        }
        calls
    }

    fn log(&self, random: &mut Random) -> String {
        let (release, version) = (self.build.release, self.build.version);
        let mut log = format!(
            "<5>[    0.000000] Linux version {release} (debian-kernel@lists.debian.org) (gcc-12) {version}\n"
        );
        let (_, boot) = BOOT.split_once('\n').unwrap_or(("", BOOT));
        log += boot;
        let micros = 60_000_000 + random.below(86_400_000_000);
        let mut lines = Lines { log, micros };
        for number in 0..self.size / 2048 {
            lines.micros += random.below(1_000_000);
            let port = random.below(60_000);
            lines.add(
                6,
                &format!("audit: type=1400 audit({number}): apparmor=\"ALLOWED\" port={port}"),
            );
        }
        match self.signature {
            Some(signature) => self.report(signature, &mut lines, random),
            None => lines.add(5, "reboot: Restarting system"),
        }
        lines.log
    }

    fn report(&self, signature: &Signature, lines: &mut Lines, random: &mut Random) {
        let (release, version) = (self.build.release, self.build.version);
        let build = version.split(" SMP").next().unwrap_or(version);
        let cpu = random.below(2);
        let about = format!(
            "CPU: {cpu} PID: 77 Comm: kworker/{cpu}:2 Not tainted {release} {build} Debian"
        );
        let is_report = !signature.report.is_empty();
        let panic = format!("Kernel panic - not syncing: {}", signature.panic);
        for line in signature.report {
            lines.add(1, line);
        }
        if !is_report {
            lines.add(0, &panic);
        }
        lines.add(4, &about);
        let mut stack = signature.stack.iter();
        if is_report && let Some(first) = stack.next() {
            let at = random.below(0x100);
            lines.add(4, &format!("RIP: 0010:{first}+{at:#x}/0x2f0"));
        }
        lines.add(4, "Call Trace:");
        lines.add(4, " <TASK>");
        for (number, function) in stack.enumerate() {
            let (at, len) = (random.below(0x80), 0x80 + random.below(0x100));
            lines.add(4, &format!(" {function}+{at:#x}/{len:#x}"));
            if number % 2 == 0 {
                let other = COMMON[random.below(COMMON.len() as u64) as usize];
                lines.add(4, &format!(" ? {other}+0x5/0x90"));
            }
        }
        lines.add(4, " </TASK>");
        if is_report {
            lines.add(4, "---[ end trace 0000000000000000 ]---");
            lines.micros += 50_000;
            lines.add(0, &panic);
        }
        let offset = self.offset;
        lines.add(0, &format!("Kernel Offset: {offset:#x} from {LINKED:#x} (relocation range: 0xffffffff80000000-0xffffffffbfffffff)"));
        lines.add(0, &format!("---[ end {panic} ]---"));
    }
}

/// Lines of a log, with times that rise.
struct Lines {
    log: String,
    micros: u64,
}

impl Lines {
    fn add(&mut self, level: u8, text: &str) {
        self.micros += 1;
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let _ = writeln!(self.log, "<{level}>[{seconds:5}.{micros:06}] {text}");
    }
}
