//! Console paths on CPUs that sleep: a timer wakes one of them for the remaining records.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use nostall_console::{Level, Meta, Priority, Ring, Slot, UartSink};
use nostall_devices::uart::{Line, Uart};
use nostall_io::{Clock, Nanos, Processor, Registers};
use nostall_uart::registers::THR;
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model, Strategy};
use nostall_work::console::{Bounded, Context, Cpu, Path, PrinterThread, Role};

const NEVER: u64 = u64::MAX;

/// A 16750, whose FIFO of 64 bytes accepts a short line whole.
const MODEL: Model = Model::Uart16750;

const URGENT: &str = "[    0.000000] urgent\r\n";
const LEFT: &str = "[    0.000000] left to you\r\n";

/// A clock that stands still except during waits.
#[derive(Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Clock for Time {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Relaxed))
    }

    fn wait_until(&self, deadline: Nanos) {
        self.0.fetch_max(deadline.0, Relaxed);
    }
}

/// A port whose accesses take no time, and an event during the write of its next byte.
struct Port {
    uart: Mutex<Uart<Time, Vec<u8>>>,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Registers for Port {
    fn read8(&self, offset: usize) -> u8 {
        self.uart.lock().unwrap().read(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        self.uart.lock().unwrap().write(offset, value);
        if offset == THR {
            let meanwhile = self.meanwhile.lock().unwrap().take();
            if let Some(happen) = meanwhile {
                happen();
            }
        }
    }
}

/// A CPU without other work.
#[derive(Clone)]
struct Sleeper {
    id: usize,
    time: Time,
    timer: Arc<AtomicU64>,
}

impl Clock for Sleeper {
    fn now(&self) -> Nanos {
        self.time.now()
    }
}

impl Processor for Sleeper {
    fn id(&self) -> usize {
        self.id
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

impl Cpu for Sleeper {
    fn call_at(&self, at: Nanos) {
        self.timer.store(at.0, Relaxed);
    }

    fn stop_others(&self) {}
}

type Sink = UartSink<&'static Port, Time>;

/// Two CPUs that share a console.
struct Machine<P: 'static> {
    time: Time,
    cpus: [Sleeper; 2],
    port: &'static Port,
    path: &'static P,
}

impl<P: Path> Machine<P> {
    fn new(line: Line, strategy: Strategy, path: impl FnOnce(&'static Ring, Sink) -> P) -> Self {
        let time = Time::default();
        let cpu = |id| Sleeper {
            id,
            time: time.clone(),
            timer: Arc::new(AtomicU64::new(NEVER)),
        };
        let port: &'static Port = Box::leak(Box::new(Port {
            uart: Mutex::new(Uart::of(MODEL, time.clone(), line, Vec::new())),
            meanwhile: Mutex::new(None),
        }));
        let settings = ConsoleSettings {
            model: Some(MODEL),
            ..ConsoleSettings::from(LineSettings::baud(115_200))
        };
        let mut console = Console::open(port, time.clone(), settings).unwrap();
        console.set_strategy(strategy);
        let ring: &'static Ring<[Slot; 64]> = Box::leak(Box::new(Ring::new()));
        Self {
            cpus: [cpu(0), cpu(1)],
            port,
            path: Box::leak(Box::new(path(ring, UartSink::new(console)))),
            time,
        }
    }

    /// Lets both CPUs sleep. Nothing is logged, so only timers wake them.
    fn sleep(&self) {
        for _ in 0..10_000 {
            let due = |cpu: &&Sleeper| cpu.timer.load(Relaxed);
            let next = self.cpus.iter().min_by_key(due).unwrap();
            let at = next.timer.swap(NEVER, Relaxed);
            if at == NEVER {
                return;
            }
            self.time.wait_until(Nanos(at));
            self.path.timer(next);
        }
        panic!("the timers never stop");
    }

    /// Returns the bytes that have arrived since the last call.
    fn wire(&self) -> String {
        self.time
            .wait_until(self.time.now() + Nanos::from_millis(10));
        let mut uart = self.port.uart.lock().unwrap();
        String::from_utf8(std::mem::take(uart.sink_mut())).unwrap()
    }
}

fn meta(cpu: u16, priority: Priority) -> Meta<'static> {
    Meta {
        time: Nanos::ZERO,
        cpu,
        level: Level::Info,
        priority,
        target: "",
    }
}

#[test]
fn after_an_emergency_everything_is_sent_and_all_cpus_sleep() {
    for line in [Line::AtOnce, Line::Baud] {
        for meets_another in [false, true] {
            let machine = Machine::new(line, Strategy::FifoBurst, Bounded::new);
            let [one, other] = machine.cpus.clone();
            let path = machine.path;
            // The console measures the port's speed.
            for _ in 0..20 {
                path.log(&one, Context::Task, &meta(0, Priority::Normal), &[b'x'; 80]);
                machine.sleep();
            }
            assert!(path.is_idle());
            assert_eq!(machine.wire().len(), 20 * (15 + 80 + 2));

            if meets_another {
                let log = move || {
                    let normal = meta(1, Priority::Normal);
                    let role = path.log(&other, Context::Task, &normal, b"left to you");
                    assert_eq!(role, Role::Left, "the port is taken");
                };
                *machine.port.meanwhile.lock().unwrap() = Some(Box::new(log));
            }
            let urgent = meta(0, Priority::Emergency);
            path.log(&one, Context::Interrupt, &urgent, b"urgent");
            let at_once = machine.wire();
            // No part of it is left for a later slice.
            assert!(at_once == URGENT || line != Line::AtOnce, "{at_once}");
            machine.sleep();
            assert!(path.is_idle(), "{line:?}, {meets_another}");
            let rest = if meets_another { LEFT } else { "" };
            assert_eq!(at_once + &machine.wire(), [URGENT, rest].concat());
        }
    }
}

/// A line that is longer than the FIFO, as it is logged and as it arrives.
const LONG: [u8; 80] = [b'x'; 80];

fn long() -> String {
    format!("[    0.000000] {}\r\n", "x".repeat(80))
}

#[test]
fn an_emergency_takes_the_port_from_a_printer_task_whose_line_is_repeated() {
    let machine = Machine::new(Line::Baud, Strategy::FifoPaced, PrinterThread::new);
    let ([one, other], path) = (machine.cpus.clone(), machine.path);
    let normal = meta(0, Priority::Normal);
    assert_eq!(path.log(&one, Context::Task, &normal, &LONG), Role::Left);
    assert!(!path.is_idle(), "only stored");
    assert_eq!(path.run_task(&other), None, "on the CPU that logged");
    let again = path.run_task(&one).expect("the FIFO is full");

    let urgent = meta(1, Priority::Emergency);
    let role = path.log(&other, Context::Interrupt, &urgent, b"urgent");
    assert_eq!(role, Role::Owner);
    let begun = &long()[..64];
    let expected = format!("{begun}\r\n{{again}}\r\n{}{URGENT}", long());
    assert_eq!(machine.wire(), expected);
    machine.time.wait_until(again);
    assert_eq!(path.run_task(&one), None);
    assert!(path.is_idle());
    assert_eq!(machine.wire(), "", "all was sent");
}

#[test]
fn an_emergency_that_interrupts_the_printer_task_at_the_port_is_left_to_the_task() {
    let machine = Machine::new(Line::Baud, Strategy::FifoPaced, PrinterThread::new);
    let ([one, _], path) = (machine.cpus.clone(), machine.path);
    let interrupted = one.clone();
    let log = move || {
        let urgent = meta(0, Priority::Emergency);
        let role = path.log(&interrupted, Context::Interrupt, &urgent, b"urgent");
        assert_eq!(role, Role::Left, "the port is taken below");
    };
    let normal = meta(0, Priority::Normal);
    path.log(&one, Context::Task, &normal, &LONG);
    *machine.port.meanwhile.lock().unwrap() = Some(Box::new(log));
    while let Some(at) = path.run_task(&one) {
        machine.time.wait_until(at);
    }
    assert!(path.is_idle());
    assert_eq!(machine.wire(), long() + URGENT);
}

#[test]
fn a_panic_prints_the_backlog_in_order_and_the_printer_task_never_runs_again() {
    let machine = Machine::new(Line::Baud, Strategy::FifoPaced, PrinterThread::new);
    let ([one, other], path) = (machine.cpus.clone(), machine.path);
    let normal = meta(0, Priority::Normal);
    path.log(&one, Context::Task, &normal, b"first");
    path.panic(&other, &meta(1, Priority::Panic), b"the end");
    path.log(&one, Context::Task, &normal, b"late");
    assert_eq!(path.run_task(&one), None);
    let expected = "[    0.000000] first\r\n[    0.000000] the end\r\n";
    assert_eq!(machine.wire(), expected);
}
