//! Reports of an SPI job.

use serde::{Deserialize, Serialize};

use super::job::BusStrategy;
use crate::ReportText;

/// SHA-256 digest.
pub type Digest = [u8; 32];

/// Report of an SPI job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JobResult {
    /// Identification of the flash: manufacturer and two bytes of device ID.
    FlashId([u8; 3]),
    /// Result of testing a sector.
    Sector(Sector),
    /// Result of measuring a busy bus.
    Can(SpiMeasured),
    /// Reason why the job failed.
    Fault(ReportText),
}

/// Result of testing a flash's sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sector {
    /// Start address.
    pub address: u32,
    /// Digest of the original contents.
    pub before: Digest,
    /// Number of bytes that were not 0xff after the erase.
    pub not_erased: u32,
    /// Digest of the written pattern.
    pub pattern: Digest,
    /// Digest of the contents read back.
    pub after: Digest,
    /// Whether the pages directly before and behind the sector are unchanged.
    pub neighbours_kept: bool,
    /// Duration of the erase in nanoseconds.
    pub erase_ns: u64,
    /// Duration of the write in nanoseconds.
    pub write_ns: u64,
}

/// Result of measuring a busy bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpiMeasured {
    /// The strategy.
    pub strategy: BusStrategy,
    /// Number of frames received correctly and in order.
    pub received: u32,
    /// Number of frames received wrongly.
    pub wrong: u32,
    /// Number of frames lost in the CAN controller.
    pub overflows: u32,
    /// Number of frames submitted for sending.
    pub submitted: u32,
    /// Number of submitted frames that were sent correctly and in order.
    pub sent: u32,
    /// Number of messages on the bus.
    pub messages: u64,
    /// Number of messages sent with `sync`.
    pub sync: u64,
    /// Number of `sync` messages that their callers ran at once.
    pub sync_immediate: u64,
    /// Number of submitted messages.
    pub asynchronous: u64,
    /// Number of messages that the worker ran.
    pub by_worker: u64,
    /// Number of failed messages.
    pub errors: u64,
    /// Number of worker wake-ups until shortly after the last frame was received.
    pub wakeups_meanwhile: u64,
    /// Number of worker wake-ups until the bus had been idle for long enough.
    pub wakeups: u64,
    /// Number of times that the hardware was woken.
    pub preparations: u64,
    /// Number of times that the hardware was put to sleep.
    pub teardowns: u64,
    /// Number of pauses without a frame that were long enough for the hardware to be put to sleep.
    pub pauses: u32,
    /// Time until the last frame was received, in nanoseconds.
    pub ns: u64,
    /// CPU time of the worker in nanoseconds.
    pub worker_ns: u64,
    /// Context switches of the two tasks and the worker; `None` if the machine does not count them.
    pub switches: Option<u64>,
    /// Interrupts between CPUs; `None` if the machine does not count them.
    pub cross_cpu: Option<u64>,
    /// All interrupts; `None` if the machine does not count them.
    pub interrupts: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{longest_text, result_survives};

    #[test]
    fn every_result_of_spi_fits_its_line() {
        let text = longest_text();
        let (large, digest) = (u64::MAX, [u8::MAX; 32]);
        let measured = SpiMeasured {
            strategy: BusStrategy::Caller,
            received: u32::MAX,
            wrong: u32::MAX,
            overflows: u32::MAX,
            submitted: u32::MAX,
            sent: u32::MAX,
            messages: large,
            sync: large,
            sync_immediate: large,
            asynchronous: large,
            by_worker: large,
            errors: large,
            wakeups_meanwhile: large,
            wakeups: large,
            preparations: large,
            teardowns: large,
            pauses: u32::MAX,
            ns: large,
            worker_ns: large,
            switches: Some(large),
            cross_cpu: Some(large),
            interrupts: None,
        };
        for result in [
            JobResult::FlashId([u8::MAX; 3]),
            JobResult::Sector(Sector {
                address: u32::MAX,
                before: digest,
                not_erased: u32::MAX,
                pattern: digest,
                after: digest,
                neighbours_kept: false,
                erase_ns: large,
                write_ns: large,
            }),
            JobResult::Can(measured),
            JobResult::Fault(text),
        ] {
            result_survives(result);
        }
    }
}
