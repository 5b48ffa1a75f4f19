//! Rows of Linux beside nostall's.

use nostall_vm::qemu::QemuBoard;

use super::table::single_write_columns;
use crate::experiments::peers::Part;
use crate::experiments::table::hundredths;

pub const PEERS: Part = Part {
    path: "uart",
    cpus: 1,
    is_counted: true,
    ours: Some(("fifo-burst", QemuBoard::Q35)),
    columns: &single_write_columns(hundredths),
    legend: "One write of so many bytes. Linux: the write function of its 8250 console; sertest: \
             a\nprogram's write to a device that calls the same function; tty: to /dev/ttyS0.",
};
