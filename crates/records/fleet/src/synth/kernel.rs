//! Builds of a kernel, each with other addresses for the same functions.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::random::Random;
use super::signatures::{BUILDS, COMMON, SIGNATURES};

/// Linked address of the kernel's code.
pub const LINKED: u64 = 0xffff_ffff_8100_0000;

/// A build.
pub struct Build {
    /// Release.
    pub release: &'static str,
    /// Version.
    pub version: &'static str,
    addresses: BTreeMap<&'static str, u64>,
    end: u64,
}

impl Build {
    /// Returns all builds of a seed.
    pub fn all(seed: u64) -> Vec<Self> {
        let builds = BUILDS.iter().zip(0..);
        builds
            .map(|(&(release, version, _), number)| {
                let mut random = Random::new(seed, 1 << 32 | number);
                let mut names: Vec<&str> = COMMON.to_vec();
                for signature in &SIGNATURES {
                    names.extend(signature.stack.iter().chain(signature.before));
                }
                names.sort_unstable();
                names.dedup();
                random.shuffle(&mut names);
                let mut end = LINKED + 0x1000;
                let mut addresses = BTreeMap::new();
                for name in names {
                    addresses.insert(name, end);
                    end += 0x100 + 16 * random.below(64);
                }
                Self {
                    release,
                    version,
                    addresses,
                    end,
                }
            })
            .collect()
    }

    /// Returns the linked address of a function.
    pub fn address(&self, name: &str) -> u64 {
        self.addresses.get(name).copied().unwrap_or(LINKED)
    }

    /// Returns the file `System.map`.
    pub fn map(&self) -> String {
        let mut lines: Vec<_> = self
            .addresses
            .iter()
            .map(|(name, at)| (*at, *name))
            .collect();
        lines.extend([(LINKED, "_stext"), (self.end, "_etext")]);
        lines.sort_unstable();
        lines.iter().fold(String::new(), |mut map, (at, name)| {
            let _ = writeln!(map, "{at:016x} T {name}");
            map
        })
    }
}
