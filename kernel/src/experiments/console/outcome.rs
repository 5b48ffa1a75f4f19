//! Results of the flood, reported after its end.

use core::sync::atomic::Ordering;

use nostall_io::Nanos;
use nostall_work::console::{Delays, Fired, JobResult, Times, What};

use super::state::{Port, STATE};
use crate::report;

/// Results of a finished flood.
pub struct Flooded<'a> {
    pub item: u16,
    pub cpus: u16,
    pub start: Nanos,
    pub end: Nanos,
    pub lost: u64,
    pub port: &'a Port,
    pub panic: Option<Nanos>,
}

/// Reports all results.
pub fn tell(flooded: &Flooded<'_>) {
    let item = flooded.item;
    let tell = |result: JobResult| report::tell(item, result);
    tell(JobResult::Flood {
        start: flooded.start.0,
        end: flooded.end.0,
        lost: flooded.lost,
        overrun: flooded.port.overrun(),
        panic: flooded.panic.map(|at| at.0),
    });
    let cpus = STATE.cpus.iter().zip(&STATE.times).enumerate();
    for (cpu, (flood, times)) in cpus.take(flooded.cpus.into()) {
        tell(JobResult::Cpu {
            cpu: cpu as u16,
            given_away: times.given_away.load(Ordering::Relaxed),
            ticks: flood.ticks(),
            missed: flood.missed(),
        });
    }
    STATE.holds().for_each(|held| tell(JobResult::Held(held)));
    STATE.each_fired(|cpu, Fired { at, what, cascaded }| {
        let (lockup, lasts) = match what {
            What::SoftLockup(stuck) => (true, stuck),
            What::Stall(lasts) => (false, lasts),
        };
        tell(JobResult::Fired {
            cpu: cpu as u16,
            at: at.0,
            lasts: lasts.0,
            lockup,
            cascaded,
        });
    });
    let delays = STATE
        .delays
        .iter()
        .map(|delay| delay.load(Ordering::Relaxed));
    let logged = delays.filter(|&delay| delay != u64::MAX);
    batches(logged, |batch| {
        tell(JobResult::Delays(Delays::clone(batch)))
    });
    let arrivals = flooded.port.arrivals();
    batches(arrivals, |batch| {
        tell(JobResult::Arrived(Times::clone(batch)))
    });
}

fn batches<T: Clone, const N: usize>(
    values: impl Iterator<Item = T>,
    tell: impl Fn(&heapless::Vec<T, N>),
) {
    let mut batch = heapless::Vec::<T, N>::new();
    for value in values {
        if batch.is_full() {
            tell(&batch);
            batch.clear();
        }
        let _ = batch.push(value); // there is room now
    }
    if !batch.is_empty() {
        tell(&batch);
    }
}
