//! Whether it is as it should be.

use nostall_work::spi::{SpiMeasured as Busy, Strategy};

use super::measured::Measured;
use super::text::Named;
use crate::escape::{escape, escape_name};
use crate::grouped::grouped;

impl Measured {
    pub(super) fn success(&self) -> String {
        let files = match self.card.entries.iter().filter(|e| !e.directory).count() {
            0 => "There is no file on the card".to_owned(),
            1 => "The card's one file is as the host reads it".to_owned(),
            n => format!(
                "All {} files of the card are as the host reads them",
                grouped(n)
            ),
        };
        let times = |strategy| self.busy(strategy).map_or(0, |busy| busy.wakeups);
        let caller = match times(Strategy::Caller) {
            1 => "once, after the bus had been idle for a second".to_owned(),
            // On a machine that had other things to do meanwhile.
            n => format!("{n} times, each after the bus had been idle for a second"),
        };
        format!(
            "The sector was erased and holds what was written, which is not what was there;\n\
             nothing else in the flash has changed.\n\
             {files}.\n\
             By each strategy every frame has arrived as it was sent, and in its order. By\n\
             caller the worker has run no message, and was woken\n\
             {caller}; by pump {} times.",
            grouped(times(Strategy::Pump))
        )
    }

    /// What is not as it should be; empty if all is.
    pub(super) fn faults(&self) -> Vec<String> {
        let told = self
            .outcome
            .faults
            .iter()
            .map(|(_, what)| escape(what.as_bytes()));
        let mut faults: Vec<_> = told.map(std::borrow::Cow::into_owned).collect();
        // What was not told because of that is not worth a line of its own.
        let went_well = |job: &str| !faults.iter().any(|fault| fault.starts_with(job));
        let (flash, card) = (
            went_well("flash") && went_well("no flash"),
            went_well("card"),
        );
        if flash {
            faults.extend(self.flash_faults());
        }
        if card {
            faults.extend(self.card_faults());
        }
        for strategy in Strategy::ALL {
            match self.busy(strategy) {
                Some(busy) => faults.extend(
                    busy_faults(busy, self.frames)
                        .into_iter()
                        .map(|what| format!("{strategy}: {what}")),
                ),
                None => faults.push(format!("{strategy}: nothing was measured")),
            }
        }
        faults
    }

    fn flash_faults(&self) -> Vec<String> {
        let (Some(sector), Some(inside)) = (&self.outcome.sector, &self.outcome.in_flash) else {
            return vec!["flash: nothing was told of its sector".to_owned()];
        };
        let all = [
            (
                sector.before == sector.pattern,
                "the pattern was there before",
            ),
            (sector.not_erased > 0, "the sector was not erased"),
            (
                sector.after != sector.pattern,
                "what was read is not what was written",
            ),
            (
                !sector.neighbours_kept,
                "what is beside the sector has changed",
            ),
            (
                sector.before != inside.before,
                "what was found is not what was in it",
            ),
            (
                sector.after != inside.after,
                "what was read is not what is in it",
            ),
            (!inside.rest_kept, "more than the sector has changed"),
        ];
        let wrong = all.into_iter().filter(|(wrong, _)| *wrong);
        wrong.map(|(_, what)| format!("flash: {what}")).collect()
    }

    fn card_faults(&self) -> Vec<String> {
        let (ours, hosts) = (&self.outcome.entries, &self.card.entries);
        if self.outcome.read.is_none() {
            return vec!["card: it was not read to its end".to_owned()];
        }
        if ours.len() != hosts.len() {
            return vec![format!(
                "card: {} entries in its root directory, and {} by the host",
                ours.len(),
                hosts.len()
            )];
        }
        let different = (0..ours.len()).filter(|number| !self.is_equal(*number));
        let different = different.map(|number| {
            let name = escape_name(ours[number].name());
            format!("card: {name} is not as the host reads it")
        });
        different.collect()
    }
}

fn busy_faults(busy: &Busy, frames: u32) -> Vec<String> {
    let sent = u64::from(frames / 10);
    let sync = u64::from(frames) * 3 + 4;
    let mut faults = Vec::new();
    let mut expect = |what: &str, is: u64, should: u64| {
        if is != should {
            faults.push(format!(
                "{what}: {} and not {}",
                grouped(is),
                grouped(should)
            ));
        }
    };
    expect("frames received", busy.received.into(), frames.into());
    expect("frames that were wrong", busy.wrong.into(), 0);
    expect("frames lost", busy.overflows.into(), 0);
    expect("frames submitted", busy.submitted.into(), sent);
    expect("frames sent", busy.sent.into(), sent);
    expect("synchronous messages", busy.sync, sync);
    expect("messages submitted", busy.asynchronous, 2 * sent);
    expect("messages", busy.messages, sync + 2 * sent);
    expect("messages that failed", busy.errors, 0);
    if busy.strategy == Strategy::Caller {
        // Where no frame came for a second, it may have been woken for that too.
        let least = busy.preparations.min(u64::from(busy.pauses) + 1).max(1);
        expect("messages run by the worker", busy.by_worker, 0);
        expect("times the worker was woken", busy.wakeups, least);
        let meanwhile = busy.wakeups_meanwhile.max(least - 1);
        expect(
            "times it was woken before the bus was idle",
            meanwhile,
            least - 1,
        );
        expect("times the hardware was woken", busy.preparations, least);
    }
    expect(
        "times the hardware was put to sleep",
        busy.teardowns,
        busy.preparations,
    );
    faults
}
