//! Rows of Linux beside nostall's.

use nostall_vm::qemu::QemuBoard;

use crate::experiments::peers::Part;
use crate::experiments::table::{Column, time, whole};

pub const PEERS: Part = Part {
    path: "pstore",
    cpus: 4,
    ours: Some(("per-cpu-counter", QemuBoard::Q35)),
    columns: &[
        Column::of("records", "records", whole),
        Column::of("time/record", "ns_per_record", time),
    ],
    legend: "Linux: dd copies /dev/zero to /dev/null while ramoops records each call of vfs_*,\n\
             with 0 and 16 bytes of ECC for each block. time: of\n\
             the whole run.",
};
