//! Threads of an operating system share a bus; its worker sees to what was submitted,
//! and puts the hardware to sleep.
//!
//!     cargo run -p nostall-spi --features std --example threads

use std::thread;

use nostall_spi::controllers::Loopback;
use nostall_spi::{Bus, Config, Part, Select, Settings, Threads, Transfer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In place of Loopback: controllers::Spidev, or your own. A place in the queue for
    // each thread that may want the bus at once.
    let bus: Bus<_, _, 8, 64> = Bus::new(Loopback, Threads::new(), Config::DEFAULT);
    let sensor = bus.device(Settings::new(1_000_000, Select::line(0)))?;
    let display = bus.device(Settings::new(20_000_000, Select::line(1)))?;

    thread::scope(|scope| {
        let worker = scope.spawn(|| Threads::serve(&bus));
        let reads = scope.spawn(|| {
            let mut sample = [0; 3];
            for _ in 0..1000 {
                // On an idle bus it runs here, in this thread.
                sensor.sync(&mut [Transfer::write(&[0xe8]), Transfer::read(&mut sample)])?;
            }
            Ok::<_, nostall_spi::Error>(sample)
        });
        let draws = scope.spawn(|| {
            for line in 0..100 {
                // Goes on at once; somebody runs it soon.
                let mut shown = display.submit(&[Part::write(&[line; 32])])?;
                shown.wait()?;
            }
            Ok::<_, nostall_spi::Error>(())
        });
        let results = (reads.join(), draws.join());
        bus.platform().stop();
        worker.join().ok();
        println!("{results:?}");
    });
    println!("{:?}", bus.statistics());
    Ok(())
}
