//! A bar on the terminal, nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for `bytes` bytes to come. Not drawn unless stderr is a terminal; gone
/// when dropped.
pub struct Bar(ProgressBar);

impl Bar {
    pub fn new(bytes: u64) -> Self {
        let bar = ProgressBar::new(bytes);
        // As wide as the terminal leaves room for: a line that wraps is not cleared.
        let style = ProgressStyle::with_template("{wide_bar} {bytes} of {total_bytes} arrived");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.tick();
        Self(bar)
    }

    pub fn at(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A word on the terminal while something is done whose end cannot be foreseen.
pub struct Busy(ProgressBar);

impl Busy {
    pub fn new(with: &'static str) -> Self {
        let spinner = ProgressBar::new_spinner().with_message(with);
        spinner.enable_steady_tick(Duration::from_millis(100));
        Self(spinner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
