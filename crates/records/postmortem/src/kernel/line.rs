//! The prefix of a line of Linux's log.

/// Contents of a line's prefix. A missing part is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// Syslog level, 0 to 7.
    pub level: Option<i32>,
    /// Whether a program wrote the record: Linux refuses the kernel's facility to programs.
    pub is_of_program: bool,
    /// Nanoseconds since boot.
    pub time: Option<i64>,
    /// CPU, if the kernel prints it (`CONFIG_PRINTK_CALLER`).
    pub cpu: Option<i32>,
}

/// Splits a line into its prefix and its text: `<6>[    1.234567][    C1] text`.
pub fn prefix(line: &str) -> (Prefix, &str) {
    let mut prefix = Prefix::default();
    let mut rest = line;
    if let Some((level, after)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'))
        && let Ok(number) = level.parse::<u16>()
    {
        prefix.level = Some(i32::from(number & 7));
        prefix.is_of_program = number > 7;
        rest = after;
    }
    if let Some((time, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && let Some(time) = nanoseconds(time.trim())
    {
        prefix.time = Some(time);
        rest = after;
        if let Some((caller, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && let Some((kind @ ("C" | "T"), number)) = caller.trim().split_at_checked(1)
            && let Ok(number) = number.parse()
        {
            prefix.cpu = (kind == "C").then_some(number);
            rest = after;
        }
        rest = rest.strip_prefix(' ').unwrap_or(rest);
    }
    (prefix, rest)
}

/// Returns whether a text starts with the time of a record as the kernel prints it, `[    1.234567] `
/// or `[    1.234567][`, behind a level or none.
pub(super) fn starts_with_time(text: &[u8]) -> bool {
    /// Width of the seconds, at least.
    const WIDTH: usize = 5;
    /// Number of bytes of a level and a time, at most.
    const MOST: usize = 40;

    let text = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
    let level = text.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let text = match level {
        Some((level, rest)) if (1..=3).contains(&level.len()) && is_number(level) => rest,
        _ => &text,
    };
    let time = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    time.is_some_and(|(time, rest)| {
        let digits = time.trim_start_matches(' ');
        let width = digits.find('.').map(|at| at + time.len() - digits.len());
        nanoseconds(digits).is_some()
            && !digits.starts_with('.')
            && (width == Some(WIDTH) || width > Some(WIDTH) && digits == time)
            && rest.starts_with([' ', '['])
    })
}

fn is_number(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn nanoseconds(time: &str) -> Option<i64> {
    let (seconds, micros) = time.split_once('.')?;
    if !is_number(seconds) || micros.len() != 6 || !is_number(micros) {
        return None;
    }
    let seconds = seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    seconds.checked_add(micros.parse::<i64>().ok()? * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_level_time_and_cpu_that_its_kernel_printed() {
        let prefix_of = |level, time, cpu| Prefix {
            level,
            time,
            cpu,
            is_of_program: false,
        };
        for (line, wanted, text) in [
            (
                "<6>[    1.234567] x",
                prefix_of(Some(6), Some(1_234_567_000), None),
                "x",
            ),
            (
                "<12>[    1.000000] x",
                Prefix {
                    is_of_program: true,
                    ..prefix_of(Some(4), Some(1_000_000_000), None)
                },
                "x",
            ),
            (
                "[   99.000001][    C1]  x",
                prefix_of(None, Some(99_000_001_000), Some(1)),
                " x",
            ),
            (
                "[   99.000001][  T812] x",
                prefix_of(None, Some(99_000_001_000), None),
                "x",
            ),
            (
                "[   99.000001] [ab] x",
                prefix_of(None, Some(99_000_001_000), None),
                "[ab] x",
            ),
            ("Panic#1 Part1", Prefix::default(), "Panic#1 Part1"),
            (
                "[99999999999999999999.000000] x",
                Prefix::default(),
                "[99999999999999999999.000000] x",
            ),
            ("<x>[1.0] y", Prefix::default(), "<x>[1.0] y"),
        ] {
            assert_eq!(prefix(line), (wanted, text), "{line}");
        }
    }
}
