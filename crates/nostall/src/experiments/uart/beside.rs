//! Single writes of some sizes, by our driver and by others'.

use anyhow::Result;
use comfy_table::Table;

use nostall_work::uart::{Driver, Job, Sent, Writes};

use super::run::{Experiment, Outcome, alphabet};
use crate::experiments::table::{aligned, time};
use crate::experiments::verdict::{compare, median};

/// A short message, a line of a log, and what the seeds' test program sent.
const SIZES: [usize; 3] = [16, 80, 2_500];

/// What one driver did with one write of one size.
pub struct Write {
    pub driver: Driver,
    pub bytes: usize,
    sent: Vec<Sent>,
    whole: bool,
}

/// Measures them with `run`, which runs one experiment on the machine.
pub fn measure(
    rounds: u16,
    mut run: impl FnMut(&Experiment<'_>) -> Result<Outcome>,
) -> Result<Vec<Write>> {
    let writes = Writes::Whole;
    let jobs: Vec<Job> = Driver::all().map(|driver| Job { driver, writes }).collect();
    let mut all = Vec::new();
    for bytes in SIZES {
        // Without a newline: not every driver knows what to do with one.
        let text = alphabet(bytes);
        let outcome = run(&Experiment {
            jobs: &jobs,
            repeat: rounds,
            text: &text,
        })?;
        for &Job { driver, .. } in &jobs {
            let sendings = outcome.sent.iter().zip(&outcome.arrived);
            let (sent, arrived): (Vec<_>, Vec<_>) = sendings
                .filter(|((job, _), _)| job.driver == driver)
                .map(|((_, sent), arrived)| (*sent, arrived))
                .unzip();
            let whole = |arrived: &&Vec<u8>| compare(&text, arrived).is_none();
            all.push(Write {
                driver,
                bytes,
                sent,
                whole: arrived.iter().all(whole),
            });
        }
    }
    Ok(all)
}

impl Write {
    /// The median for each byte.
    pub fn per_byte(&self, value: impl Fn(&Sent) -> u64) -> f64 {
        median(self.sent.iter().map(value).collect()) as f64 / self.bytes as f64
    }

    /// How many writes it is the median of.
    pub fn rounds(&self) -> usize {
        self.sent.len()
    }

    /// What to say if not every byte arrived.
    pub fn fault(&self) -> Option<String> {
        let (driver, bytes) = (self.driver.name(), self.bytes);
        (!self.whole).then(|| format!("{driver}, one write of {bytes} bytes: not all arrived"))
    }
}

/// The table for people.
pub fn table(writes: &[Write]) -> String {
    let mut table = Table::new();
    let mut header = vec!["one write of".to_owned()];
    header.extend(
        SIZES
            .map(|size| format!("{size} B: bus/B"))
            .into_iter()
            .flat_map(|h| [h, "time/B".to_owned()]),
    );
    table.set_header(header);
    for driver in Driver::all() {
        let mut row = vec![driver.name().to_owned()];
        for write in writes.iter().filter(|write| write.driver == driver) {
            row.push(format!("{:.3}", write.per_byte(|s| s.bus_accesses)));
            row.push(time(write.per_byte(|s| s.ns)));
        }
        table.add_row(row);
    }
    aligned(table, 1)
}
