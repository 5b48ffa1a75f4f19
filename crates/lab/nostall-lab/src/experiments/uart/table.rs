//! The tables of the serial path.

use comfy_table::Table;
use nostall_devices::uart::Profile;
use nostall_work::uart::{Driver, Job};

use super::fold::{Summary, case};
use nostall_figures::figure::write_of;
use nostall_figures::table::{
    Column, aligned, four_decimals, hundredths, percent, table as lines, time, whole,
};

const COLUMNS: [Column; 8] = [
    Column::of("bytes", "bytes", whole),
    Column::of("instr/B", "register_instructions_per_byte", four_decimals),
    Column::of("bus/B", "bus_accesses_per_byte", four_decimals),
    Column::of("exits/B", "exits_per_byte", four_decimals),
    Column::of(LIGHT, "light_exits_per_byte", four_decimals),
    Column::of("time/B", "ns_per_byte", time),
    Column::of("ratio", "time_ratio_to_slowest", hundredths),
    Column::new(
        "stalled",
        |row| row.per("stalled_ns_per_byte", "ns_per_byte"),
        percent,
    ),
];

/// Shown only where the machine counts them.
const LIGHT: &str = "light/B";

/// Single writes: short ones around a FIFO's size, a line of a log, and the test program's text of
/// Linux's fix.
pub const SIZES: [usize; 6] = [1, 4, 16, 64, 80, 2_500];

/// Accesses for a byte of short writes.
const SHORT_WRITES: [Column; 4] = [
    Column::of("1 B", "bus_accesses_per_byte 1-byte-write", thousandths),
    Column::of("4 B", "bus_accesses_per_byte 4-byte-write", thousandths),
    Column::of("16 B", "bus_accesses_per_byte 16-byte-write", thousandths),
    Column::of("64 B", "bus_accesses_per_byte 64-byte-write", thousandths),
];

/// Returns the columns of single writes. `accesses` renders the accesses for a byte.
pub const fn single_write_columns(accesses: fn(f64) -> String) -> [Column; 6] {
    [
        Column::of(
            "16 B: bus/B",
            "bus_accesses_per_byte 16-byte-write",
            accesses,
        ),
        Column::of("time/B", "ns_per_byte 16-byte-write", time),
        Column::of(
            "80 B: bus/B",
            "bus_accesses_per_byte 80-byte-write",
            accesses,
        ),
        Column::of("time/B", "ns_per_byte 80-byte-write", time),
        Column::of(
            "2500 B: bus/B",
            "bus_accesses_per_byte 2500-byte-write",
            accesses,
        ),
        Column::of("time/B", "ns_per_byte 2500-byte-write", time),
    ]
}

fn thousandths(value: f64) -> String {
    format!("{value:.3}")
}

/// Returns the table of the sendings of the text.
pub fn table(summary: &Summary) -> String {
    let figures = &summary.figures;
    let has = |metric: &str| {
        figures
            .iter()
            .any(|figure| figure.metric.starts_with(metric))
    };
    let (exits, light) = (has("exits_per_byte"), has("light_exits_per_byte"));
    let columns = COLUMNS.into_iter();
    let columns: Vec<_> = columns.filter(|one| one.header != LIGHT || light).collect();
    let rows = Job::ours().map(|Job { driver, writes }| {
        let row = figures.row(driver.name()).of_case(case(writes));
        ([driver.name(), writes.name()], row)
    });
    let measured = rows.filter(|(_, row)| row.figure("bytes").is_some());
    let mut text = lines(["strategy", "writes"], &columns, measured);
    text += "\n\n\
        instr, bus, exits: register instructions, bus accesses, VM exits for each byte\n\
        sent (- where this machine cannot count them); ratio: time relative to the\n\
        slowest strategy; stalled: share that a second task on the same CPU did not get.";
    if !exits {
        return text;
    }
    text += "\nexits are those to user space, for accesses to the port; ";
    text += match light {
        true => "light: those that\nthe host's kernel handled itself.",
        false => "those that the\nhost's kernel handled itself are not known here.",
    };
    text += &match summary.maps.count {
        0 => "\nmap changes while sending: none.".to_owned(),
        n => {
            let took = time(summary.maps.took.0 as f64);
            format!("\nmap changes while sending: {n}, which took the host {took}.")
        }
    };
    text
}

/// Returns the tables of the single writes, if there are any.
pub fn single_writes(summary: &Summary) -> Option<String> {
    let drivers = || Driver::all().map(Driver::name);
    let rows = || drivers().map(|driver| ([driver], summary.figures.row(driver)));
    let has_any = summary
        .figures
        .row(Driver::Uart16550.name())
        .get("ns_per_byte 16-byte-write");
    has_any.map(|_| {
        let all = [
            lines(["one write of"], &single_write_columns(thousandths), rows()),
            lines(["bus/B, one write of"], &SHORT_WRITES, rows()),
        ];
        all.join("\n\n")
    })
}

/// Returns published figures beside the model's, if there are any.
pub fn published(profile: &Profile, summary: &Summary) -> Option<String> {
    let mut table = Table::new();
    table.set_header(["strategy", "bytes", "published", "model", "ratio"]);
    let mut sources = Vec::new();
    for published in profile.published {
        let (strategy, bytes) = (published.strategy.name(), published.bytes.to_string());
        let write = write_of(published.bytes);
        let row = summary
            .figures
            .row(strategy)
            .on_port(profile.name)
            .of_case(Some(&write));
        let (ours, theirs) = (row.get("ns")?, published.time.0 as f64);
        table.add_row([
            strategy.to_owned(),
            bytes,
            time(theirs),
            time(ours),
            format!("{:.3}", ours / theirs),
        ]);
        sources.push(published.source);
    }
    sources.sort_unstable();
    sources.dedup();
    (!sources.is_empty()).then(|| {
        format!(
            "One write, as published for such a port and on the model, which was fitted to\n\
             these figures and proves nothing about that machine:\n\n{}\n\n\
             Published: {}",
            aligned(table, 1),
            sources.join(";\n           "),
        )
    })
}

/// Returns the end of a text without faults. Each sending should have `bytes` bytes.
pub fn success(summary: &Summary, bytes: usize) -> String {
    let sendings = summary.figures.iter();
    let sendings = sendings.filter(|figure| figure.metric == "bytes");
    let sendings: usize = sendings.map(|figure| figure.n).sum();
    format!("Every byte arrived: {sendings} sendings of {bytes} bytes.")
}
