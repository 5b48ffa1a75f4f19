//! Parts of a message that are one request to Linux.

use std::ops::Range;
use std::vec::Vec;

use libc::EMSGSIZE;
use nostall_io::Nanos;
use spidev::SpidevTransfer;

use crate::error::Fault;
use crate::settings::{Settings, Wires};
use crate::transfer::{Message, Transfer};

/// Largest number of transfers in a request. Some architectures have 13 bits for the size of the
/// transfers' descriptions (`_IOC_SIZEBITS` in Linux's asm/ioctl.h), of 32 bytes each
/// (linux/spi/spidev.h). With one more transfer, nothing would be sent, without an error.
const MOST_TRANSFERS: usize = (1 << 13) / 32 - 1;

/// Longest delay of a transfer in microseconds: `delay_usecs` has 16 bits.
const LONGEST_DELAY: u64 = u16::MAX as u64;

/// Linux's default delay of `cs_change`: about 10 us (Documentation/spi/spi-summary.rst). spidev
/// has no field for it.
const CS_CHANGE: Nanos = Nanos::from_micros(10);

/// Directions of a transfer for Linux.
pub struct Directions {
    pub sends: bool,
    pub receives: bool,
}

impl Directions {
    pub fn of(transfer: &Transfer<'_>, settings: &Settings) -> Self {
        let receives = transfer.receives() > 0;
        // Without bytes to send, Linux sends zeros.
        let made_up = receives && settings.fill != 0 && settings.wires == Wires::Four;
        Self {
            sends: transfer.sends() > 0 || made_up,
            receives,
        }
    }
}

/// Splits a message into requests, only where the device is deselected for longer than Linux's
/// default.
pub fn requests<M: Message + ?Sized>(message: &mut M) -> Vec<Range<usize>> {
    let transfers = message.transfers();
    let mut long = |&index: &usize| {
        let span = message.transfer(index).and_then(|it| it.options.cs_change);
        span.is_some_and(|span| span > CS_CHANGE)
    };
    let ends = (0..transfers.saturating_sub(1)).filter(&mut long);
    let mut first = 0;
    ends.map(|index| index + 1)
        .chain([transfers])
        .map(|end| std::mem::replace(&mut first, end)..end)
        .filter(|request| !request.is_empty())
        .collect()
}

/// Checks whether Linux can run these transfers as one request. It cannot be checked completely,
/// because Linux does not report its rounding.
pub fn fits<M: Message + ?Sized>(
    bufsiz: usize,
    settings: &Settings,
    message: &mut M,
    request: Range<usize>,
) -> Result<(), (usize, Fault)> {
    let (mut sent, mut received, mut transfers) = (0_usize, 0_usize, 0_u64);
    for index in request {
        let Some(transfer) = message.transfer(index) else {
            break;
        };
        let directions = Directions::of(&transfer, settings);
        if directions.sends {
            sent = sent.saturating_add(transfer.len());
        }
        if directions.receives {
            received = received.saturating_add(transfer.len());
        }
        let micros = micros(transfer.pause_after());
        transfers = transfers.saturating_add(micros.div_ceil(LONGEST_DELAY).max(1));
        if sent > bufsiz || received > bufsiz || transfers > MOST_TRANSFERS as u64 {
            return Err((index, Fault::System(EMSGSIZE)));
        }
    }
    Ok(())
}

/// Appends a transfer, and further transfers of no bytes for a long delay. The line changes after
/// the last one.
pub fn push<'a, 'b>(
    given: &mut Vec<SpidevTransfer<'a, 'b>>,
    mut transfer: SpidevTransfer<'a, 'b>,
    delay: Nanos,
    cs_change: bool,
) {
    let mut left = micros(delay);
    loop {
        let delay = left.min(LONGEST_DELAY);
        left -= delay;
        let (speed_hz, bits_per_word) = (transfer.speed_hz, transfer.bits_per_word);
        transfer.delay_usecs = delay as u16;
        transfer.cs_change = u8::from(cs_change && left == 0);
        given.push(transfer);
        if left == 0 {
            return;
        }
        transfer = SpidevTransfer::delay(0);
        transfer.speed_hz = speed_hz;
        transfer.bits_per_word = bits_per_word;
    }
}

const fn micros(span: Nanos) -> u64 {
    span.0.div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings::new(1_000_000, 0);

    fn delays(delay: Nanos, cs_change: bool) -> Vec<(u16, u8)> {
        let mut given = Vec::new();
        push(&mut given, SpidevTransfer::write(&[1]), delay, cs_change);
        given
            .iter()
            .map(|given| (given.delay_usecs, given.cs_change))
            .collect()
    }

    #[test]
    fn a_delay_is_never_shortened_and_the_line_moves_after_all_of_it() {
        assert_eq!(delays(Nanos(0), true), [(0, 1)]);
        assert_eq!(delays(Nanos(1), false), [(1, 0)]);
        assert_eq!(delays(Nanos::from_micros(65_535), true), [(65_535, 1)]);
        assert_eq!(
            delays(Nanos::from_millis(100), true),
            [(65_535, 0), (34_465, 1)]
        );
        let second = delays(Nanos::from_secs(1), true);
        let sum: u64 = second.iter().map(|&(delay, _)| u64::from(delay)).sum();
        assert_eq!(sum, 1_000_000);
        assert_eq!(second.iter().filter(|&&(_, change)| change == 1).count(), 1);
    }

    #[test]
    fn a_message_is_split_only_where_linux_would_deselect_too_briefly() {
        let short = || Transfer::write(&[1]).cs_change(Nanos::from_micros(10));
        let long = || Transfer::write(&[1]).cs_change(Nanos(10_001));
        let plain = || Transfer::write(&[1]);
        let of = |message: &mut [Transfer<'_>]| -> Vec<_> {
            let requests = requests(message);
            requests.iter().map(|cut| (cut.start, cut.end)).collect()
        };
        assert_eq!(of(&mut []), []);
        assert_eq!(of(&mut [plain()]), [(0, 1)]);
        assert_eq!(of(&mut [short(), plain(), plain()]), [(0, 3)]);
        assert_eq!(of(&mut [long(), plain(), plain()]), [(0, 1), (1, 3)]);
        assert_eq!(
            of(&mut [plain(), long(), long(), plain()]),
            [(0, 2), (2, 3), (3, 4)]
        );
    }

    #[test]
    fn a_message_that_linux_would_refuse_is_refused_with_its_transfer() {
        let fits = |message: &mut [Transfer<'_>]| {
            let all = 0..message.len();
            fits(100, &SETTINGS, message, all)
        };
        let refused = |index| Err((index, Fault::System(EMSGSIZE)));
        let mut into = [0; 60];
        // Each direction has its own limit.
        let [bytes, more] = [[0; 60]; 2];
        assert_eq!(
            fits(&mut [Transfer::write(&bytes), Transfer::read(&mut into)]),
            Ok(())
        );
        assert_eq!(
            fits(&mut [Transfer::write(&bytes), Transfer::write(&more)]),
            refused(1)
        );
        let mut many: Vec<_> = (0..255).map(|_| Transfer::write(&[])).collect();
        assert_eq!(fits(&mut many), Ok(()));
        many[0] = Transfer::pause(Nanos::from_millis(66));
        assert_eq!(fits(&mut many), refused(254));
        assert_eq!(fits(&mut [Transfer::pause(Nanos(u64::MAX))]), refused(0));
    }

    #[test]
    fn nothing_is_given_to_send_for_zeros_or_on_a_shared_data_wire() {
        let directions = |settings: &Settings, read: usize, write: usize| {
            let (sent, mut received) = (vec![0; write], vec![0; read]);
            let transfer = Transfer::transfer(&sent, &mut received);
            let directions = Directions::of(&transfer, settings);
            (directions.sends, directions.receives)
        };
        let filled = Settings {
            fill: 0xff,
            ..SETTINGS
        };
        let three = Settings {
            wires: Wires::Three,
            ..filled
        };
        assert_eq!(directions(&SETTINGS, 4, 0), (false, true));
        assert_eq!(directions(&filled, 4, 0), (true, true));
        assert_eq!(directions(&three, 4, 0), (false, true));
        assert_eq!(directions(&filled, 0, 4), (true, false));
        assert_eq!(directions(&SETTINGS, 4, 1), (true, true));
        assert_eq!(directions(&filled, 0, 0), (false, false));
    }
}
