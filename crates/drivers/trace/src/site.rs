//! Named places in a program: functions, scopes, counters, conditions.

use crate::filter::Action;
use crate::wide::Wide;

/// Name of a function, scope, counter, mark or condition, in a `static`.
///
/// It caches its number in the current region and the filter's decision on it.
#[derive(Debug)]
pub struct Site {
    name: &'static str,
    module: &'static str,
    /// Generation in the high half. The low half has 2 bits of action, 1 bit that is set if the
    /// site is recorded, and the name's number.
    cache: Wide,
}

/// Decision about a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub number: u32,
    pub wanted: bool,
    pub action: Option<Action>,
}

impl Site {
    /// Creates a site with this name in this module.
    pub const fn new(name: &'static str, module: &'static str) -> Self {
        Self {
            name,
            module,
            cache: Wide::new(0),
        }
    }

    /// Returns the name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the path of the module.
    pub const fn module(&self) -> &'static str {
        self.module
    }

    /// Returns the decision for this generation. If it is not cached, `decide` makes it.
    #[inline]
    pub(crate) fn decision(&self, generation: u32, decide: impl FnOnce() -> Decision) -> Decision {
        let cached = self.cache.load();
        if cached >> 32 == u64::from(generation) {
            return Decision {
                number: cached as u32 & NUMBER,
                wanted: cached & WANTED != 0,
                action: Action::decode(cached >> 30 & 3),
            };
        }
        let decision = decide();
        let action = decision.action.map_or(0, |action| action as u64);
        let wanted = if decision.wanted { WANTED } else { 0 };
        let low = action << 30 | wanted | u64::from(decision.number & NUMBER);
        self.cache.store(u64::from(generation) << 32 | low);
        decision
    }
}

const WANTED: u64 = 1 << 29;
const NUMBER: u32 = (1 << 29) - 1;

#[cfg(all(test, target_has_atomic = "64"))]
mod tests {
    extern crate std;
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    /// A CPU stores a record with the number of a name that another CPU added. Miri's weak memory
    /// shows an old word to a reader that is not ordered behind the name.
    #[test]
    fn a_reader_of_a_record_finds_the_name_that_another_cpu_added() {
        let site = Site::new("name", "module");
        let (name, record) = (AtomicU64::new(0), AtomicU64::new(0));
        let adds = || {
            name.store(7, Ordering::Release);
            Decision {
                number: 1,
                wanted: true,
                action: None,
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| site.decision(1, adds));
            scope.spawn(|| {
                while site.cache.load() == 0 {
                    thread::yield_now();
                }
                record.store(1, Ordering::Release);
            });
            while record.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            assert_eq!(name.load(Ordering::Acquire), 7);
        });
    }
}
