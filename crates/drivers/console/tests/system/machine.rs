//! A machine in virtual time: a serial port, a timer, and a kernel around a console.

use std::cell::{Cell, RefCell};

use nostall_console::{Level, Ring, Slot, SystemConsole};
use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::LSR;
use nostall_uart::{LineSettings, Model};

pub type Port = VirtualPort<Vec<u8>>;
pub type Console = SystemConsole<Wire, Services>;

/// A function that runs at a certain point of the kernel.
pub type Hook = Box<dyn Fn()>;

/// The parts of the machine that the kernel's code accesses.
pub struct Machine {
    pub port: Port,
    pub clock: VirtualClock,
    pub cpu: Cell<u16>,
    /// Expiry time of this CPU's timer.
    pub timer: Cell<Option<Nanos>>,
    /// Set once the kernel has timers.
    pub has_timers: Cell<bool>,
    pub timers_set: Cell<usize>,
    pub masks: Cell<usize>,
    pub stops: Cell<usize>,
    pub wakes: Cell<usize>,
    /// Number of reads of the line status that return all ones, as without a port.
    pub absent: Cell<usize>,
    /// The clock shows no time until this is set.
    pub is_calibrated: Cell<bool>,
    pub in_set_timer: RefCell<Option<Hook>>,
    pub in_now: RefCell<Option<Hook>>,
    pub in_mask: RefCell<Option<Hook>>,
    /// Runs when interrupts are enabled again.
    pub after_mask: RefCell<Option<Hook>>,
    pub in_stop: RefCell<Option<Hook>>,
    /// Runs after the CPU's number was read.
    pub after_id: RefCell<Option<Hook>>,
    /// Runs after each access to the port.
    pub in_access: RefCell<Option<Hook>>,
}

/// The port's registers.
#[derive(Clone, Copy)]
pub struct Wire(pub &'static Machine);

impl Registers for Wire {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.0.port.read8(offset);
        call(&self.0.in_access);
        match self.0.absent.get() {
            left @ 1.. if offset == LSR => {
                self.0.absent.set(left - 1);
                !0
            }
            _ => value,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.0.port.write8(offset, value);
        call(&self.0.in_access);
    }
}

#[derive(Clone, Copy)]
pub struct Services(pub &'static Machine);

/// The duration of one read of the clock.
const CLOCK_READ: Nanos = Nanos(500);

fn call(hook: &RefCell<Option<Hook>>) {
    if let Ok(hook) = hook.try_borrow()
        && let Some(hook) = &*hook
    {
        hook();
    }
}

impl Clock for Services {
    fn now(&self) -> Nanos {
        call(&self.0.in_now);
        self.0.clock.advance(CLOCK_READ);
        match self.0.is_calibrated.get() {
            true => self.0.clock.now(),
            false => Nanos::UNKNOWN,
        }
    }
}

impl nostall_console::Kernel for Services {
    fn cpu(&self) -> u16 {
        let cpu = self.0.cpu.get();
        call(&self.0.after_id);
        cpu
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        call(&self.0.in_mask);
        self.0.masks.set(self.0.masks.get() + 1);
        let done = critical();
        self.0.masks.set(self.0.masks.get() - 1);
        if self.0.masks.get() == 0 {
            call(&self.0.after_mask);
        }
        done
    }

    fn set_timer(&self, at: Nanos) {
        self.0.timers_set.set(self.0.timers_set.get() + 1);
        if self.0.has_timers.get() {
            self.0.timer.set(Some(at));
        }
        call(&self.0.in_set_timer);
    }

    fn stop_other_cpus(&self) {
        self.0.stops.set(self.0.stops.get() + 1);
        call(&self.0.in_stop);
    }

    fn input_ready(&self) {
        self.0.wakes.set(self.0.wakes.get() + 1);
    }
}

/// Returns a machine, and a console on a ring of 64 records. The port is not open yet.
pub fn machine(profile: Profile) -> (&'static Machine, &'static Console) {
    machine_with::<64>(profile)
}

/// The same, with a ring of `N` records.
pub fn machine_with<const N: usize>(profile: Profile) -> (&'static Machine, &'static Console) {
    let (port, clock) = Uart::in_virtual_time_as(Model::Uart16550A, profile, Vec::new());
    let machine = Box::leak(Box::new(Machine {
        port,
        clock,
        cpu: Cell::new(0),
        timer: Cell::new(None),
        has_timers: Cell::new(true),
        timers_set: Cell::new(0),
        masks: Cell::new(0),
        stops: Cell::new(0),
        wakes: Cell::new(0),
        absent: Cell::new(0),
        is_calibrated: Cell::new(true),
        in_set_timer: RefCell::default(),
        in_now: RefCell::default(),
        in_mask: RefCell::default(),
        after_mask: RefCell::default(),
        in_stop: RefCell::default(),
        after_id: RefCell::default(),
        in_access: RefCell::default(),
    }));
    let ring: &'static Ring<[Slot; N]> = Box::leak(Box::new(Ring::new()));
    let console = Box::leak(Box::new(SystemConsole::new(ring, Services(machine))));
    (machine, console)
}

/// The same with an open port.
pub fn open(profile: Profile) -> (&'static Machine, &'static Console) {
    let (machine, console) = machine(profile);
    console
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    (machine, console)
}

impl Machine {
    /// Runs the timer's interrupts until none is set, or until `handler` ran `most` times. Returns
    /// the number of interrupts.
    pub fn run_timers(&self, most: usize, mut handler: impl FnMut()) -> usize {
        for interrupts in 0..most {
            let Some(at) = self.timer.take() else {
                return interrupts;
            };
            self.clock.wait_until(at);
            handler();
        }
        most
    }

    /// Returns the text that has arrived, without CRs.
    pub fn arrived(&self) -> String {
        // The last byte leaves the port.
        self.clock.advance(Nanos::from_millis(10));
        let sent = self.port.with(|uart| uart.sink_mut().clone());
        String::from_utf8(sent).unwrap().replace('\r', "")
    }
}

pub fn info(console: &Console, text: &str) {
    console.log(Level::Info, "", format_args!("{text}"));
}
