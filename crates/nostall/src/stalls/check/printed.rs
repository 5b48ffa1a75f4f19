//! The messages that the kernel prints on its consoles.

use super::system::System;

/// Which messages the kernel prints.
pub struct Printed {
    /// Messages of a lower level are printed.
    below: Option<u64>,
    /// Whether `ignore_loglevel` prints all of them.
    all: bool,
}

impl Printed {
    pub fn of(system: &System) -> Self {
        let levels = system.read("proc/sys/kernel/printk", "which messages are printed");
        let first = levels
            .as_ref()
            .and_then(|text| text.split_whitespace().next());
        let all = "sys/module/printk/parameters/ignore_loglevel";
        let all = system.read(all, "whether all messages are printed");
        Self {
            below: first.and_then(|level| level.parse().ok()),
            all: all.as_deref() == Some("Y"),
        }
    }

    /// Whether more is printed than `quiet` leaves.
    pub fn are_many(&self) -> bool {
        self.all || self.below.is_some_and(|level| level > 4)
    }

    /// Returns the sentence about the messages that the consoles get.
    pub fn sentence(&self) -> String {
        match self.below {
            _ if self.all => "All messages are printed (ignore_loglevel).".to_owned(),
            Some(0) => "No message is printed (loglevel 0).".to_owned(),
            Some(level @ 1..=7) => {
                format!("Messages of the levels 0 to {} are printed.", level - 1)
            }
            Some(_) => "All messages are printed.".to_owned(),
            None => "Which messages are printed is not known.".to_owned(),
        }
    }
}
