//! The tables of the serial path.

use comfy_table::Table;
use nostall_devices::uart::Profile;
use nostall_uart::Strategy;
use nostall_work::uart::{Driver, Job};

use super::fold::{Summary, case};
use super::metrics;
use nostall_figures::figure::write_of;
use nostall_figures::metric::Metric;
use nostall_figures::table::{
    Column, aligned, four_decimals, hundredths, percent, table as lines, time, whole,
};

const COLUMNS: [Column; 8] = [
    Column::of("bytes", metrics::BYTES, whole),
    Column::of(
        "instr/B",
        metrics::REGISTER_INSTRUCTIONS_PER_BYTE,
        four_decimals,
    ),
    Column::of("bus/B", metrics::BUS_ACCESSES_PER_BYTE, four_decimals),
    Column::of("exits/B", metrics::EXITS_PER_BYTE, four_decimals),
    Column::of(LIGHT, metrics::LIGHT_EXITS_PER_BYTE, four_decimals),
    Column::of("time/B", metrics::NS_PER_BYTE, time),
    Column::of("ratio", metrics::TIME_RATIO_TO_SLOWEST, hundredths),
    Column::new(
        "stalled",
        |row| row.per(metrics::STALLED_NS_PER_BYTE, metrics::NS_PER_BYTE),
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
    Column::of("1 B", metrics::BUS_ACCESSES_PER_BYTE, thousandths).of_case("1-byte-write"),
    Column::of("4 B", metrics::BUS_ACCESSES_PER_BYTE, thousandths).of_case("4-byte-write"),
    Column::of("16 B", metrics::BUS_ACCESSES_PER_BYTE, thousandths).of_case("16-byte-write"),
    Column::of("64 B", metrics::BUS_ACCESSES_PER_BYTE, thousandths).of_case("64-byte-write"),
];

/// Returns the columns of single writes. `accesses` renders the accesses for a byte.
pub const fn single_write_columns(accesses: fn(f64) -> String) -> [Column; 6] {
    [
        Column::of("16 B: bus/B", metrics::BUS_ACCESSES_PER_BYTE, accesses)
            .of_case("16-byte-write"),
        Column::of("time/B", metrics::NS_PER_BYTE, time).of_case("16-byte-write"),
        Column::of("80 B: bus/B", metrics::BUS_ACCESSES_PER_BYTE, accesses)
            .of_case("80-byte-write"),
        Column::of("time/B", metrics::NS_PER_BYTE, time).of_case("80-byte-write"),
        Column::of("2500 B: bus/B", metrics::BUS_ACCESSES_PER_BYTE, accesses)
            .of_case("2500-byte-write"),
        Column::of("time/B", metrics::NS_PER_BYTE, time).of_case("2500-byte-write"),
    ]
}

fn thousandths(value: f64) -> String {
    format!("{value:.3}")
}

/// Returns the table of the sendings of the text.
pub fn table(summary: &Summary) -> String {
    let figures = &summary.figures;
    let has = |metric: &Metric| figures.iter().any(|figure| figure.metric == metric.name);
    let (exits, light) = (
        has(metrics::EXITS_PER_BYTE),
        has(metrics::LIGHT_EXITS_PER_BYTE),
    );
    let columns = COLUMNS.into_iter();
    let columns: Vec<_> = columns.filter(|one| one.header != LIGHT || light).collect();
    let rows = Job::ours().map(|Job { driver, writes }| {
        let row = figures.row(driver.name()).of_case(case(writes));
        ([driver.name(), writes.name()], row)
    });
    let measured = rows.filter(|(_, row)| row.figure(metrics::BYTES).is_some());
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
        .row(Driver::Ours(Strategy::BytePolled).name())
        .of_case(Some("16-byte-write"))
        .get(metrics::NS_PER_BYTE);
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
        let (ours, theirs) = (row.get(metrics::NS)?, published.time.0 as f64);
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
    let sendings = sendings.filter(|figure| figure.metric == metrics::BYTES.name);
    let sendings: usize = sendings.map(|figure| figure.n).sum();
    format!("Every byte arrived: {sendings} sendings of {bytes} bytes.")
}
