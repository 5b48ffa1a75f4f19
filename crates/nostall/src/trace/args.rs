//! Arguments of `nostall trace report`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use nostall_tracefile::report::{Selection, Sort};

use super::candidate::Options;

/// Report calls, durations, rates and stalls of traces
///
/// INPUT is a recording of nostall, a trace.dat of trace-cmd, text of ftrace (function,
/// function_graph), or an image of a crashed machine. Entries and exits are paired per task, or per
/// CPU if there are no tasks. An entry or exit without a counterpart is marked.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Traces to read, each with a report of its own; - for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,

    /// Kind of report
    #[arg(long, value_enum, default_value_t)]
    pub view: View,

    /// Only functions of this name, in which * is any text (repeatable)
    ///
    /// A graph also shows the functions that they call.
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,

    /// Only these CPUs, such as 0,2
    #[arg(long = "cpu", value_name = "CPU", value_delimiter = ',')]
    pub cpus: Vec<u32>,

    /// Print at most N rows, or N lines of a graph
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,

    /// Order of the table's rows, greatest first
    #[arg(long, value_enum, default_value_t)]
    pub sort: Order,

    /// Length of an interval of rates, such as 1s, 10ms or 500us
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub interval: Duration,

    #[command(flatten)]
    pub reading: Options,

    /// Print the time of each line of a graph
    #[arg(long)]
    pub time: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const AFTER: &str = "\
Examples:
  nostall trace report boot.nostall
  nostall trace report trace.dat --view graph --function serial8250_tx_chars
  nostall trace report trace.txt --view rate --function 'uart_*' \\
      --interval 100ms
  nostall trace report before.dat after.dat --view diff --limit 20
  nostall trace report trace.dat --view flame > flame.svg

Views: table (calls, total, self, min, p50, p99 and max of each function), graph
(entries and exits as Linux's function_graph prints them, with + above 10 us, !
100 us, # 1 ms, * 10 ms, @ 100 ms, $ 1 s), histogram (durations in powers of
two), rate (calls and bytes in each interval, and the throughput inside the
calls of each CPU; a function's recorded argument counts as bytes), stalls
(waits by condition and place), diff (the functions of two traces), flame (a
flame graph as SVG: the time in each stack of functions, or the number of calls
where the trace has no durations).

JSON: table, histogram, stalls and diff are an object with schema (1), view and
traces, a list of input, unit (ns or ticks), notes and rows. graph and rate
print a line for each call or interval. Times are in the unit.

Exit status: 0 if the report was printed, 1 if an input could not be read to its
end (the report covers its readable part), 2 if the arguments are wrong.";

/// Kind of report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Calls, total, self, min, p50, p99, max of each function
    #[default]
    Table,
    /// Entries and exits with durations
    Graph,
    /// Durations of each function in powers of two
    Histogram,
    /// Calls, bytes and throughput in each interval
    Rate,
    /// Waits by condition and place
    Stalls,
    /// Two traces, function by function
    Diff,
    /// Flame graph as SVG: time of each stack of functions
    Flame,
}

/// Order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    #[default]
    Total,
    /// Time without the called functions
    #[value(name = "self")]
    Own,
    Calls,
    P50,
    P99,
    Max,
    Name,
}

impl From<Order> for Sort {
    fn from(order: Order) -> Self {
        match order {
            Order::Total => Self::Total,
            Order::Own => Self::Own,
            Order::Calls => Self::Calls,
            Order::P50 => Self::P50,
            Order::P99 => Self::P99,
            Order::Max => Self::Max,
            Order::Name => Self::Name,
        }
    }
}

impl Args {
    /// Returns the functions and CPUs to report on.
    pub fn selection(&self) -> Selection {
        Selection::new(self.functions.clone(), self.cpus.clone())
    }

    /// Returns the maximum number of rows or lines.
    pub fn most(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| limit as usize)
    }
}

/// Parses a length of time, such as 1s, 10ms or 500us.
///
/// # Errors
///
/// If the text is not a number and one of the units s, ms, us and ns, or if the length is 0.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let scale = match unit {
        "s" => Some(1_000_000_000),
        "ms" => Some(1_000_000),
        "us" => Some(1_000),
        "ns" => Some(1),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    number
        .zip(scale)
        .and_then(|(number, scale)| number.checked_mul(scale))
        .filter(|nanos| *nanos > 0)
        .map(Duration::from_nanos)
        .ok_or_else(|| "not a length of time, such as 1s, 10ms or 500us".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_number_and_a_unit() {
        assert_eq!(duration("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(duration("500us"), Ok(Duration::from_micros(500)));
        for wrong in [
            "",
            "1",
            "0s",
            "s",
            "-1s",
            "1 s",
            "99999999999999999999ns",
            "99999999999s",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
