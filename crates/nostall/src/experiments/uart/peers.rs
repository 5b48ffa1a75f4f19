//! Rows of Linux beside nostall's.

use nostall_vm::qemu::QemuBoard;

use crate::experiments::peers::Part;
use crate::experiments::table::{Column, hundredths, time};

pub const PEERS: Part = Part {
    path: "uart",
    cpus: 1,
    ours: Some(("fifo-burst", QemuBoard::Q35)),
    columns: &[
        Column::of(
            "16 B: bus/B",
            "bus_accesses_per_byte_of_a_16_byte_write",
            hundredths,
        ),
        Column::of("time/B", "ns_per_byte_of_a_16_byte_write", time),
        Column::of(
            "80 B: bus/B",
            "bus_accesses_per_byte_of_a_80_byte_write",
            hundredths,
        ),
        Column::of("time/B", "ns_per_byte_of_a_80_byte_write", time),
        Column::of(
            "2500 B: bus/B",
            "bus_accesses_per_byte_of_a_2500_byte_write",
            hundredths,
        ),
        Column::of("time/B", "ns_per_byte_of_a_2500_byte_write", time),
    ],
    legend: "One write of so many bytes. Linux: the write function of its 8250 console; sertest: \
             a\nprogram's write to a device that calls the same function; tty: to /dev/ttyS0.",
};
