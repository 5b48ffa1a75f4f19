//! Cost of `export` beside decoding alone: `cargo bench -p nostall-fleet`.
//!
//! Each row is a process of its own, so that its CPU time and its memory are its own. CPU time is
//! compared, because it depends less on other work of the machine. Without `--bench`, which cargo
//! passes, ten dumps are measured. `cargo bench -p nostall-fleet -- 2000` measures 2,000 dumps
//! instead of 10,000. A tenth and a hundredth of the dumps are also exported, because cost and
//! memory per dump must be the same.

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::fmt::Write;
    use std::fs::{self, File};
    use std::hint::black_box;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use nostall_fleet::synth::Fleet;
    use nostall_postmortem::detect::FoundRegion;
    use nostall_postmortem::discovery::Discovery;
    use nostall_postmortem::ftrace_ring::{Merge, MergeBy};
    use nostall_postmortem::memory::Memory;
    use nostall_postmortem::trace_region::TraceRegion;
    use nostall_postmortem::{Content, Decoded, Unpack};
    use nostall_pstore::Writer;
    use nostall_tracefile::model::Source as _;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    /// Threads of each row.
    const JOBS: usize = 2;

    /// Workers of the extrapolation, each with as many CPUs as threads here.
    const WORKERS: f64 = 50.0;

    /// Cost of a process.
    struct Cost {
        wall: f64,
        cpu: f64,
        peak: u64,
    }

    /// Decodes the inputs of a list without creating tables.
    pub fn alone(list: &Path) {
        let list = fs::read_to_string(list).unwrap();
        let paths: Vec<&str> = list.lines().collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..JOBS {
                scope.spawn(|| {
                    while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                        decode(Path::new(path));
                    }
                });
            }
        });
    }

    /// Makes the searches of `export`, and reads all that they find: regions, traces, log rings
    /// and Linux's ring buffers. Hashes, lines and rows are not part of it.
    fn decode(path: &Path) {
        let Ok(image) = Memory::open(path) else {
            return;
        };
        let discovery = Discovery::new(&image);
        let mut decoded = Vec::new();
        for found in discovery.detection.convincing() {
            let Some(bytes) = image.read(found.start, found.geometry.len()) else {
                continue;
            };
            decoded.push(found.start..found.start + bytes.len() as u64);
            region(found, &bytes);
        }
        let traces = discovery.traces(&decoded);
        decoded.extend(traces.iter().map(TraceRegion::range));
        for found in discovery.log_rings(&decoded) {
            for entry in found.ring().records() {
                black_box(entry);
            }
        }
        for trace in &traces {
            let Ok(mut source) = trace.source_named(|_| None) else {
                continue;
            };
            while let Ok(Some(event)) = source.next_event() {
                black_box(event);
            }
        }
        for buffer in discovery.ring_buffers(&decoded) {
            let mut merge = Merge::new(&image, &buffer, MergeBy::Boot);
            while let Some(record) = merge.next(&image, &buffer) {
                black_box(record);
            }
        }
    }

    fn region(found: &FoundRegion, bytes: &[u8]) {
        let decoded = Decoded::new(
            bytes,
            &found.geometry,
            Writer::HeaderFirst,
            Unpack::ByTrying,
        );
        for zone in decoded.zones() {
            black_box(zone);
        }
        for record in decoded.records() {
            if let Content::Ftrace(calls) = &record.content {
                for call in calls.iter() {
                    black_box(call);
                }
            }
            black_box(record.stored);
        }
    }

    /// Makes a list of `number` inputs of a fleet, of which each occurs several times.
    fn list(folder: &Path, distinct: u64, number: usize, ecc: usize) -> PathBuf {
        let mut fleet = Fleet::new(distinct, 1);
        fleet.sizes = [128 << 10, 1 << 20];
        fleet.ecc = Some(ecc);
        let mut answers = Default::default();
        let mut paths = Vec::new();
        for dump in 0..distinct {
            let (path, bytes) = fleet.dump(dump, &mut answers).unwrap();
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            paths.push(path);
        }
        let all = paths.iter().cycle().take(number);
        let lines = all.fold(String::new(), |mut lines, path| {
            writeln!(lines, "{}", path.display()).unwrap();
            lines
        });
        let list = folder.join(format!("list-{number}"));
        fs::write(&list, lines).unwrap();
        list
    }

    /// Runs a process, and returns its cost: its CPU time from `/proc/PID/stat` after its end, and
    /// its peak of memory as seen before.
    fn run(mut command: Command) -> Cost {
        let start = Instant::now();
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let proc = PathBuf::from(format!("/proc/{}", child.id()));
        let mut peak = 0;
        let ticks = loop {
            let status = fs::read_to_string(proc.join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or(0) << 10);
            let stat = fs::read_to_string(proc.join("stat")).unwrap();
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            let fields: Vec<&str> = fields.split(' ').collect();
            if fields[0] == "Z" {
                let ticks = fields[11..13].iter();
                break ticks.map(|it| it.parse::<u64>().unwrap()).sum::<u64>();
            }
            thread::sleep(Duration::from_millis(2));
        };
        assert!(child.wait().unwrap().success());
        Cost {
            wall: start.elapsed().as_secs_f64(),
            // Linux reports CPU time to programs in hundredths of a second (USER_HZ).
            cpu: ticks as f64 / 100.0,
            peak,
        }
    }

    fn export(list: &Path, out: &Path) -> Cost {
        let _ = fs::remove_dir_all(out);
        let mut command = Command::new(env!("CARGO_BIN_EXE_nostall-fleet"));
        command
            .args(["export", "--jobs", &JOBS.to_string(), "--out"])
            .arg(out);
        command.arg(format!("@{}", list.display()));
        run(command)
    }

    /// Returns the bytes of the files, and of the records decoded into them.
    fn bytes(out: &Path) -> (u64, i64) {
        let (mut files, mut decoded) = (0, 0);
        for entry in fs::read_dir(out).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_none_or(|extension| extension != "parquet")
            {
                continue;
            }
            files += fs::metadata(&path).unwrap().len();
            if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("dumps-")
            {
                let file = File::open(path).unwrap();
                let reader = ParquetRecordBatchReaderBuilder::try_new(file)
                    .unwrap()
                    .build();
                for rows in reader.unwrap() {
                    let rows = rows.unwrap();
                    let column = rows.column_by_name("decoded").unwrap();
                    decoded += column
                        .as_primitive::<Int64Type>()
                        .values()
                        .iter()
                        .sum::<i64>();
                }
            }
        }
        (files, decoded)
    }

    /// Measures exports of these numbers of inputs of one list, the smallest first.
    fn exports(folder: &Path, many: &Path, numbers: &[usize]) -> Vec<Cost> {
        let lines = fs::read_to_string(many).unwrap();
        let out = folder.join("out");
        let mut export_some = |number: &usize| {
            let some: Vec<_> = lines.lines().take(*number).collect();
            let list = folder.join("some");
            fs::write(&list, some.join("\n")).unwrap();
            export(&list, &out)
        };
        numbers.iter().map(&mut export_some).collect()
    }

    pub fn main(number: usize) {
        let distinct = (number as u64 / 10).max(10);
        for (name, ecc) in [
            ("without error correction", 0),
            ("with error correction", 16),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let many = list(folder.path(), distinct, number, ecc);
            let sizes = fs::read_to_string(&many).unwrap();
            let sizes = sizes.lines().map(|path| fs::metadata(path).unwrap().len());
            let input: u64 = sizes.sum();
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.arg("--alone").arg(&many);
            let alone = run(command);
            let numbers: Vec<_> = [number / 100, number / 10, number]
                .into_iter()
                .filter(|number| *number > 0)
                .collect();
            let costs = exports(folder.path(), &many, &numbers);
            let Some(whole) = costs.last() else {
                return;
            };
            let (files, decoded) = bytes(&folder.path().join("out"));
            let rate = |cost: &Cost| input as f64 / 1e6 / cost.cpu;
            println!(
                "\n{number} dumps of 128 KiB to 1 MiB, {name}: {} MB, {JOBS} threads",
                input / 1_000_000
            );
            for (row, cost) in [("decoding alone", &alone), ("export", whole)] {
                println!(
                    "  {row:<15} {:9.0} MB a CPU second, {:.1} s",
                    rate(cost),
                    cost.wall
                );
            }
            println!(
                "  ratio           {:9.2} (goal: 0.5 or more)",
                rate(whole) / rate(&alone)
            );
            let each = |(cost, number): (&Cost, &usize)| 1e3 * cost.cpu / *number as f64;
            for (cost, number) in costs.iter().zip(&numbers) {
                println!(
                    "  {number:>6} dumps    {:9.2} ms of CPU time each, peak of {} MB",
                    each((cost, number)),
                    cost.peak / 1_000_000
                );
                assert!(cost.peak < 500_000_000, "memory");
            }
            println!(
                "  Parquet         {:9.3} of the decoded record bytes ({} of {} MB; goal: 0.25 or less)",
                files as f64 / decoded as f64,
                files / 1_000_000,
                decoded / 1_000_000
            );
            let each = each((whole, &number));
            let cpus = WORKERS * JOBS as f64;
            let seconds = 1e6 * each / 1e3 / cpus;
            let of_one = |bytes: u64| bytes as f64 / number as f64;
            println!(
                "  1,000,000 dumps {:9.1} min: {each:.2} ms x 1,000,000 / ({WORKERS} workers x {JOBS} CPUs)",
                seconds / 60.0
            );
            println!(
                "                  {:9.0} MB/s read by each worker, {:.0} GB of Parquet",
                of_one(input) / seconds / WORKERS,
                of_one(files) / 1e3
            );
        }
        fixtures();
    }

    /// The recorded dumps, which are not as regular as made ones.
    fn fixtures() {
        const FIXTURES: &str = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../drivers/pstore/tests/fixtures"
        );
        let folder = tempfile::tempdir().unwrap();
        let fixtures = fs::read_dir(FIXTURES)
            .unwrap()
            .map(|entry| entry.unwrap().path().join("image.bin"));
        let fixtures: BTreeSet<_> = fixtures.filter(|path| path.exists()).collect();
        let lines: Vec<_> = fixtures
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let list = folder.path().join("list");
        fs::write(&list, lines.join("\n")).unwrap();
        let out = folder.path().join("out");
        export(&list, &out);
        let (files, decoded) = bytes(&out);
        println!(
            "\n{} recorded dumps: Parquet {:.3} of the decoded record bytes ({files} of {decoded})",
            fixtures.len(),
            files as f64 / decoded as f64
        );
    }
}

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match &arguments[1..] {
        [mode, list] if mode == "--alone" => linux::alone(list.as_ref()),
        arguments => {
            let is_bench = arguments.iter().any(|argument| argument == "--bench");
            let given = arguments.iter().find_map(|argument| argument.parse().ok());
            linux::main(given.unwrap_or(if is_bench { 10_000 } else { 10 }));
        }
    }
}

/// Other systems have no `/proc`.
#[cfg(not(target_os = "linux"))]
fn main() {}
