//! The system console, as a kernel uses it.

mod early;
mod feedback;
mod input;
mod interrupts;
mod machine;
mod output;
mod panics;
mod tasks;

use nostall_devices::uart::Profile;

const PC: Profile = Profile::PC_16550A;

/// Returns the number of lines that contain `part`.
fn lines_with(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

/// Returns whether the text has one line for each of `ends`, with that end.
fn lines_end_with(text: &str, ends: &[&str]) -> bool {
    let ends_with = |(line, end): (&str, &&str)| line.ends_with(*end);
    text.lines().count() == ends.len() && text.lines().zip(ends).all(ends_with)
}
