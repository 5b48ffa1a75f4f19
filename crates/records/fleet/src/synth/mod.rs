//! `synth`: a fleet of made dumps, in which every query has a known answer.

mod kernel;
mod machine;
mod random;
mod signatures;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nostall_postmortem::kernel::Crash;
use serde::Serialize;

use crate::signature::signature;
use kernel::Build;
use machine::Machine;
use random::Random;
use signatures::{BUILDS, SIGNATURES};

/// Seconds since 1970 at the end of the fleet's dates: 2026-11-21, 00:00 UTC.
const END: i64 = 1_795_219_200;

/// Number of seconds in a day.
const DAY: i64 = 86_400;

/// Average number of dumps per machine.
const DUMPS_OF_A_MACHINE: u64 = 12;

/// Memory of Linux 6.1 that panicked, without and with error correction. See the fixtures of
/// nostall-pstore.
const RECORDED: [&[u8]; 2] = [
    include_bytes!("../../fixtures/plain.bin.zst"),
    include_bytes!("../../fixtures/ecc16.bin.zst"),
];

/// Seconds since 1970 of the recorded crashes.
const RECORDED_AT: [i64; 2] = [1_795_217_530, 1_795_217_659];

/// Make a fleet of example dumps for `export`
///
/// Writes DIR/dumps (a directory for each machine), DIR/symbols (a System.map for each kernel), and
/// DIR/answers.json with the answers to the queries of examples/fleet. The same options give the
/// same files.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Number of dumps
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub dumps: u64,

    /// Seed of the random generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// New directory for the fleet
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Kind of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A crash.
    Crash,
    /// A planned restart.
    Clean,
    /// A region without a record.
    Empty,
    /// RAM that lost its contents: zeros.
    Zeros,
    /// RAM that lost its contents: noise.
    Noise,
    /// A file without bytes.
    NoBytes,
    /// A crash, with damaged bytes that error correction restores.
    Flipped,
    /// A recorded crash.
    Recorded,
}

/// Number of dumps of each kind per 100. The others are crashes.
const KINDS: [(Kind, u64); 7] = [
    (Kind::Clean, 8),
    (Kind::Empty, 3),
    (Kind::Zeros, 1),
    (Kind::Noise, 1),
    (Kind::NoBytes, 1),
    (Kind::Flipped, 4),
    (Kind::Recorded, 2),
];

/// Known answers to the queries.
#[derive(Debug, Default, Serialize)]
pub struct Answers {
    dumps: u64,
    /// Dumps by status.
    status: BTreeMap<&'static str, u64>,
    /// Number of bytes that error correction restores.
    corrected: u64,
    /// Crashes by signature.
    crashes: BTreeMap<String, Known>,
    /// Signatures that were first seen in the last 7 days.
    new_this_week: BTreeSet<String>,
    /// Dumps by build.
    builds: BTreeMap<String, Rate>,
    /// First and last crash of each machine, in seconds since 1970.
    machines: BTreeMap<String, [i64; 2]>,
    /// Functions that were called only before crashes of one signature, by signature.
    only_before: BTreeMap<String, BTreeSet<&'static str>>,
}

#[derive(Debug, Default, Serialize)]
struct Known {
    class: &'static str,
    crashes: u64,
    first: i64,
    last: i64,
}

#[derive(Debug, Default, Serialize)]
struct Rate {
    dumps: u64,
    crashes: u64,
}

/// A fleet.
pub struct Fleet {
    /// Number of dumps.
    pub dumps: u64,
    /// Number that all random choices depend on.
    pub seed: u64,
    /// Least and greatest size of a made region: powers of two.
    pub sizes: [usize; 2],
    /// Parity bytes for each block, in every second dump; or in all or none.
    pub ecc: Option<usize>,
    builds: Vec<Build>,
    kinds: Vec<Kind>,
}

impl Fleet {
    /// The fleet of a seed.
    pub fn new(dumps: u64, seed: u64) -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        for (kind, share) in KINDS {
            kinds.extend((0..dumps * share / 100).map(|_| kind));
        }
        kinds.resize(dumps as usize, Kind::Crash);
        Random::new(seed, 1 << 33).shuffle(&mut kinds);
        Self {
            dumps,
            seed,
            sizes: [128 << 10; 2],
            ecc: None,
            builds: Build::all(seed),
            kinds,
        }
    }

    /// Returns dump number `number`: its path and its bytes. Adds to the answers.
    ///
    /// # Errors
    ///
    /// If the sizes make no region.
    pub fn dump(&self, number: u64, answers: &mut Answers) -> Result<(PathBuf, Vec<u8>)> {
        let mut random = Random::new(self.seed, number);
        let machine = random.below((self.dumps / DUMPS_OF_A_MACHINE).max(1));
        let machine = format!("host-{machine:05}");
        let path = Path::new("dumps")
            .join(&machine)
            .join(format!("{number:07}.bin"));
        answers.dumps += 1;
        let kind = self.kinds[number as usize];
        let mut count = |status| *answers.status.entry(status).or_default() += 1;
        let bytes = match kind {
            Kind::NoBytes => {
                count("error");
                Vec::new()
            }
            Kind::Zeros | Kind::Noise => {
                count("none");
                let mut noise = || {
                    if kind == Kind::Noise {
                        random.next() as u8
                    } else {
                        0
                    }
                };
                // Different ones have different hashes.
                let tail = number.to_le_bytes();
                (0..32 << 10).map(|_| noise()).chain(tail).collect()
            }
            Kind::Recorded => {
                count("records");
                self.recorded(number, &machine, answers)?
            }
            kind => {
                count(if kind == Kind::Empty {
                    "empty"
                } else {
                    "records"
                });
                self.made(kind, &machine, &mut random, answers)?
            }
        };
        Ok((path, bytes))
    }

    fn recorded(&self, number: u64, machine: &str, answers: &mut Answers) -> Result<Vec<u8>> {
        let which = (number % 2) as usize;
        let mut bytes = zstd::decode_all(Cursor::new(RECORDED[which]))?;
        // The last zone ends before the region does, so the bytes after it are free.
        bytes.extend_from_slice(&number.to_le_bytes());
        let sysrq = SIGNATURES
            .iter()
            .find(|signature| signature.class == "sysrq");
        let sysrq = sysrq.context("no crash like the recorded one")?;
        answers.add(machine, sysrq, RECORDED_AT[which]);
        answers.build(RECORDED_BUILD, true);
        Ok(bytes)
    }

    fn made(
        &self,
        kind: Kind,
        machine: &str,
        random: &mut Random,
        answers: &mut Answers,
    ) -> Result<Vec<u8>> {
        let build = &self.builds[weighted(random, BUILDS.iter().map(|build| build.2))];
        let signature = &SIGNATURES[weighted(random, SIGNATURES.iter().map(|it| it.share))];
        let is_crash = matches!(kind, Kind::Crash | Kind::Flipped);
        let seconds = END - 1 - random.below(signature.since_days * DAY as u64) as i64;
        let has_ecc = kind == Kind::Flipped || random.below(2) == 0;
        let [least, most] = self.sizes;
        let doublings = (most / least).ilog2();
        let memory = Machine {
            build,
            signature: is_crash.then_some(signature),
            offset: random.below(512) << 21,
            seconds,
            size: least << random.below(u64::from(doublings) + 1),
            ecc: self.ecc.unwrap_or(if has_ecc { 16 } else { 0 }),
        };
        let mut bytes = memory.memory(random, kind == Kind::Empty)?;
        if kind == Kind::Flipped {
            // In the data of the first zone, in blocks of their own.
            for block in 1..9 {
                bytes[12 + block * 128 + random.below(100) as usize] ^= 1 << random.below(8);
                answers.corrected += 1;
            }
        }
        if is_crash {
            answers.add(machine, signature, seconds);
        }
        if kind != Kind::Empty {
            answers.build(&format!("{} {}", build.release, build.version), is_crash);
        }
        Ok(bytes)
    }
}

/// Release and version of the recorded kernel.
const RECORDED_BUILD: &str = "6.1.192 #1 SMP Fri Nov 20 23:26:33 UTC 2026";

impl Answers {
    fn add(&mut self, machine: &str, crash: &signatures::Signature, seconds: i64) {
        let stack = crash.stack.iter().map(|name| (*name).to_owned()).collect();
        let frames = Crash {
            stack,
            ..Crash::default()
        };
        let Some(signature) = signature(&frames.frames()) else {
            return;
        };
        let only = self.only_before.entry(signature.clone()).or_default();
        only.extend(crash.before);
        let known = self.crashes.entry(signature).or_insert(Known {
            class: crash.class,
            crashes: 0,
            first: i64::MAX,
            last: i64::MIN,
        });
        known.crashes += 1;
        (known.first, known.last) = (known.first.min(seconds), known.last.max(seconds));
        let [first, last] = self
            .machines
            .entry(machine.to_owned())
            .or_insert([seconds; 2]);
        (*first, *last) = ((*first).min(seconds), (*last).max(seconds));
    }

    fn build(&mut self, build: &str, is_crash: bool) {
        let rate = self.builds.entry(build.to_owned()).or_default();
        rate.dumps += 1;
        rate.crashes += u64::from(is_crash);
    }

    /// Derives the answers that need all dumps.
    fn finish(&mut self) {
        let last = self
            .crashes
            .values()
            .map(|known| known.last)
            .max()
            .unwrap_or(0);
        let new = self
            .crashes
            .iter()
            .filter(|(_, known)| known.first > last - 7 * DAY);
        self.new_this_week = new.map(|(signature, _)| signature.clone()).collect();
    }
}

/// Returns a random index, with the probability of its share in percent.
fn weighted(random: &mut Random, shares: impl Iterator<Item = u64>) -> usize {
    let mut left = random.below(100);
    let mut shares = shares.enumerate();
    let found = shares.find(|(_, share)| match left.checked_sub(*share) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    });
    found.map_or(0, |(place, _)| place)
}

/// Runs the command with these arguments.
///
/// # Errors
///
/// If the directory exists, or if a file cannot be written.
pub fn run(args: &Args) -> Result<Answers> {
    let out = &args.out;
    ensure!(
        !out.exists(),
        "--out {}: it is there already",
        out.display()
    );
    let fleet = Fleet::new(args.dumps, args.seed);
    let mut answers = Answers::default();
    let write = |path: PathBuf, bytes: &[u8]| {
        let path = out.join(path);
        fs::create_dir_all(path.parent().unwrap_or(out))?;
        fs::write(&path, bytes).with_context(|| path.display().to_string())
    };
    for number in 0..args.dumps {
        let (path, bytes) = fleet.dump(number, &mut answers)?;
        write(path, &bytes)?;
    }
    for build in &fleet.builds {
        let name = format!("System.map-{}", build.release);
        write(Path::new("symbols").join(name), build.map().as_bytes())?;
    }
    answers.finish();
    write("answers.json".into(), &serde_json::to_vec_pretty(&answers)?)?;
    Ok(answers)
}
