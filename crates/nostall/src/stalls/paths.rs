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
    /// A tracepoint, which is counted.
    pub tracepoint: Option<Tracepoint>,
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

const fn path(name: &'static str, title: &'static str, functions: &'static [Function]) -> Path {
    Path {
        name,
        title,
        functions,
        tracepoint: None,
        remedy: "",
    }
}

impl Path {
    const fn with_tracepoint(mut self, system: &'static str, name: &'static str) -> Self {
        self.tracepoint = Some(Tracepoint { system, name });
        self
    }

    const fn mended_by(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }

    /// Returns the names of all parts that are traced.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        let functions = self.functions.iter().map(|function| function.name);
        functions.chain(self.tracepoint.iter().map(|point| point.name))
    }
}

/// All paths, in the order of the report.
pub const PATHS: &[Path] = &[
    path(
        "console",
        "console: task prints",
        &[function("console_unlock")],
    )
    .mended_by("a lower `loglevel`, and what `nostall stalls check` says of each console"),
    path(
        "console_8250",
        "8250 driver",
        &[writer("univ8250_console_write")],
    ),
    path(
        "console_8250_atomic",
        "8250 driver, nbcon",
        &[nbcon("univ8250_console_write_atomic")],
    ),
    path(
        "console_8250_thread",
        "8250 thread",
        &[nbcon("univ8250_console_write_thread")],
    ),
    path(
        "console_pl011",
        "PL011 driver",
        &[
            writer("pl011_console_write"),
            nbcon("pl011_console_write_atomic"),
            nbcon("pl011_console_write_thread"),
        ],
    ),
    path(
        "console_vt",
        "screen driver (tty0)",
        &[writer("vt_console_print")],
    ),
    path("console_hvc", "hvc driver", &[writer("hvc_console_print")]),
    path(
        "console_net",
        "netconsole driver",
        &[writer("write_msg"), writer("write_ext_msg")],
    ),
    path(
        "console_pstore",
        "pstore console",
        &[writer("pstore_console_write")],
    ),
    path(
        "console_handed_over",
        "waited for the printer",
        &[function("console_trylock_spinning")],
    ),
    path(
        "uart_interrupt",
        "UART interrupt",
        &[function("serial8250_interrupt"), function("pl011_int")],
    )
    .mended_by("a port with a larger FIFO or DMA, or hvc or virtio in a guest"),
    path(
        "pci_ports",
        "PCI configuration, ports",
        &[function("pci_conf1_read"), function("pci_conf1_write")],
    )
    .mended_by(
        "in a guest, two exits an access: a machine with ECAM (QEMU's q35) needs one for \
                 extended registers; see `nostall stalls check`",
    ),
    path(
        "pci_memory",
        "PCI configuration, memory",
        &[
            function("pci_mmcfg_read"),
            function("pci_mmcfg_write"),
            function("pci_generic_config_read"),
            function("pci_generic_config_write"),
        ],
    )
    .mended_by("in a guest, one exit an access: a VMM can map the registers (nostall-devices)"),
    path(
        "spi_message",
        "SPI: caller of a message",
        &[function("spi_sync")],
    )
    .mended_by("`nostall spi bench` measures the bus"),
    path(
        "spi_worker",
        "SPI: worker runs",
        &[function("spi_pump_messages")],
    )
    .mended_by("Linux 6.1 or newer, in which the caller drives an idle bus"),
    path("spi_idle", "SPI: worker idles the bus", &[])
        .with_tracepoint("spi", "spi_controller_idle"),
    path(
        "pstore",
        "pstore: record",
        &[function("pstore_dump"), function("write_pmsg")],
    ),
];

/// Returns all probed functions.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    PATHS.iter().flat_map(|path| path.functions)
}

/// Returns all tracepoints.
pub fn tracepoints() -> impl Iterator<Item = &'static Tracepoint> {
    PATHS.iter().filter_map(|path| path.tracepoint.as_ref())
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
