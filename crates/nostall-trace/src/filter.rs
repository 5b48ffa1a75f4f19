//! Choice of the functions that are recorded.

use core::ops::Range;

/// Functions that are recorded, and functions that control the recording.
///
/// [`Recorder::set_filter`](crate::Recorder::set_filter) replaces it at run time. The default
/// records everything.
#[derive(Clone, Debug)]
pub struct Filter<'a> {
    /// Modules whose [sites](crate::Site) are recorded, with the modules in them. With no module
    /// and no name, all sites are recorded.
    pub modules: &'a [&'a str],
    /// Names of sites that are recorded, in any module.
    pub names: &'a [&'a str],
    /// Addresses of functions that are recorded. With no range, all addresses are recorded.
    pub ranges: &'a [Range<u64>],
    /// Functions at this depth and deeper are not recorded. The outermost has depth 0.
    pub max_depth: u64,
    /// Calls that are shorter, in ticks, are not recorded. With more than 0, a call is recorded
    /// as a whole at its exit, without its argument; a call that does not return is missing.
    pub min_ticks: u64,
    /// Functions that control the recording when they are entered.
    pub triggers: &'a [Trigger<'a>],
}

impl Filter<'_> {
    /// Records everything.
    pub const ALL: Filter<'static> = Filter {
        modules: &[],
        names: &[],
        ranges: &[],
        max_depth: u64::MAX,
        min_ticks: 0,
        triggers: &[],
    };
}

impl Default for Filter<'_> {
    fn default() -> Self {
        Filter::ALL
    }
}

/// Function that controls the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger<'a> {
    /// The function.
    pub function: Function<'a>,
    /// Effect of its entry.
    pub action: Action,
}

/// Name or address of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function<'a> {
    /// Name of a site, in any module.
    Name(&'a str),
    /// Address that is passed to [`enter`](crate::Recorder::enter).
    Address(u64),
}

/// Effect of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// Recording starts with this function, if it was stopped.
    Start = 1,
    /// Recording stops with this function. The function's entry is the last record.
    Stop = 2,
    /// As [`Stop`](Self::Stop), and only [`Recorder::unfreeze`](crate::Recorder::unfreeze)
    /// starts it again.
    Freeze = 3,
}

impl Action {
    pub(crate) const fn decode(bits: u64) -> Option<Self> {
        match bits {
            1 => Some(Self::Start),
            2 => Some(Self::Stop),
            3 => Some(Self::Freeze),
            _ => None,
        }
    }
}

impl Filter<'_> {
    /// Returns whether a site is recorded.
    pub(crate) fn wants_site(&self, name: &str, module: &str) -> bool {
        let all = self.modules.is_empty() && self.names.is_empty();
        all || self.names.contains(&name) || self.modules.iter().any(|it| is_in(module, it))
    }

    /// Returns whether the function at an address is recorded.
    pub(crate) fn wants_address(&self, address: u64) -> bool {
        self.ranges.is_empty() || self.ranges.iter().any(|range| range.contains(&address))
    }

    /// Returns the effect of a function's entry.
    pub(crate) fn action(&self, function: Function<'_>) -> Option<Action> {
        let mut triggers = self.triggers.iter();
        let trigger = triggers.find(|trigger| trigger.function == function)?;
        Some(trigger.action)
    }
}

/// Returns whether `module` is `outer` or in it.
fn is_in(module: &str, outer: &str) -> bool {
    let rest = module.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
