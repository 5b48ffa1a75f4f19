//! A source with a progress bar.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use nostall_tracefile::model::{Catalog, Event, Progress, ReadError, Source, TimeUnit};

/// Number of events between two updates of the bar.
const STEP: u32 = 1 << 16;

/// A source with a progress bar on standard error, if that is a terminal.
pub struct Watched {
    source: Box<dyn Source>,
    bar: ProgressBar,
    until_look: u32,
}

impl Watched {
    pub fn new(source: Box<dyn Source>) -> Self {
        let bar = ProgressBar::new(source.progress().total);
        // The bar fills the rest of the line. A longer line would wrap and could not be cleared.
        let style = ProgressStyle::with_template("{wide_bar} {bytes} of {total_bytes}, {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(250));
        Self {
            source,
            bar,
            until_look: STEP,
        }
    }

    /// Removes the bar, before the report is printed.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Source for Watched {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = STEP;
            self.bar.set_position(self.progress().done);
        }
        self.source.next_event()
    }
    fn catalog(&self) -> &Catalog {
        self.source.catalog()
    }
    fn unit(&self) -> TimeUnit {
        self.source.unit()
    }
    fn progress(&self) -> Progress {
        self.source.progress()
    }
    fn notes(&self) -> &[String] {
        self.source.notes()
    }
}
