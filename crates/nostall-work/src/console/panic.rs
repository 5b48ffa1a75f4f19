//! A panic's text, as a kernel prints it.

/// With which it begins.
pub const FIRST_WORDS: &str = "Kernel panic - not syncing: injected in mid-flood";

/// With which it ends.
pub const LAST_WORDS: &str = "---[ end Kernel panic - not syncing: injected in mid-flood ]---";

/// All of it.
pub(super) const TEXT: &str = "\
Kernel panic - not syncing: injected in mid-flood
CPU: 0 PID: 0 Comm: swapper Kdump: loaded Not tainted
Call Trace:
 <NMI>
 panic
 nmi_handle
 exc_nmi
 end_repeat_nmi
 </NMI>
---[ end Kernel panic - not syncing: injected in mid-flood ]---";
