//! Rows of Linux beside nostall's.

use nostall_vm::qemu::QemuBoard;

use super::metrics;
use crate::experiments::peers::{PeerComparison, Watch};
use nostall_figures::table::{Column, hundredths, time};

pub const PEERS: PeerComparison = PeerComparison {
    second: None,
    goal: None,
    cpus: 1,
    counted: Some(Watch::Accesses),
    ours: Some(("auto", QemuBoard::Q35)),
    columns: &[
        Column::of("read: bus", metrics::BUS_ACCESSES, hundredths).of_case("read"),
        Column::of("time", metrics::NS, time).of_case("read"),
    ],
    legend: "A read of 32 bits. Linux: as its drivers read (pci_bus_read_config_dword), and its\n\
             functions for ports and for ECAM alone.",
};
