//! Rows of Linux beside nostall's.

use nostall_vm::qemu::QemuBoard;

use super::metrics;
use crate::experiments::peers::PeerComparison;
use nostall_figures::table::{Column, four_decimals, time};

pub const PEERS: PeerComparison = PeerComparison {
    second: None,
    goal: None,
    cpus: 2,
    counted: None,
    ours: Some(("caller", QemuBoard::SifiveU)),
    columns: &[
        Column::of("wake-ups/msg", metrics::WAKEUPS_PER_MESSAGE, four_decimals),
        Column::of(
            "teardowns/msg",
            metrics::TEARDOWNS_PER_MESSAGE,
            four_decimals,
        ),
        Column::of("time/msg", metrics::NS_PER_MESSAGE, time),
    ],
    legend: "Linux: spi_sync of 4 bytes on a controller that completes at once; wake-ups of the\n\
             worker thread, and calls that put the hardware to sleep. nostall: the busy bus of a\n\
             RISC-V machine, whose times are not comparable.",
};
