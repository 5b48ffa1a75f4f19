//! The task that sends.

use core::sync::atomic::Ordering;

use nostall_io::Nanos;
use nostall_spi::{Controller, Error, Platform};

use super::chip::{LOAD_TX0, RTS_TX0};
use super::pump::Chip;
use super::receive::TaskProgress;
use super::wired::to_send;

/// One frame is sent for so many that are received.
pub(super) const EVERY: u32 = 10;

/// Interval at which it checks whether it is time.
const NAP: Nanos = Nanos::from_millis(1);

/// Submits a frame for every tenth that is received, until no more come. How many.
pub(super) fn transmit<
    C: Controller,
    P: Platform,
    const W: usize,
    const S: usize,
    const B: usize,
>(
    chip: &Chip<'_, C, P, W, S, B>,
    platform: &P,
    shared: &TaskProgress,
) -> Result<u32, Error> {
    let mut number = 0;
    let mut before = None;
    loop {
        let ended = shared.ended.load(Ordering::Acquire);
        let due = shared.received.load(Ordering::Acquire) / EVERY;
        while number < due {
            // There is one buffer: the frame in it goes out first.
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

fn finish<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>(
    mut pending: nostall_spi::Pending<'_, C, P, W, S, B>,
) -> Result<(), Error> {
    pending.wait()
}
