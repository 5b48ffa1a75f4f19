//! Values and names for readers of a page.

use nostall_figures::figure::Goal;
use nostall_figures::numbers::grouped;
use nostall_figures::table::time;

/// Returns the value of a figure with its unit.
pub fn value(value: f64, unit: &str) -> String {
    match unit {
        _ if !value.is_finite() => "-".to_owned(),
        "ns" if (0.0..1e18).contains(&value) => time(value),
        "ns/B" if (0.0..1e18).contains(&value) => format!("{}/B", time(value)),
        "1" | "1/B" | "" => number(value),
        unit => format!("{} {unit}", number(value)),
    }
}

/// At most four decimals, and never more than a cell holds.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e15 || (size > 0.0 && size < 1e-4) => format!("{value:.3e}"),
        size if value >= 0.0 && size.fract() == 0.0 => grouped(value as u64),
        size if value >= 0.0 && size >= 1_000.0 => grouped(value.round() as u64),
        size if size >= 10.0 => decimals(value, 2),
        _ => decimals(value, 4),
    }
}

fn decimals(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the words for the machine of a figure.
pub fn place(on: &str) -> &str {
    match on {
        "qemu" => "QEMU",
        "kvm" => "KVM",
        "host-threads" => "threads of the host",
        on => on,
    }
}

/// Returns the words for the bound of a figure.
pub fn goal(goal: Goal, unit: &str) -> String {
    let bound = value(goal.bound(), unit);
    match goal {
        Goal::AtLeast(_) => format!("at least {bound}"),
        Goal::AtMost(_) => format!("at most {bound}"),
        Goal::Exactly(_) => format!("exactly {bound}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_has_a_short_form() {
        for (number, unit, text) in [
            (28_900.0, "ns", "28.9 us"),
            (-1.0, "ns", "-1 ns"),
            (1e300, "ns", "1.000e300 ns"),
            (1.7e3, "ns/B", "1.70 us/B"),
            (0.0625, "1/B", "0.0625"),
            (0.000_01, "1", "1.000e-5"),
            (0.0, "1", "0"),
            (46_913.0, "1", "46,913"),
            (1_234.5, "1/s", "1,235 1/s"),
            (100.0, "%", "100 %"),
            (f64::NAN, "ns", "-"),
        ] {
            assert_eq!(value(number, unit), text);
        }
    }
}
