//! Waits without a verdict on time: only a hang ends them.

use std::thread::sleep;
use std::time::Duration;

/// Pauses of a wait. All together are more than four minutes.
const PAUSES: usize = 50_000;

/// Pauses until `is_over` returns true. Returns false if a hang has lasted minutes.
pub fn pause_until(mut is_over: impl FnMut() -> bool) -> bool {
    (0..PAUSES).any(|_| {
        let over = is_over();
        if !over {
            sleep(Duration::from_millis(5));
        }
        over
    })
}
