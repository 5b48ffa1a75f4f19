//! The builds of Linux that are peers.

use std::env;
use std::path::{Path, PathBuf};

/// A build of Linux (`linux/build`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linux {
    V6_1Before,
    V6_1,
    V6_1After,
    V6_12,
    V6_12Rt,
}

impl Linux {
    /// Every build, in the order of the tables.
    pub const ALL: [Self; 5] = [
        Self::V6_1Before,
        Self::V6_1,
        Self::V6_1After,
        Self::V6_12,
        Self::V6_12Rt,
    ];

    /// Stable name of the peer, which is that of its folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V6_1Before => "linux-6.1-before",
            Self::V6_1 => "linux-6.1",
            Self::V6_1After => "linux-6.1-after",
            Self::V6_12 => "linux-6.12",
            Self::V6_12Rt => "linux-6.12-rt",
        }
    }

    /// Finds the build's kernel and initramfs, or returns a text that says how to get them.
    pub fn find(self) -> Result<Build, String> {
        let folders = folders();
        let builds = folders.iter();
        let mut builds = builds.map(|folder| Build::of(&folder.join(self.name())));
        builds.find(Build::is_complete).ok_or_else(|| {
            "not built; in a checkout of nostall, `make linux-peer` builds it".to_owned()
        })
    }
}

/// Folders that may hold the builds: the one that `NOSTALL_LINUX_PEERS` names, or else that of
/// `make linux-peer` below the target folder in which this command lies.
fn folders() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("NOSTALL_LINUX_PEERS") {
        return vec![named.into()];
    }
    let command = env::current_exe().unwrap_or_default();
    // `target/release/nostall`, or `target/debug/deps/test-0123`.
    let above = command.ancestors().skip(2).take(2);
    above.map(|folder| folder.join("tmp")).collect()
}

/// Files of a build.
#[derive(Clone, Debug)]
pub struct Build {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
}

impl Build {
    fn of(folder: &Path) -> Self {
        Self {
            kernel: folder.join("vmlinuz"),
            initramfs: folder.join("initramfs"),
        }
    }

    fn is_complete(&self) -> bool {
        self.kernel.is_file() && self.initramfs.is_file()
    }
}
