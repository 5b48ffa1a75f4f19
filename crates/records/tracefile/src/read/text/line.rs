//! Stateless parser for one line of ftrace text.

/// Limit for CPU numbers: plausible ones are lower.
pub(super) const CPUS: u32 = 1 << 16;

/// Contents of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Heading, separator or blank line.
    Heading,
    /// Dots in place of omitted lines.
    Gap,
    /// A line that belongs to no trace or is damaged.
    Foreign,
    /// Notice that the CPU lost records; 0 if the number is unknown.
    Lost { cpu: u32, records: u64 },
    /// A CPU switched between two tasks.
    Switch {
        cpu: u32,
        from: Task<'a>,
        to: Task<'a>,
    },
    /// One record.
    Record(Record<'a>),
}

/// A record, with the columns in its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub cpu: Option<u32>,
    pub task: Option<Task<'a>>,
    pub time: Option<Stamp>,
    pub body: Body<'a>,
}

/// Thread identifier and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task<'a> {
    pub id: i64,
    pub name: &'a str,
}

/// Time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Value in nanoseconds or ticks.
    pub value: u64,
    /// Whether the clock counts ticks.
    pub ticks: bool,
}

/// Text after the columns of time, CPU and task.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// `name() {`
    Entry {
        function: &'a str,
        depth: Option<u32>,
    },
    /// `name();`: entry and exit.
    Leaf {
        function: &'a str,
        depth: Option<u32>,
        duration: Option<u64>,
    },
    /// `}`
    Exit {
        function: Option<&'a str>,
        depth: Option<u32>,
        duration: Option<u64>,
    },
    /// `name <-caller`
    Call {
        function: &'a str,
        caller: Option<&'a str>,
    },
    /// Any other event.
    Text(&'a str),
}

/// Parses one line without its line end. `complete` is false for a last line without line end.
pub(super) fn read(line: &str, complete: bool) -> Line<'_> {
    let line = line.trim_end();
    let text = line.trim_start();
    if text.is_empty() || text.len() > 1 && text.bytes().all(|byte| byte == b'-') {
        return Line::Heading;
    }
    if text.len() > 1 && text.bytes().all(|byte| byte == b'.') {
        return Line::Gap;
    }
    if let Some(lost) = lost(text) {
        return lost;
    }
    let read = context(line)
        .or_else(|| latency(line))
        .or_else(|| graph_line(line));
    match read {
        // A final text may be cut, but the end of a graph line proves that it is complete.
        Some(Line::Record(Record {
            body: Body::Call { .. } | Body::Text(_),
            ..
        })) if !complete => Line::Foreign,
        Some(line) => line,
        None if heading(text) => Line::Heading,
        None => Line::Foreign,
    }
}

/// Returns whether the line is a comment of tracefs, or one of the first lines of `trace-cmd
/// report`.
fn heading(text: &str) -> bool {
    text.starts_with('#')
        || text.strip_prefix("cpus=").is_some_and(all_digits)
        || text.strip_prefix("version = ").is_some_and(all_digits)
        || text
            .strip_prefix("CPU ")
            .and_then(|rest| rest.strip_suffix(" is empty"))
            .is_some_and(all_digits)
}

/// Parses `CPU:1 [LOST 23 EVENTS]`, `CPU:1 [23 EVENTS DROPPED]`, `CPU:1 [EVENTS DROPPED]`.
fn lost(text: &str) -> Option<Line<'_>> {
    let (cpu, notice) = text.strip_prefix("CPU:")?.split_once(" [")?;
    let notice = notice.strip_suffix(']')?;
    let records = match notice.strip_suffix("EVENTS DROPPED") {
        Some(count) => count.trim(),
        None => notice.strip_prefix("LOST ")?.strip_suffix(" EVENTS")?,
    };
    Some(Line::Lost {
        cpu: cpu_number(cpu)?,
        records: if records.is_empty() {
            0
        } else {
            records.parse().ok()?
        },
    })
}

/// Parses `task-pid (tgid) [cpu] flags time: event`.
fn context(line: &str) -> Option<Line<'_>> {
    // A task's name may contain brackets.
    for (at, _) in line.match_indices('[') {
        let Some((cpu, rest)) = line[at + 1..].split_once(']') else {
            break;
        };
        let Some(cpu) = cpu_number(cpu) else { continue };
        let Some(task) = task(without_group(line[..at].trim_end())) else {
            continue;
        };
        let rest = rest.trim_start();
        let (first, after) = rest.split_once(char::is_whitespace)?;
        let (time, body) = match stamp(first) {
            Some(time) => (time, after),
            None => {
                let (second, after) = after.trim_start().split_once(char::is_whitespace)?;
                (stamp(second)?, after)
            }
        };
        return event(body).map(|body| {
            Line::Record(Record {
                cpu: Some(cpu),
                task: Some(task),
                time: Some(time),
                body,
            })
        });
    }
    None
}

/// Parses `task-pid cpu+flags time us mark: event`, as printed by the latency tracers.
fn latency(line: &str) -> Option<Line<'_>> {
    let (columns, body) = line.split_once(": ")?;
    let columns = columns.trim_end_matches(['+', '!', '#', '*', '@', '$', ' ']);
    let (columns, time) = columns
        .strip_suffix("us")?
        .rsplit_once(char::is_whitespace)?;
    let value = time.parse::<u64>().ok()?.checked_mul(1_000)?;
    let (columns, flags) = columns.trim_end().rsplit_once(char::is_whitespace)?;
    let digits = flags.bytes().take_while(u8::is_ascii_digit).count();
    let cpu = cpu_number(&flags[..digits])?;
    let task = task(columns.trim_end())?;
    Some(Line::Record(Record {
        cpu: Some(cpu),
        task: Some(task),
        time: Some(Stamp {
            value,
            ticks: false,
        }),
        body: event(body)?,
    }))
}

/// Parses the text after the time: a graph's columns, a call, or an event.
fn event(text: &str) -> Option<Body<'_>> {
    let trimmed = text.trim_start();
    if let Some((name, rest)) = trimmed.split_once(':') {
        match name {
            "funcgraph_entry" | "funcgraph_exit" | "fgraph_retaddr_entry" => {
                return arrows(rest.trim()).or_else(|| columns(rest, true).map(|graph| graph.body));
            }
            "function" => {
                let function = plain(rest);
                return call(rest).or_else(|| {
                    is_name(function).then_some(Body::Call {
                        function,
                        caller: None,
                    })
                });
            }
            _ => {}
        }
    }
    if let Some((_, rest)) = cpu_column(trimmed) {
        return columns(rest, true).map(|graph| graph.body);
    }
    call(trimmed).or_else(|| (!trimmed.is_empty()).then_some(Body::Text(trimmed)))
}

/// Parses `--> name (depth)` and `<-- name (depth) (start: a  end: b)`, the formats of the events.
fn arrows(text: &str) -> Option<Body<'_>> {
    let (entered, rest) = match text.strip_prefix("--> ") {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix("<-- ")?),
    };
    let (function, rest) = rest.split_once(" (")?;
    let (depth, rest) = rest.split_once(')')?;
    let depth = depth.parse().ok();
    if entered {
        return Some(Body::Entry { function, depth });
    }
    let hex = |key: &str| {
        let (_, value) = rest.split_once(key)?;
        let digits = value.trim_start();
        let end = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        u64::from_str_radix(&digits[..end], 16).ok()
    };
    let duration = hex("start:")
        .zip(hex("end:"))
        .and_then(|(start, end)| end.checked_sub(start));
    Some(Body::Exit {
        function: Some(function),
        depth,
        duration,
    })
}

/// Parses `name <-caller` of tracefs, `name <-- caller` of trace-cmd.
fn call(text: &str) -> Option<Body<'_>> {
    let (function, caller) = text.split_once(" <-")?;
    let function = plain(function);
    let caller = plain(caller.trim_start_matches('-').trim_start());
    (is_name(function) && is_name(caller)).then_some(Body::Call {
        function,
        caller: Some(caller),
    })
}

/// Parses a line of the function_graph tracer: `time | cpu) task | flags | duration | function`.
/// Every column is optional.
fn graph_line(line: &str) -> Option<Line<'_>> {
    let mut rest = line;
    let mut time = None;
    if let Some((first, after)) = rest.split_once('|')
        && let Some(value) = decimal(first.trim(), 9)
        && first.contains('.')
    {
        time = Some(Stamp {
            value,
            ticks: false,
        });
        rest = after;
    }
    let mut cpu = None;
    if let Some((number, after)) = cpu_column(rest.trim_start()) {
        cpu = Some(number);
        rest = after;
        if let Some((from, to)) = rest.split_once(" => ")
            && let (Some(from), Some(to)) = (task(from.trim()), task(to.trim()))
        {
            return Some(Line::Switch {
                cpu: number,
                from,
                to,
            });
        }
    }
    let graph = columns(rest, time.is_some() || cpu.is_some())?;
    Some(Line::Record(Record {
        cpu,
        task: graph.task,
        time,
        body: graph.body,
    }))
}

/// Columns after the CPU's.
struct Graph<'a> {
    task: Option<Task<'a>>,
    body: Body<'a>,
}

/// Parses `task | flags | duration | function`. `known` states that the line belongs to a trace.
fn columns(mut rest: &str, mut known: bool) -> Option<Graph<'_>> {
    let mut of = None;
    let duration = loop {
        let Some((column, after)) = rest.split_once('|') else {
            // Without the column of durations, no bar precedes the function.
            if !known {
                return None;
            }
            break None;
        };
        let column = column.trim();
        if column.is_empty() {
            rest = after;
            break None;
        }
        if column == "==========>" || column == "<==========" {
            return Some(Graph {
                task: of,
                body: Body::Text(column),
            });
        }
        if let Some(duration) = duration(column) {
            known = true;
            rest = after;
            break Some(duration);
        }
        if let Some(task) = task(column) {
            of = Some(task);
        } else if !known || !is_flags(column) {
            // These bars belong to an event's text, after the columns.
            if known {
                break None;
            }
            return None;
        }
        known = true;
        rest = after;
    };
    Some(Graph {
        task: of,
        body: function(rest, duration, known)?,
    })
}

/// Parses `name() {`, `name();`, `}` and comments.
fn function(text: &str, duration: Option<u64>, known: bool) -> Option<Body<'_>> {
    let trimmed = text.trim();
    let indent = text.len() - text.trim_start().len();
    // One space remains where a mail archive or browser joined the spaces.
    let depth = (indent >= 2 && indent.is_multiple_of(2)).then(|| (indent as u32 - 2) / 2);
    if let Some(rest) = trimmed.strip_prefix('}') {
        let rest = rest.trim();
        let named = rest
            .strip_prefix("/*")
            .and_then(|comment| comment.strip_suffix("*/"));
        if !rest.is_empty() && named.is_none() {
            return None;
        }
        return Some(Body::Exit {
            function: named.and_then(comment_name),
            depth,
            duration,
        });
    }
    if let Some(comment) = trimmed.strip_prefix("/*") {
        return Some(Body::Text(comment.strip_suffix("*/")?.trim()));
    }
    let call = match trimmed.strip_suffix("*/") {
        Some(text) => text.rsplit_once("/*")?.0.trim_end(),
        None => trimmed,
    };
    let (call, leaf) = match call.strip_suffix(';') {
        Some(call) => (call, true),
        None => (call.strip_suffix('{')?.trim_end(), false),
    };
    let name = match call.strip_suffix("()") {
        Some(name) => name,
        None => call.strip_suffix(')')?.split_once('(')?.0,
    };
    let name = plain(name);
    if name.is_empty() || !known && !is_name(name) {
        return None;
    }
    Some(if leaf {
        Body::Leaf {
            function: name,
            depth,
            duration,
        }
    } else {
        Body::Entry {
            function: name,
            depth,
        }
    })
}

/// Returns the function's name in the comment of an exit: `name`, `name ret=0x0`, but not
/// `ret=0x0`.
fn comment_name(comment: &str) -> Option<&str> {
    let comment = comment.trim();
    let name = match comment.find(" ret=").or_else(|| comment.find(" [")) {
        Some(end) => &comment[..end],
        None => comment,
    };
    let name = plain(name);
    (!name.is_empty() && !name.starts_with("ret=") && !name.starts_with('=')).then_some(name)
}

/// Strips the module (` [ext4]`) and the offset (`+0x4/0x120`) from a symbol.
fn plain(symbol: &str) -> &str {
    let symbol = symbol.trim();
    let symbol = match symbol.rsplit_once(" [") {
        Some((name, module)) if module.ends_with(']') => name.trim_end(),
        _ => symbol,
    };
    match symbol.rsplit_once("+0x") {
        Some((name, offset))
            if !name.is_empty()
                && offset
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || b"/x".contains(&byte)) =>
        {
            name
        }
        _ => symbol,
    }
}

/// Returns whether the text is a symbol of C or Rust, or an address.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.$:<>{}#".contains(&byte))
}

/// Returns whether the text is flags of interrupts and preemption, such as `d..1.`.
fn is_flags(text: &str) -> bool {
    (3..=12).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".*#".contains(&byte))
}

/// Parses `name-pid`. A name may contain spaces and dashes.
fn task(text: &str) -> Option<Task<'_>> {
    let (name, id) = text.rsplit_once('-')?;
    if !all_digits(id) {
        return None;
    }
    Some(Task {
        id: id.parse().ok()?,
        name: name.trim(),
    })
}

/// Strips the column of thread groups, ` (  123)` or ` (-----)`.
fn without_group(text: &str) -> &str {
    match text
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once('('))
    {
        Some((task, group))
            if all_digits(group.trim()) || group.trim().bytes().all(|byte| byte == b'-') =>
        {
            task.trim_end()
        }
        _ => text,
    }
}

/// Parses `1)`, the column of CPUs, and returns the text after it.
fn cpu_column(text: &str) -> Option<(u32, &str)> {
    let (cpu, rest) = text.split_once(')')?;
    Some((cpu_number(cpu)?, rest))
}

fn cpu_number(text: &str) -> Option<u32> {
    if !all_digits(text) {
        return None;
    }
    text.parse().ok().filter(|cpu| *cpu < CPUS)
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses `4.155038:` in seconds, or `123456:` in ticks.
fn stamp(text: &str) -> Option<Stamp> {
    let text = text.strip_suffix(':')?;
    let ticks = all_digits(text);
    Some(Stamp {
        value: decimal(text, if ticks { 0 } else { 9 })?,
        ticks,
    })
}

/// Parses `411.342 us`, after an optional mark of slow calls.
fn duration(text: &str) -> Option<u64> {
    let text = text.trim_start_matches(['+', '!', '#', '*', '@', '$']);
    let (number, unit) = text.trim_start().split_once(' ')?;
    let digits = match unit.trim() {
        "ns" => 0,
        "us" => 3,
        "ms" => 6,
        "s" | "sec" => 9,
        _ => return None,
    };
    decimal(number, digits)
}

/// Parses a decimal number, times 10 to the power of `digits`. Further digits are dropped.
fn decimal(text: &str, digits: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let used = &fraction[..fraction.len().min(digits as usize)];
    let missing = digits - used.len() as u32;
    let fraction = match used {
        "" => 0,
        used => used.parse::<u64>().ok()? * 10_u64.pow(missing),
    };
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(10_u64.pow(digits))?
        .checked_add(fraction)
}
