//! One bus with an increasing number of devices.

use embedded_hal::spi::SpiDevice;
use nostall_io::Nanos;

use crate::parts::{bare, settings};
use nostall_bench::{Effort, Limit, Table, Unit};

pub fn tables(effort: Effort) {
    let counts = [1_usize, 4, 16, 64];
    let buses: Vec<_> = counts.iter().map(|_| bare()).collect();
    let mut table = Table::new(
        "A message of 4 bytes, to each device in turn",
        Unit::Nanoseconds,
    );
    for (count, bus) in counts.into_iter().zip(&buses) {
        let mut devices: Vec<_> = (0..count)
            .map(|line| bus.device(settings(line as u8)).expect("it can"))
            .collect();
        let limit = (count > 4).then_some(Limit::RatioAtMost(1.1));
        let name = format!("{count} devices");
        table.row(name, limit, move |n| {
            let mut next = 0;
            for _ in 0..n {
                SpiDevice::write(&mut devices[next], &[1, 2, 3, 4]).expect("nothing fails");
                next += 1;
                if next == devices.len() {
                    next = 0;
                }
            }
        });
    }
    table.print(effort);
    println!("\n                messages  teardowns, for this one busy period");
    for (count, bus) in counts.into_iter().zip(&buses) {
        // The main loop finds new traffic in the first call, and none in the second.
        for _ in 0..3 {
            bus.poll();
            bus.platform().0.pass(Nanos::from_secs(10));
        }
        let statistics = bus.statistics();
        println!(
            "  {count:2} devices  {:10}  {}",
            statistics.messages, statistics.teardowns
        );
    }
}
