//! An RTOS or a kernel of your own: what the bus needs of it is one small trait. Here
//! a thread's parking stands for its calls.
//!
//!     cargo run -p nostall-spi --example rtos

use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bus, Config, HasWorker, Part, Platform, Select, Settings};

struct Rtos {
    boot: Instant,
    worker: OnceLock<Thread>,
}

impl Clock for Rtos {
    fn now(&self) -> Nanos {
        Nanos(self.boot.elapsed().as_nanos() as u64)
    }
    fn sleep_until(&self, deadline: Nanos) {
        // vTaskDelayUntil, k_sleep, ...
        thread::sleep(Duration::from_nanos((deadline - self.now()).0));
    }
}

impl Platform for Rtos {
    type Task = Thread;

    fn current(&self) -> Option<Thread> {
        // None in an interrupt handler: nothing there may wait.
        Some(thread::current())
    }
    fn block(&self, until: Nanos) {
        // A task notification, or a semaphore of the task's own, with a time-out: a
        // wake that comes first must not be lost.
        thread::park_timeout(Duration::from_nanos((until - self.now()).0));
    }
    fn wake(&self, task: &Thread) {
        task.unpark();
    }
    fn has_worker(&self) -> HasWorker {
        match self.worker.get() {
            Some(_) => HasWorker::Yes,
            None => HasWorker::No,
        }
    }
    fn wake_worker(&self) {
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }
    // And `set_timer`: a software timer that calls `Bus::on_timer`, so that the
    // hardware is put to sleep when the bus has been idle for a while.
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rtos = Rtos {
        boot: Instant::now(),
        worker: OnceLock::new(),
    };
    let bus: Bus<_, _, 8, 64> = Bus::new(Loopback, rtos, Config::DEFAULT);
    let device = bus.device(Settings::new(1_000_000, Select::line(0)))?;
    thread::scope(|scope| {
        // The worker's task: of a low priority, woken only for what was submitted to
        // an idle bus, or was more than a caller does for others.
        let worker = scope.spawn(|| {
            thread::park();
            bus.work();
        });
        bus.platform().worker.set(worker.thread().clone()).ok();
        let pending = device.submit(&[Part::exchange(&[1, 2, 3])]);
        println!("{:?}", pending.map(|mut pending| pending.wait()));
    });
    println!("{:?}", bus.statistics());
    Ok(())
}
