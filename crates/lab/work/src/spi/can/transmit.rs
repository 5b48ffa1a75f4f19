//! The task that sends CAN frames.

use core::sync::atomic::Ordering;

use nostall_io::Nanos;
use nostall_spi::{Controller, Error, Platform};

use super::chip::{LOAD_TX0, RTS_TX0};
use super::pump::Chip;
use super::receive::TaskProgress;
use super::wired::to_send;

/// Number of received frames for each sent frame.
pub(super) const EVERY: u32 = 10;

/// Interval between checks for new frames.
const NAP: Nanos = Nanos::from_millis(1);

/// Submits a frame for every tenth received frame, until no more are received. Returns the number
/// of submitted frames.
pub(super) fn transmit<C: Controller, P: Platform>(
    chip: &Chip<'_, C, P>,
    platform: &P,
    shared: &TaskProgress,
) -> Result<u32, Error> {
    let mut number = 0;
    let mut before = None;
    loop {
        let ended = shared.ended.load(Ordering::Acquire);
        let due = shared.received.load(Ordering::Acquire) / EVERY;
        while number < due {
            // There is only one buffer: its frame is sent first.
            if let Some((load, request)) = before.take() {
                finish(load)?;
                finish(request)?;
            }
            let mut load = [LOAD_TX0; 14];
            load[1..].copy_from_slice(&to_send(number).to_transmit());
            let load = chip.submit(&load)?;
            let request = chip.submit(&[RTS_TX0])?;
            before = Some((load, request));
            number += 1;
        }
        if ended {
            if let Some((load, request)) = before {
                finish(load)?;
                finish(request)?;
            }
            return Ok(number);
        }
        platform.block(platform.now() + NAP);
    }
}

fn finish<C: Controller, P: Platform>(
    mut pending: nostall_spi::Pending<'_, C, P>,
) -> Result<(), Error> {
    pending.wait()
}
