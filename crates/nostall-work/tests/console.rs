//! A console on CPUs that sleep: a timer wakes one for the records that are left.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use nostall_console::{Level, Meta, Priority, Ring, Slot, UartSink};
use nostall_devices::uart::{Line, Uart};
use nostall_io::{Clock, Nanos, Processor, Registers};
use nostall_uart::registers::THR;
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model, Strategy};
use nostall_work::console::{Bounded, Context, Cpu, Path, Role};

const NEVER: u64 = u64::MAX;

/// A 16750, with a FIFO of 64 bytes that takes a short line whole.
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

/// A CPU without work of its own.
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

/// Two CPUs that share a console.
struct Machine {
    time: Time,
    cpus: [Sleeper; 2],
    port: &'static Port,
    path: &'static Bounded<'static, &'static Port, Time>,
}

impl Machine {
    fn new(line: Line) -> Self {
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
        console.set_strategy(Strategy::FifoBurst);
        let ring: &'static Ring<[Slot; 64]> = Box::leak(Box::new(Ring::new()));
        let path = Bounded::new(ring, UartSink::new(console));
        Self {
            cpus: [cpu(0), cpu(1)],
            port,
            path: Box::leak(Box::new(path)),
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
fn after_an_emergency_alone_or_with_another_cpus_message_all_is_sent_and_all_sleep() {
    for line in [Line::AtOnce, Line::Baud] {
        for meets_another in [false, true] {
            let machine = Machine::new(line);
            let [one, other] = machine.cpus.clone();
            let path = machine.path;
            // The console learns the port's speed.
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
