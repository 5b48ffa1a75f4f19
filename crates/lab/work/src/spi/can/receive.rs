//! The task that handles the CAN controller's interrupt.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nostall_io::{Clock, Nanos};
use nostall_spi::{Controller, Error, Platform, Transfer};

use super::chip::{
    ANY_FRAME, BIT_MODIFY, CANCTRL, CANINTE, CANINTF, NORMAL_MODE, READ, RESET, RX0IF, RXB0CTRL,
    RXB0SIDH, TX0IF, WRITE,
};
use super::pump::Chip;
use super::wired::to_receive;

/// Limit for consecutive checks without a frame. The model provides the next frame before each
/// check.
const LOOKS: u32 = 1_000;

/// Shared progress of both tasks.
#[derive(Debug, Default)]
pub(super) struct TaskProgress {
    /// Number of received frames.
    pub(super) received: AtomicU32,
    /// Set when no more frames will be received.
    pub(super) ended: AtomicBool,
}

/// Progress of the receiving task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) received: u32,
    pub(super) wrong: u32,
    pub(super) pauses: u32,
    pub(super) end: Nanos,
}

/// Initialises the CAN controller: no filter, and interrupts for both directions.
pub(super) fn set_up<C: Controller, P: Platform>(chip: &Chip<'_, C, P>) -> Result<(), Error> {
    chip.write(&[RESET])?;
    chip.write(&[WRITE, RXB0CTRL, ANY_FRAME])?;
    chip.write(&[WRITE, CANINTE, RX0IF | TX0IF])?;
    chip.write(&[WRITE, CANCTRL, NORMAL_MODE])
}

/// Receives the given number of frames and checks each.
pub(super) fn receive<C: Controller, P: Platform>(
    chip: &Chip<'_, C, P>,
    clock: &impl Clock,
    frames: u32,
    idle_timeout: Nanos,
    shared: &TaskProgress,
) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut last = clock.now();
    let mut looks = LOOKS;
    for number in 0..frames {
        let flags = loop {
            let mut flags = [0];
            chip.write_then_read(&[READ, CANINTF], &mut flags)?;
            if flags[0] & RX0IF != 0 {
                break flags[0];
            }
            looks = match looks.checked_sub(1) {
                Some(looks) => looks,
                None => {
                    return Ok(Seen {
                        end: clock.now(),
                        ..seen
                    });
                }
            };
        };
        let mut frame = [0; 13];
        let mut transfers = [
            Transfer::write(&[READ, RXB0SIDH]),
            Transfer::read(&mut frame),
        ];
        chip.sync(&mut transfers)?;
        // Clears the flags that were read; flags set later stay.
        chip.write(&[BIT_MODIFY, CANINTF, flags, 0])?;

        let expected = to_receive(number).received();
        let bytes = 5 + to_receive(number).data().len();
        match frame[..bytes] == expected[..bytes] {
            true => seen.received += 1,
            false => seen.wrong += 1,
        }
        shared.received.store(number + 1, Ordering::Release);
        let now = clock.now();
        seen.pauses += u32::from(now - last >= idle_timeout);
        last = now;
    }
    Ok(Seen { end: last, ..seen })
}
