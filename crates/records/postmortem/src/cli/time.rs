//! Times as text.

use std::fmt;

/// A UTC time: seconds since 1970, and microseconds. Shown as `2026-11-21 03:20:11.000042 UTC`.
pub struct Utc(pub i64, pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seconds, micros) = *self;
        // A header has any number of microseconds.
        let seconds = seconds.saturating_add_unsigned(micros / 1_000_000);
        let micros = micros % 1_000_000;
        let (day, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date(day);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06} UTC"
        )
    }
}

/// Returns year, month and day for a day since 1970. Eras have 400 years that start in March, so
/// that a leap day is the last day of a year.
fn date(day: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let day = day + 719_468;
    let (era, day) = (day.div_euclid(ERA), day.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_match_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00.000007 UTC"),
            (951_782_400, "2000-02-29 00:00:00.000007 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59.000007 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00.000007 UTC"),
            (-1, "1969-12-31 23:59:59.000007 UTC"),
        ] {
            assert_eq!(Utc(seconds, 7).to_string(), text);
        }
        assert_eq!(
            Utc(1, 999_999_999).to_string(),
            "1970-01-01 00:16:40.999999 UTC"
        );
        for seconds in [i64::MIN, i64::MAX] {
            assert!(!Utc(seconds, u64::MAX).to_string().is_empty());
        }
    }
}
