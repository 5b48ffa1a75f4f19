//! The experiments and other work of a list: one module and one entry per kind.

mod console;
mod cost;
mod example;
mod log_cost;
mod pci;
pub mod pstore;
mod script;
mod second_task;
#[cfg(target_arch = "riscv64")]
mod spi;
mod system_console;
pub mod trace;
mod uart;

use nostall_work::{BusCheck, Example, Item, Job, WorkList};

use crate::{arch, fail, report};
use second_task::SecondTask;
use uart::UartUnderTest;

/// Runs an item of the list. Returns `false` for an item of another kind.
type Run<'a> = &'a mut dyn FnMut(Item<'_>, u16) -> bool;

/// Runs the whole list `repeat` times, and calls `ready` before it begins.
///
/// The access method for configuration space is chosen before `ready`. If the list begins with a
/// sending, its console is also opened before. Thus the VM exits between reports belong to the work
/// alone.
pub fn run(
    list: &WorkList<'_>,
    input: &'static [u8],
    clock: &arch::MachineClock,
    ready: impl FnOnce(),
) {
    let cpus = list.cpus;
    let second = SecondTask::new(clock);
    let first = list.iter().next();
    let sends_first = first.is_some_and(|work| work.kind() == nostall_work::uart::Job::NAME);
    let mut port = sends_first.then(|| UartUnderTest::open(&second));
    let windows = list
        .iter()
        .any(|work| work.kind() == nostall_work::pci::Job::NAME)
        .then(pci::Windows::find);
    let methods = windows.as_ref().map(pci::Windows::methods);
    let machine = methods.as_ref().map(|methods| methods.choose(clock));
    // One entry for each kind of work.
    let kinds: &mut [Run<'_>] = &mut [
        &mut kind(|job, item| {
            let port = port.get_or_insert_with(|| UartUnderTest::open(&second));
            report::tell(item, port.send(job, input, || second.granted()));
        }),
        &mut kind(|job, item| pstore::PstoreCrew { cpus, clock }.run(job, item)),
        &mut kind(|job, item| {
            let machine = machine.as_ref().expect("chosen, for there is work");
            machine.run(job, item);
        }),
        #[cfg(target_arch = "riscv64")]
        &mut kind(|job, item| {
            let timer = list.timer;
            spi::SpiJobs { cpus, timer, clock }.run(job, item);
        }),
        &mut kind(|job, item| console::run(job, item, cpus, input, clock)),
        &mut kind(|job, item| {
            let second = &second;
            trace::TraceJobs {
                cpus,
                clock,
                second,
            }
            .run(job, item);
        }),
        &mut kind(|nostall_work::script::Job, item| script::run(input, item, &second)),
        &mut kind(|BusCheck, _| arch::bus_check::run()),
        &mut kind(|example, item| match example {
            Example::Console => example::run(),
            Example::SystemConsole => system_console::run(clock),
            Example::ConsoleCost => report::tell(item, cost::measure(clock)),
            Example::LogCost => report::tell(item, log_cost::measure()),
        }),
        &mut kind(|failure, _| fail::now(failure, cpus, clock)),
    ];
    ready();
    for _ in 0..list.repeat {
        for (item, work) in (0..).zip(list.iter()) {
            let is_done = kinds.iter_mut().any(|run| run(work, item));
            assert!(is_done, "no way to do `{}`", work.kind());
        }
    }
}

/// Returns the runner of one kind of work, which returns `false` for all other kinds.
fn kind<J: Job>(mut run: impl FnMut(J, u16)) -> impl FnMut(Item<'_>, u16) -> bool {
    move |work, item| work.job().map(|job| run(job, item)).is_some()
}
