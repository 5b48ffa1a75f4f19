//! The work.

use nostall_io::{Clock, Counting, Registers};
use nostall_uart::Console;
use nostall_work::{Report, Work, WorkList, uart};

use crate::second::SecondTask;
use crate::{arch, example, fail, pci, pstore, report, script};

/// Does the whole list, as often as it says, and calls `ready` before it begins. If
/// it begins with a sending, the console is open by then, and the ways to configuration
/// space are chosen: whoever counts exits between reports counts the work's alone.
pub fn run(
    list: &WorkList<'_>,
    input: &'static [u8],
    clock: &arch::MachineClock,
    ready: impl FnOnce(),
) {
    let second = SecondTask::new(clock);
    let sends_first = matches!(list.iter().next(), Some(Work::Uart(_)));
    let mut console = sends_first.then(|| open_console(&second));
    let windows = list
        .iter()
        .any(|work| matches!(work, Work::Pci(_)))
        .then(pci::Windows::find);
    let methods = windows.as_ref().map(pci::Windows::methods);
    let machine = methods.as_ref().map(|methods| methods.choose(clock));
    ready();
    for _ in 0..list.repeat {
        for (item, work) in list.iter().enumerate() {
            match work {
                Work::Uart(job) => {
                    let console = console.get_or_insert_with(|| open_console(&second));
                    let sent = uart::send(console, job, input, || second.granted());
                    report::send(&Report::Sent {
                        item: item as u16,
                        sent,
                    });
                }
                Work::Pstore(job) => {
                    let cpus = list.cpus;
                    pstore::Machine { cpus, clock }.run(job, item as u16);
                }
                Work::Pci(job) => {
                    let machine = machine.as_ref().expect("looked at, for there is work");
                    machine.run(job, item as u16);
                }
                #[cfg(target_arch = "riscv64")]
                Work::Spi(job) => {
                    let (cpus, timer) = (list.cpus, list.timer);
                    crate::spi::Machine { cpus, timer, clock }.run(job, item as u16);
                }
                Work::Console(job) => {
                    crate::console::run(job, item as u16, list.cpus, input, clock);
                }
                Work::UartScript => script::run(input, &second),
                Work::BusCheck => arch::bus_check::run(),
                Work::Example => example::run(*clock),
                Work::Fail(failure) => fail::now(failure, list.cpus, clock),
                other => panic!("no way to do `{other}`"),
            }
        }
    }
}

fn open_console<C: Clock>(clock: C) -> Console<Counting<impl Registers>, C> {
    let port = Counting::new(arch::serial_port());
    match Console::open(port, clock, arch::line_settings()) {
        Ok(console) => console,
        Err(error) => panic!("serial port: {error}"),
    }
}
