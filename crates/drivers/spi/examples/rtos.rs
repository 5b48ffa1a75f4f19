//! An own RTOS or kernel: the bus needs one small trait of it. In this example, parking a thread
//! represents its calls.
//!
//!     cargo run -p nostall-spi --features std --example rtos

use std::task::Waker;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{cell::OnceCell, sync::OnceLock};

use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bus, Platform, Settings, Transfer, WakeTask, task_waker};

/// A task's control block, in a static.
struct Task(OnceLock<Thread>);

impl WakeTask for Task {
    fn wake(&'static self) {
        // For example xTaskNotifyGive or k_wakeup.
        self.0.get().map(Thread::unpark);
    }
}

struct Rtos(Instant);

impl Clock for Rtos {
    fn now(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
}

thread_local! {
    static OWN: OnceCell<&'static Task> = const { OnceCell::new() };
}

impl Platform for Rtos {
    fn current(&self) -> Option<Waker> {
        // Returns `None` in an interrupt handler, which must not wait.
        let make = || &*Box::leak(Box::new(Task(thread::current().into())));
        Some(task_waker(OWN.with(|own| *own.get_or_init(make))))
    }
    fn block(&self, until: Nanos) {
        // A notification with a time-out. A wake-up that comes first must not be lost.
        thread::park_timeout(Duration::from_nanos((until - self.now()).0));
    }
    // With a worker task, `poll_at` makes it call `Bus::poll` at the earliest of these times.
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bus = Bus::new(Loopback, Rtos(Instant::now()));
    let device = bus.device(Settings::new(1_000_000, 0))?;
    thread::scope(|scope| {
        let other = scope.spawn(|| (0..1000).try_for_each(|_| device.write(&[1, 2, 3])));
        for _ in 0..1000 {
            device.submit(&mut [Transfer::write(&[4])])?.wait()?;
        }
        other.join().expect("no panic")
    })?;
    println!("{:?}", bus.statistics());
    Ok(())
}
