//! A bar on the terminal, nothing elsewhere.

use std::cell::Cell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use nostall_postmortem::cli::output::is_quiet;

thread_local! {
    static IS_HIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without progress bars of its own.
pub fn hidden<T>(work: impl FnOnce() -> T) -> T {
    IS_HIDDEN.set(true);
    let result = work();
    IS_HIDDEN.set(false);
    result
}

fn show(bar: ProgressBar) -> ProgressBar {
    match IS_HIDDEN.get() || is_quiet() {
        true => ProgressBar::hidden(),
        false => bar,
    }
}

/// A bar for `bytes` bytes to come. It is drawn only if stderr is a terminal, and
/// cleared when dropped.
pub struct Bar(ProgressBar);

impl Bar {
    pub fn new(bytes: u64) -> Self {
        let bar = show(ProgressBar::new(bytes));
        // The bar takes the rest of the terminal's width: a line that wraps is not cleared.
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
        let spinner = show(ProgressBar::new_spinner()).with_message(with);
        spinner.enable_steady_tick(Duration::from_millis(100));
        Self(spinner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
