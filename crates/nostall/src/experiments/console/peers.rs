//! Rows of Linux.

use crate::experiments::peers::Part;
use crate::experiments::table::{Column, time};

/// Nostall has no row: its producers only store a message, and the tables above show the cost.
pub const PEERS: Part = Part {
    path: "console",
    cpus: 2,
    is_counted: false,
    ours: None,
    columns: &[
        Column::of("time/message", "ns_per_printk", time),
        Column::of("longest", "longest_printk_ns", time),
    ],
    legend: "Linux: printk of 100 bytes to QEMU's serial port, which has no line: time for the\n\
             caller. hidden: by the log level. On a line of 115,200 baud, 100 bytes take 8.7 ms.",
};
