//! Rows of Linux beside nostall's.

use nostall_vm::qemu::QemuBoard;

use super::metrics;
use crate::experiments::peers::PeerComparison;
use nostall_figures::table::{Column, time, whole};

/// Strategy of nostall's kernel that stands beside Linux, without and with error correction.
pub const BESIDE: &str = "per-cpu-counter";

pub const PEERS: PeerComparison = PeerComparison {
    second: None,
    goal: None,
    cpus: 4,
    counted: None,
    ours: Some((BESIDE, QemuBoard::Q35)),
    columns: &[
        Column::of("records", metrics::RECORDS, whole),
        Column::of("time/record", metrics::NS_PER_RECORD, time),
        Column::of("time/block", metrics::NS_PER_BLOCK, time),
    ],
    legend: "Linux: dd copies blocks of 512 bytes on one CPU, or on three at once (-3cpu), while\n\
             ramoops records each function of its system calls, with 0 and 16 bytes of ECC.\n\
             time: of the whole run, dd included, divided by the records or blocks of all CPUs.\n\
             nostall: three CPUs, but other functions than Linux's: 45 for a block. ecc-16-3cpu is\n\
             its per-cpu-counter-ecc.",
};

/// Returns the way of Linux in which three CPUs record as with the strategy.
pub fn way_of_linux(strategy: &str) -> Option<&'static str> {
    match strategy {
        BESIDE => Some("ecc-0-3cpu"),
        "per-cpu-counter-ecc" => Some("ecc-16-3cpu"),
        _ => None,
    }
}
