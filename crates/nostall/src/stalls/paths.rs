//! The paths on which slow I/O holds a Linux: one entry each.

use std::collections::HashMap;
use std::sync::LazyLock;

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
    /// System and name of a tracepoint, which is counted.
    pub tracepoint: Option<(&'static str, &'static str)>,
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

const fn plain(name: &'static str) -> Function {
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

const fn path(name: &'static str, title: &'static str) -> Path {
    Path {
        name,
        title,
        functions: &[],
        tracepoint: None,
        remedy: "",
    }
}

impl Path {
    const fn of(mut self, functions: &'static [Function]) -> Self {
        self.functions = functions;
        self
    }

    const fn counting(mut self, system: &'static str, name: &'static str) -> Self {
        self.tracepoint = Some((system, name));
        self
    }

    const fn mended_by(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }

    /// Returns the names of all parts that are traced.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        let functions = self.functions.iter().map(|function| function.name);
        functions.chain(self.tracepoint.map(|(_, name)| name))
    }
}

/// The path on which printk's caller prints, in [`PATHS`].
pub const CONSOLE: usize = 0;

/// All paths, in the order of the report.
pub const PATHS: &[Path] = &[
    path("console", "console: task prints")
        .of(&[plain("console_unlock")])
        .mended_by("a lower `loglevel`, and what `nostall stalls check` says of each console"),
    path("console_8250", "8250 driver").of(&[writer("univ8250_console_write")]),
    path("console_8250_atomic", "8250 driver, nbcon").of(&[nbcon("univ8250_console_write_atomic")]),
    path("console_8250_thread", "8250 thread").of(&[nbcon("univ8250_console_write_thread")]),
    path("console_pl011", "PL011 driver").of(&[
        writer("pl011_console_write"),
        nbcon("pl011_console_write_atomic"),
        nbcon("pl011_console_write_thread"),
    ]),
    path("console_vt", "screen driver (tty0)").of(&[writer("vt_console_print")]),
    path("console_hvc", "hvc driver").of(&[writer("hvc_console_print")]),
    path("console_net", "netconsole driver").of(&[writer("write_msg"), writer("write_ext_msg")]),
    path("console_pstore", "pstore console").of(&[writer("pstore_console_write")]),
    path("console_handed_over", "waited for the printer").of(&[plain("console_trylock_spinning")]),
    path("uart_interrupt", "UART interrupt")
        .of(&[plain("serial8250_interrupt"), plain("pl011_int")])
        .mended_by("a port with a larger FIFO or DMA, or hvc or virtio in a guest"),
    path("pci_ports", "PCI configuration, ports")
        .of(&[plain("pci_conf1_read"), plain("pci_conf1_write")])
        .mended_by(
            "in a guest, two exits an access: a machine with ECAM (QEMU's q35) needs one for \
             extended registers; see `nostall stalls check`",
        ),
    path("pci_memory", "PCI configuration, memory")
        .of(&[
            plain("pci_mmcfg_read"),
            plain("pci_mmcfg_write"),
            plain("pci_generic_config_read"),
            plain("pci_generic_config_write"),
        ])
        .mended_by("in a guest, one exit an access: a VMM can map the registers (nostall-devices)"),
    path("spi_message", "SPI: caller of a message")
        .of(&[plain("spi_sync")])
        .mended_by("`nostall spi bench` measures the bus"),
    path("spi_worker", "SPI: worker runs")
        .of(&[plain("spi_pump_messages")])
        .mended_by("Linux 6.0 or newer, in which the caller drives an idle bus"),
    path("spi_idle", "SPI: worker idles the bus").counting("spi", "spi_controller_idle"),
    path("pstore", "pstore: record").of(&[plain("pstore_dump"), plain("write_pmsg")]),
];

/// The path of each function and tracepoint.
static NUMBERS: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
    let paths = PATHS.iter().enumerate();
    let parts = paths.flat_map(|(number, path)| path.parts().map(move |part| (part, number)));
    parts.collect()
});

/// Returns the path that has this function or tracepoint, as its number in [`PATHS`].
pub fn number(part: &str) -> Option<usize> {
    NUMBERS.get(part).copied()
}

/// Returns all probed functions.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    PATHS.iter().flat_map(|path| path.functions)
}

/// Returns the probed function of that name.
pub fn function(name: &str) -> Option<&'static Function> {
    let mut functions = PATHS[number(name)?].functions.iter();
    functions.find(|function| function.name == name)
}

/// Returns all tracepoints, each with its system.
pub fn tracepoints() -> impl Iterator<Item = (&'static str, &'static str)> {
    PATHS.iter().filter_map(|path| path.tracepoint)
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
