//! Rows of Linux beside nostall's.

use nostall_vm::qemu::QemuBoard;

use crate::experiments::peers::Part;
use crate::experiments::table::{Column, time, whole};

pub const PEERS: Part = Part {
    path: "pstore",
    second: None,
    cpus: 4,
    is_counted: false,
    ours: Some(("per-cpu-counter", QemuBoard::Q35)),
    columns: &[
        Column::of("records", "records", whole),
        Column::of("time/record", "ns_per_record", time),
        Column::of("time/block", "ns_per_block", time),
    ],
    legend: "Linux: dd copies blocks of 512 bytes while ramoops records each call of vfs_*, two for\n\
             a block, with 0 and 16 bytes of ECC. time: of the whole run, dd included. nostall\n\
             records 45 calls for a block, so its time for a record is not comparable.",
};
