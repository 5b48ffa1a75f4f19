//! Selection of recorded functions.

use core::ops::Range;

/// Selection of recorded functions, and functions that control the recording.
///
/// [`Recorder::set_filter`](crate::Recorder::set_filter) replaces it at run time. The default
/// records everything.
#[derive(Clone, Debug)]
pub struct Filter<'a> {
    /// Modules whose [sites](crate::Site) are recorded, including nested modules. Without any
    /// module or name, all sites are recorded.
    pub modules: &'a [&'a str],
    /// Names of recorded sites in any module: the full name, or its end after any `::`.
    pub names: &'a [&'a str],
    /// Address ranges of recorded functions. Without any range, all addresses are recorded.
    pub ranges: &'a [Range<u64>],
    /// Functions at this depth and deeper are not recorded. The outermost recorded function has
    /// depth 0. Functions that the filter rejects do not count.
    pub max_depth: u64,
    /// Minimum duration of recorded calls in ticks. If it is not 0, a call is recorded once, at its
    /// exit, without its argument; a call that does not return is missing.
    pub min_ticks: u64,
    /// Functions that control the recording when they are entered, even if the filter rejects their
    /// records.
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

/// A function that controls the recording.
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
    /// Name of a site in any module: the full name, or its end after any `::`.
    Name(&'a str),
    /// Address that is passed to [`enter`](crate::Recorder::enter).
    Address(u64),
}

/// Effect of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// Ends a pause with this function's entry. It has no effect on a recorder that was stopped or
    /// frozen.
    Start = 1,
    /// Pauses the recording after this function's entry, as
    /// [`Recorder::pause`](crate::Recorder::pause) does.
    Stop = 2,
    /// Freezes the recording after this function's entry, as
    /// [`Recorder::freeze`](crate::Recorder::freeze) does.
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
        all || self.names.iter().any(|it| is_named(name, it))
            || self.modules.iter().any(|it| is_in(module, it))
    }

    /// Returns whether the function at an address is recorded.
    pub(crate) fn wants_address(&self, address: u64) -> bool {
        self.ranges.is_empty() || self.ranges.iter().any(|range| range.contains(&address))
    }

    /// Returns the effect of a function's entry.
    pub(crate) fn action(&self, function: Function<'_>) -> Option<Action> {
        let mut triggers = self.triggers.iter();
        let trigger = triggers.find(|trigger| match (function, trigger.function) {
            (Function::Name(name), Function::Name(wanted)) => is_named(name, wanted),
            (function, wanted) => function == wanted,
        })?;
        Some(trigger.action)
    }
}

/// Returns whether `name` equals `wanted` or ends with `::wanted`.
fn is_named(name: &str, wanted: &str) -> bool {
    let before = name.strip_suffix(wanted);
    before.is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// Returns whether `module` is `outer` or in it.
fn is_in(module: &str, outer: &str) -> bool {
    let rest = module.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
