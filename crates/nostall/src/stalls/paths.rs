//! The paths on which slow I/O holds a Linux: one entry each.

/// Name of the tracing instance, and of the group of probes.
pub const GROUP: &str = "nostall_stalls";

/// Ending of the name of the event at a function's return.
pub const RETURN: &str = "_ret";

/// A path: a row of the report.
#[derive(Debug)]
pub struct Path {
    /// Name in JSON.
    pub name: &'static str,
    /// Title of the row.
    pub title: &'static str,
    /// Functions of Linux. From entry to return, a call holds its task. A kernel has some of them.
    pub functions: &'static [Function],
    /// Tracepoints, which are counted.
    pub tracepoints: &'static [Tracepoint],
    /// Means against it, with the source.
    pub remedy: &'static str,
}

/// A function that is probed.
#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    /// Expression of the kernel's probes for the number of bytes; empty if there is none.
    pub bytes: &'static str,
}

/// A tracepoint that is counted.
#[derive(Debug)]
pub struct Tracepoint {
    pub system: &'static str,
    pub name: &'static str,
    /// Filter of tracefs; empty for all events.
    pub filter: &'static str,
}

const fn function(name: &'static str) -> Function {
    Function { name, bytes: "" }
}

/// A console's function, whose third argument is the number of bytes.
const fn writer(name: &'static str) -> Function {
    let bytes = "$arg3";
    Function { name, bytes }
}

/// A function of a console of the type nbcon. Its argument has a name in the kernel's types (BTF).
const fn nbcon(name: &'static str) -> Function {
    let bytes = "wctxt->len";
    Function { name, bytes }
}

/// All paths, in the order of the report.
pub const PATHS: &[Path] = &[
    Path {
        name: "console",
        title: "console: task prints",
        functions: &[function("console_unlock")],
        tracepoints: &[],
        remedy: "a lower `loglevel`, and what `nostall stalls check` says of each console",
    },
    Path {
        name: "console_8250",
        title: "8250 driver",
        functions: &[writer("univ8250_console_write")],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "console_8250_atomic",
        title: "8250 driver, nbcon",
        functions: &[nbcon("univ8250_console_write_atomic")],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "console_8250_thread",
        title: "8250 thread",
        functions: &[nbcon("univ8250_console_write_thread")],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "console_pl011",
        title: "PL011 driver",
        functions: &[
            writer("pl011_console_write"),
            nbcon("pl011_console_write_atomic"),
            nbcon("pl011_console_write_thread"),
        ],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "console_vt",
        title: "screen driver (tty0)",
        functions: &[writer("vt_console_print")],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "console_hvc",
        title: "hvc driver",
        functions: &[writer("hvc_console_print")],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "console_net",
        title: "netconsole driver",
        functions: &[writer("write_msg"), writer("write_ext_msg")],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "console_pstore",
        title: "pstore console",
        functions: &[writer("pstore_console_write")],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "console_handed_over",
        title: "waited for the printer",
        functions: &[function("console_trylock_spinning")],
        tracepoints: &[],
        remedy: "",
    },
    Path {
        name: "uart_interrupt",
        title: "UART interrupt",
        functions: &[function("serial8250_interrupt"), function("pl011_int")],
        tracepoints: &[],
        remedy: "a port with a larger FIFO or DMA, or hvc or virtio in a guest",
    },
    Path {
        name: "pci_ports",
        title: "PCI configuration, ports",
        functions: &[function("pci_conf1_read"), function("pci_conf1_write")],
        tracepoints: &[],
        remedy: "in a guest, two exits an access: a machine with ECAM (QEMU's q35) needs one for \
                 extended registers; see `nostall stalls check`",
    },
    Path {
        name: "pci_memory",
        title: "PCI configuration, memory",
        functions: &[
            function("pci_mmcfg_read"),
            function("pci_mmcfg_write"),
            function("pci_generic_config_read"),
            function("pci_generic_config_write"),
        ],
        tracepoints: &[],
        remedy: "in a guest, one exit an access: a VMM can map the registers (nostall-devices)",
    },
    Path {
        name: "spi_message",
        title: "SPI: caller of a message",
        functions: &[function("spi_sync")],
        tracepoints: &[],
        remedy: "`nostall spi bench` measures the bus",
    },
    Path {
        name: "spi_worker",
        title: "SPI: worker runs",
        functions: &[function("spi_pump_messages")],
        tracepoints: &[],
        remedy: "Linux 6.1 or newer, in which the caller drives an idle bus",
    },
    Path {
        name: "spi_wakeup",
        title: "SPI: worker is woken",
        functions: &[],
        tracepoints: &[Tracepoint {
            system: "sched",
            name: "sched_waking",
            filter: "comm ~ \"spi*\"",
        }],
        remedy: "",
    },
    Path {
        name: "spi_idle",
        title: "SPI: worker idles the bus",
        functions: &[],
        tracepoints: &[Tracepoint {
            system: "spi",
            name: "spi_controller_idle",
            filter: "",
        }],
        remedy: "",
    },
    Path {
        name: "pstore",
        title: "pstore: record",
        functions: &[function("pstore_dump"), function("write_pmsg")],
        tracepoints: &[],
        remedy: "",
    },
];

/// Returns all probed functions.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    PATHS.iter().flat_map(|path| path.functions)
}

/// Returns all tracepoints.
pub fn tracepoints() -> impl Iterator<Item = &'static Tracepoint> {
    PATHS.iter().flat_map(|path| path.tracepoints)
}

/// Returns the line of a shell that makes a trace of these paths with trace-cmd, without nostall.
pub fn trace_cmd() -> String {
    let names: Vec<_> = functions().map(|function| function.name).collect();
    // trace-cmd refuses a function that the kernel does not have.
    format!(
        "trace-cmd record -C mono -p function_graph $(grep -owE '^({})' \
         /sys/kernel/tracing/available_filter_functions | sed 's/^/-l /') sleep 60",
        names.join("|")
    )
}
