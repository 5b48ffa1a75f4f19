//! Names, types and units of the tables' columns. Later versions only add columns at the end.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// The version of the tables, in the metadata of every file.
pub const VERSION: u32 = 1;

/// The key of the version in the metadata of a file.
pub const VERSION_KEY: &str = "nostall.schema";

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Name of the table, with which its files' names start.
    pub name: &'static str,
    /// Meaning of a row.
    pub row: &'static str,
    /// Columns, in order.
    pub columns: &'static [Column],
}

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// Condition under which a row lacks a value.
    pub lacks: Lacks,
    /// The unit of its values; empty without one.
    pub unit: &'static str,
    /// The meaning of its values.
    pub meaning: &'static str,
}

/// Type of a column. Numbers are signed, because Spark has no unsigned ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed number of 64 bits.
    Long,
    /// A signed number of 32 bits.
    Int,
    /// True or false.
    Bool,
    /// UTF-8 text.
    Text,
    /// A time in UTC, in microseconds.
    Time,
    /// A list of texts.
    Texts,
    /// A list of byte ranges: `start`, and `end`, which is exclusive.
    Ranges,
}

/// Condition under which a row lacks a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// Every row has a value.
    Never,
    /// The value is unknown.
    Unknown,
    /// The value is unknown, or the export has the option `--redact`.
    Redacted,
}

const fn column(
    name: &'static str,
    kind: Kind,
    lacks: Lacks,
    unit: &'static str,
    meaning: &'static str,
) -> Column {
    Column {
        name,
        kind,
        lacks,
        unit,
        meaning,
    }
}

use Kind::{Bool, Int, Long, Ranges, Text, Texts, Time};
use Lacks::{Never, Redacted, Unknown};

const INPUT: Column = column(
    "input",
    Long,
    Never,
    "",
    "number of the input in the manifest; files are sorted by it",
);
pub(crate) const DUMP: Column = column(
    "dump",
    Text,
    Unknown,
    "",
    "SHA-256 of the input's bytes, in hexadecimal; null if it could not be read",
);

/// Table with one row per input.
pub const DUMPS: Table = Table {
    name: "dumps",
    row: "an input",
    columns: &[
        INPUT,
        DUMP,
        column("path", Text, Redacted, "", "path as listed"),
        column(
            "machine",
            Text,
            Unknown,
            "",
            "name of the directory that the input is in; of kdump's, the address in it or the one above. With `--redact` 16 digits of its hash",
        ),
        column("size", Long, Unknown, "bytes", "size of the input"),
        column(
            "format",
            Text,
            Unknown,
            "",
            "`raw`, `elf`, `kdump`, `lime`, `avml`, or `text` for the text of a log",
        ),
        column(
            "status",
            Text,
            Never,
            "",
            "`records`; without rows in `records` and `calls`: `empty` (none was written), `damaged` \
             (parts cannot be read), `none` (no log, region, log ring or trace), `error`",
        ),
        column(
            "error",
            Text,
            Redacted,
            "",
            "reason of the status; with `records`, the part of the dump that is missing, or was not searched or read",
        ),
        column(
            "kernel",
            Text,
            Unknown,
            "",
            "release of the crashed kernel, such as `6.1.192`",
        ),
        column(
            "kernel_build",
            Text,
            Unknown,
            "",
            "version of its build, such as `#1 SMP Fri Nov 20 23:26:33 UTC 2026`",
        ),
        column(
            "build_id",
            Text,
            Unknown,
            "",
            "build ID in the image's VMCOREINFO or trace header, in hexadecimal",
        ),
        column(
            "kernel_offset",
            Long,
            Unknown,
            "bytes",
            "distance that KASLR moved the kernel by, from its log or from the header of a trace",
        ),
        column(
            "time",
            Time,
            Unknown,
            "UTC",
            "time of the newest kernel log in ramoops, or kdump's; null outside the years 1 to 9999, or of a header that failed error correction",
        ),
        column(
            "uptime",
            Long,
            Unknown,
            "ns",
            "time since boot in the newest line of the log",
        ),
        column(
            "regions",
            Int,
            Never,
            "",
            "number of ramoops regions decoded",
        ),
        column(
            "region_start",
            Long,
            Unknown,
            "",
            "physical address of the first region",
        ),
        column(
            "region_size",
            Long,
            Unknown,
            "bytes",
            "size of the first region",
        ),
        column(
            "record_size",
            Long,
            Unknown,
            "bytes",
            "`ramoops.record_size`",
        ),
        column(
            "console_size",
            Long,
            Unknown,
            "bytes",
            "`ramoops.console_size`",
        ),
        column(
            "ftrace_size",
            Long,
            Unknown,
            "bytes",
            "`ramoops.ftrace_size`",
        ),
        column("pmsg_size", Long, Unknown, "bytes", "`ramoops.pmsg_size`"),
        column(
            "ecc",
            Int,
            Unknown,
            "bytes",
            "parity bytes for each block of 128 bytes",
        ),
        column("cpus", Int, Unknown, "", "number of CPUs with a trace zone"),
        column(
            "arch",
            Text,
            Unknown,
            "",
            "format of the trace records, such as `64`",
        ),
        column("order", Text, Unknown, "", "byte order: `little` or `big`"),
        column(
            "trust",
            Text,
            Unknown,
            "",
            "worst of all records: `verified`, `unchecked`, `corrected`, `unverified`",
        ),
        column(
            "corrected",
            Long,
            Never,
            "bytes",
            "bytes that error correction changed",
        ),
        column(
            "bad_blocks",
            Long,
            Never,
            "blocks",
            "blocks of 128 bytes that failed error correction",
        ),
        column(
            "damaged",
            Int,
            Never,
            "",
            "zones, records, slots or pages that could not be read completely",
        ),
        column("log_rings", Int, Never, "", "number of nostall's log rings"),
        column(
            "traces",
            Int,
            Never,
            "",
            "number of nostall's traces and of Linux's ring buffers",
        ),
        column("records", Long, Never, "rows", "rows of `records`"),
        column("calls", Long, Never, "rows", "rows of `calls`"),
        column("crashes", Long, Never, "rows", "rows of `crashes`"),
        column(
            "decoded",
            Long,
            Never,
            "bytes",
            "text after decompression, and trace records as stored",
        ),
        column(
            "decode_time",
            Long,
            Unknown,
            "ns",
            "time for this input, only with `--timings`: it differs from run to run",
        ),
        column(
            "kernel_logs",
            Int,
            Never,
            "",
            "number of Linux's logs in the memory; the one with most records is in `records`",
        ),
    ],
};

/// Table with one row per log line or other record.
pub const RECORDS: Table = Table {
    name: "records",
    row: "a line of a log, a record of a log ring, or an event of a trace that is no call",
    columns: &[
        INPUT,
        DUMP,
        column(
            "source",
            Text,
            Never,
            "",
            "`dmesg`, `console`, `pmsg`, `printk` (Linux's log in memory), `ring` (nostall's log), `trace`, `ftrace-ring`",
        ),
        column(
            "record",
            Int,
            Never,
            "",
            "number of the record, ring or trace in its input",
        ),
        column(
            "sequence",
            Long,
            Never,
            "",
            "number of the line from 0, or the ring's own sequence",
        ),
        column("cpu", Int, Unknown, "", "CPU that recorded"),
        column(
            "time",
            Long,
            Unknown,
            "ns",
            "time since boot; of a trace, its own clock, if that has nanoseconds",
        ),
        column(
            "level",
            Int,
            Unknown,
            "",
            "syslog level, 0 (emergency) to 7 (debug)",
        ),
        column(
            "text",
            Text,
            Redacted,
            "",
            "text without time and level; U+FFFD for bytes not UTF-8",
        ),
        column(
            "bytes",
            Long,
            Never,
            "bytes",
            "length of the text as recorded",
        ),
        column(
            "unverified",
            Ranges,
            Unknown,
            "bytes",
            "ranges of the text as recorded that may be anything; null without any",
        ),
        column(
            "trust",
            Text,
            Never,
            "",
            "trust in the record that the line is in",
        ),
    ],
};

/// Table with one row per function entry or exit.
pub const CALLS: Table = Table {
    name: "calls",
    row: "a function entry or exit in a trace",
    columns: &[
        INPUT,
        DUMP,
        column(
            "source",
            Text,
            Never,
            "",
            "`ftrace` (ramoops), `trace`, `ftrace-ring`",
        ),
        column("record", Int, Never, "", "number of the trace in its input"),
        column(
            "sequence",
            Long,
            Never,
            "",
            "number from 0, merged over all CPUs",
        ),
        column("cpu", Int, Never, "", "CPU that recorded"),
        column(
            "stamp",
            Long,
            Unknown,
            "ticks",
            "stamp as recorded, where it is not in nanoseconds",
        ),
        column(
            "time",
            Long,
            Unknown,
            "ns",
            "time, where the trace has nanoseconds",
        ),
        column(
            "kind",
            Text,
            Never,
            "",
            "`call` (function and caller), `enter`, `exit`",
        ),
        column(
            "address",
            Long,
            Unknown,
            "",
            "address of the function; the same 64 bits, with a sign",
        ),
        column(
            "parent",
            Long,
            Unknown,
            "",
            "address of the call; the same 64 bits, with a sign; a `trace` has none",
        ),
        column("symbol", Text, Unknown, "", "name of the function"),
        column(
            "offset",
            Long,
            Unknown,
            "bytes",
            "distance of `address` from its start",
        ),
        column(
            "parent_symbol",
            Text,
            Unknown,
            "",
            "name of the caller; a `trace` has none",
        ),
        column(
            "parent_offset",
            Long,
            Unknown,
            "bytes",
            "distance of `parent` from its start",
        ),
        column(
            "duration",
            Long,
            Unknown,
            "ns",
            "duration of the function, at its exit",
        ),
        column("suspect", Bool, Never, "", "the record may be half written"),
        column("trust", Text, Never, "", "trust in the record"),
    ],
};

/// Table with one row per panic or oops.
pub const CRASHES: Table = Table {
    name: "crashes",
    row: "a panic or oops in a log; an oops that ends in a panic is one row",
    columns: &[
        INPUT,
        DUMP,
        column(
            "sequence",
            Int,
            Never,
            "",
            "number in its input, from 0 in the order of time",
        ),
        column("kind", Text, Never, "", "`panic` or `oops`"),
        column(
            "class",
            Text,
            Never,
            "",
            "`null-dereference`, `page-fault`, `protection-fault`, `divide-error`, \
             `invalid-opcode`, `bug`, `soft-lockup`, `hard-lockup`, `hung-task`, \
             `out-of-memory`, `no-init`, `no-root`, `sysrq`, `panic`, `oops`",
        ),
        column("reason", Text, Redacted, "", "first line of the report"),
        column(
            "panic",
            Text,
            Redacted,
            "",
            "message of the panic, without `not syncing`",
        ),
        column(
            "signature",
            Text,
            Unknown,
            "",
            "normalised stack signature, 16 hexadecimal digits; null without a stack",
        ),
        column(
            "frames",
            Texts,
            Unknown,
            "",
            "functions that the signature is made of, innermost first",
        ),
        column(
            "stack",
            Texts,
            Unknown,
            "",
            "all reliable functions of the stack, up to 32",
        ),
        column(
            "taint",
            Text,
            Unknown,
            "",
            "taint flags in Linux's order, such as `GDW`; `-` for a clean kernel",
        ),
        column("cpu", Int, Unknown, "", "CPU that crashed"),
        column(
            "kernel",
            Text,
            Unknown,
            "",
            "release in the report; else of the dump",
        ),
        column(
            "uptime",
            Long,
            Unknown,
            "ns",
            "time since boot at the first line",
        ),
        column(
            "time",
            Time,
            Unknown,
            "UTC",
            "time at which the log with the report was stored, by ramoops or kdump",
        ),
        column(
            "trust",
            Text,
            Never,
            "",
            "trust in the log that has the report",
        ),
    ],
};

/// All tables.
pub const TABLES: [&Table; 4] = [&DUMPS, &RECORDS, &CALLS, &CRASHES];

impl Table {
    /// Returns the table as Arrow's schema, with the version and the units in its metadata.
    pub fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(Column::field);
        let metadata = [
            (VERSION_KEY, VERSION.to_string()),
            ("nostall.table", self.name.into()),
        ];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
        Arc::new(Schema::new_with_metadata(
            fields.collect::<Fields>(),
            HashMap::from(metadata),
        ))
    }
}

impl Column {
    fn field(&self) -> Field {
        let field = Field::new(self.name, self.kind.data_type(), self.lacks != Never);
        let unit = (!self.unit.is_empty()).then(|| ("unit".to_owned(), self.unit.to_owned()));
        field.with_metadata(unit.into_iter().collect::<HashMap<_, _>>())
    }
}

impl Kind {
    /// All types, in the order of their discriminants.
    pub(crate) const ALL: [Self; 7] = [Long, Int, Bool, Text, Time, Texts, Ranges];

    /// Returns Arrow's type.
    pub fn data_type(self) -> DataType {
        match self {
            Long => DataType::Int64,
            Int => DataType::Int32,
            Bool => DataType::Boolean,
            Text => DataType::Utf8,
            Time => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Texts => DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
            Ranges => {
                let range = DataType::Struct(range_fields());
                DataType::List(Arc::new(Field::new("item", range, true)))
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Long => "int64",
            Int => "int32",
            Bool => "bool",
            Text => "string",
            Time => "timestamp[us]",
            Texts => "list of string",
            Ranges => "list of {start, end: int64}",
        }
    }
}

/// Returns the fields of a range of bytes.
pub fn range_fields() -> Fields {
    let field = |name| Field::new(name, DataType::Int64, false);
    Fields::from(vec![field("start"), field("end")])
}

/// Returns the tables as Markdown, for the crate's TABLES.md.
pub fn markdown() -> String {
    let mut text = String::new();
    for table in TABLES {
        writeln!(text, "### `{}`: one row {}\n", table.name, table.row).expect("to a string");
        text += "| column | type | unit | null | meaning |\n| --- | --- | --- | --- | --- |\n";
        for column in table.columns {
            let null = match column.lacks {
                Never => "",
                Unknown => "yes",
                Redacted => "yes; redacted",
            };
            let (name, kind, unit) = (column.name, column.kind.name(), column.unit);
            let meaning = column.meaning;
            writeln!(text, "| `{name}` | {kind} | {unit} | {null} | {meaning} |")
                .expect("to a string");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/TABLES.md");
    const MARKS: [&str; 2] = ["<!-- tables -->\n", "<!-- end of tables -->\n"];

    #[test]
    fn the_list_has_every_column_with_its_type_and_unit() {
        let list = std::fs::read_to_string(LIST).unwrap();
        let (before, rest) = list.split_once(MARKS[0]).unwrap();
        let (tables, after) = rest.split_once(MARKS[1]).unwrap();
        let wanted = format!("\n{}", markdown());
        if std::env::var_os("NOSTALL_RECORD").is_some() {
            let [from, to] = MARKS;
            std::fs::write(LIST, format!("{before}{from}{wanted}{to}{after}")).unwrap();
        } else {
            assert_eq!(tables, wanted, "NOSTALL_RECORD=1 writes the tables again");
        }
    }

    #[test]
    fn no_table_has_two_columns_of_one_name() {
        for table in TABLES {
            let mut names: Vec<_> = table.columns.iter().map(|column| column.name).collect();
            let number = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), number, "{}", table.name);
        }
    }
}
