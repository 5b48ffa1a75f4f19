//! Formatting of numbers in reports.

use crate::model::TimeUnit;

/// Formats a duration with four digits and its unit: `411.3 us`.
pub fn time(value: u64, unit: TimeUnit) -> String {
    match unit {
        TimeUnit::Nanoseconds => scaled(value as f64, &["ns", "us", "ms", "s"]),
        TimeUnit::Ticks => scaled(value as f64, &["", "k", "M", "G", "T"]),
    }
}

/// Formats a number with four digits: `11.52k`.
pub fn count(value: f64) -> String {
    scaled(value, &["", "k", "M", "G", "T"])
}

fn scaled(value: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    while value.abs() >= 999.95 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value.abs() {
        _ if value.fract() == 0.0 && unit == 0 => 0,
        0.0..9.9995 => 3,
        9.9995..99.995 => 2,
        _ => 1,
    };
    let name = units[unit];
    let space = if name.len() > 1 || name == "s" {
        " "
    } else {
        ""
    };
    format!("{value:.decimals$}{space}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_a_unit() {
        let time = |value| time(value, TimeUnit::Nanoseconds);
        assert_eq!(time(0), "0 ns");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(411_342), "411.3 us");
        assert_eq!(time(9_999_999), "10.00 ms");
        assert_eq!(time(1_200_000_000), "1.200 s");
        assert_eq!(time(u64::MAX), "18446744073.7 s");
        assert_eq!(count(11_520.0), "11.52k");
        assert_eq!(count(2.5), "2.500");
    }
}
