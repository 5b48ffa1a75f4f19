//! The methods of sending: Linux's file as it is, behind a mutex, and our bus on it.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use nostall_io::HostClock;
use nostall_spi::controllers;
use nostall_spi::{Bus, Device, Error, Fault, Settings, Slots, Statistics, Threads, Transfer};
use spidev::{Spidev, SpidevTransfer};

use super::board::{Board, shown};
use super::counters::{Counters, Worked, Worker, add_increase};
use super::interval::{self, Sender, Tally};
use super::message::{Message, Payload, hex};

/// Threads at once, at most.
pub const MOST_THREADS: usize = 64;

/// Each method's turns. A disturbance of one disturbs the others too.
pub const ROUNDS: u32 = 5;

/// One place for each thread that may want the bus.
type OurBus = Bus<controllers::Spidev, Threads, Slots<MOST_THREADS, 0, 0>>;
type OurDevice<'b> = Device<'b, controllers::Spidev, Threads>;

/// A method of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Each thread has opened the file for itself; Linux brings them into line.
    Spidev,
    /// One file, behind a mutex.
    Mutex,
    /// One file, on a bus of ours with a worker.
    Caller,
}

impl Method {
    /// A stable word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spidev => "spidev",
            Self::Mutex => "mutex",
            Self::Caller => "caller",
        }
    }
}

/// A number of messages that were sent with one method.
#[derive(Clone, Debug)]
pub struct Row {
    pub method: Method,
    pub threads: usize,
    pub bytes: usize,
    pub tally: Tally,
    /// Messages a second, of each round.
    pub rates: Vec<f64>,
    pub took: Duration,
    /// Linux's counters for the controller. They include other devices' messages.
    pub linux: Option<Counters>,
    pub worker: Option<Worked>,
}

impl Row {
    pub fn new(method: Method, threads: usize, bytes: usize) -> Result<Self> {
        Ok(Self {
            method,
            threads,
            bytes,
            tally: Tally::new()?,
            rates: Vec::new(),
            took: Duration::ZERO,
            linux: Some(Counters::default()),
            worker: Some(Worked::default()),
        })
    }

    /// Messages a second, the median of the rounds.
    pub fn rate(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_unstable_by(f64::total_cmp);
        rates[rates.len() / 2]
    }

    /// Nanoseconds within which so large a share of the messages was through.
    pub fn latency(&self, share: f64) -> f64 {
        self.tally.latency.value_at_quantile(share) as f64
    }

    /// Returns the share of the clock's full rate, which leaves no time for anything but bits.
    pub fn of_clock(&self, hertz: u32) -> f64 {
        self.rate() * 8.0 * self.bytes as f64 / f64::from(hertz)
    }

    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.tally.messages().max(1) as f64
    }

    /// Returns how often Linux's worker was woken for a message, and its share of a CPU.
    pub fn worked(&self) -> Option<(f64, f64)> {
        let [wakeups, nanos] = self.worker?;
        let time = Duration::from_nanos(nanos).as_secs_f64();
        Some((self.each(wakeups), time / self.took.as_secs_f64()))
    }
}

/// Everything that is opened.
pub struct Methods<'a> {
    what: &'a Payload,
    board: &'a Board,
    pub worker: Option<Worker>,
    settings: Settings,
    files: Vec<Spidev>,
    shared: Mutex<Spidev>,
    pub bus: OurBus,
}

impl<'a> Methods<'a> {
    /// Opens the file as often as there will be threads.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn open(
        path: &Path,
        board: &'a Board,
        what: &'a Payload,
        settings: Settings,
        threads: usize,
    ) -> Result<Self> {
        let open = || Spidev::open(path).context(shown(path));
        let ours = controllers::Spidev::open(path).context(shown(path))?;
        let controller = board.controller.as_ref();
        Ok(Self {
            what,
            board,
            worker: controller.and_then(|controller| Worker::of(&controller.name)),
            settings,
            files: (0..threads).map(|_| open()).collect::<Result<_>>()?,
            shared: Mutex::new(open()?),
            bus: Bus::sized(ours, Threads::new()),
        })
    }

    /// Does it while a thread serves as our bus's worker. Once.
    pub fn beside_worker<T>(&self, run: impl FnOnce() -> T) -> T {
        /// Stops the worker, also after a panic.
        struct Ends<'a>(&'a Threads);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.stop();
            }
        }
        thread::scope(|scope| {
            let _ends = Ends(self.bus.platform());
            scope.spawn(|| Threads::serve(&self.bus));
            run()
        })
    }

    /// Sends a message of so many bytes, and returns it with the received bytes. It sets the
    /// device's mode, for all methods, using our driver.
    ///
    /// # Errors
    ///
    /// Linux's error, or that the message came back changed.
    pub fn try_out(&self, bytes: usize) -> Result<Message> {
        let mut message = Message::new(self.what, bytes, 0);
        message.next();
        let is_changed = send_ours(&self.device()?, &mut message)?;
        ensure!(
            !is_changed,
            "what was sent did not come back (of {bytes} bytes: sent {}, came {}): wire \
             MOSI to MISO, or try a slower clock (--clock)",
            hex(&message.sent),
            hex(&message.received)
        );
        Ok(message)
    }

    /// Adds a round of `span` to `row`.
    ///
    /// # Errors
    ///
    /// The first that a message met.
    pub fn round(&self, row: &mut Row, span: Duration, stop: &AtomicBool) -> Result<()> {
        let senders = (0..row.threads).map(|number| self.sender(row.method, number, row.bytes));
        let senders = senders.collect::<Result<_>>()?;
        let (linux, worked) = (self.board.counters()[1], self.worked());
        let (tally, took) = interval::run(senders, span, stop, &HostClock::new())?;
        row.linux = add_increase(row.linux, linux, self.board.counters()[1]);
        row.worker = add_increase(row.worker, worked, self.worked());
        row.rates.push(tally.messages() as f64 / took.as_secs_f64());
        row.took += took;
        row.tally.add(&tally)
    }

    fn worked(&self) -> Option<Worked> {
        self.worker?.worked()
    }

    fn device(&self) -> Result<OurDevice<'_>> {
        Ok(self.bus.device(self.settings)?)
    }

    fn sender(&self, method: Method, number: usize, bytes: usize) -> Result<Sender<'_>> {
        let mut message = Message::new(self.what, bytes, number);
        let clock = self.settings.clock;
        Ok(match method {
            Method::Spidev => Box::new(move || send(&self.files[number], clock, &mut message)),
            Method::Mutex => Box::new(move || {
                let file = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                send(&file, clock, &mut message)
            }),
            Method::Caller => {
                let device = self.device()?;
                Box::new(move || send_ours(&device, &mut message))
            }
        })
    }
}

fn send(file: &Spidev, clock: u32, message: &mut Message) -> Result<bool> {
    message.next();
    let mut transfer = SpidevTransfer::read_write(&message.sent, &mut message.received);
    transfer.speed_hz = clock;
    transfer.bits_per_word = 8;
    file.transfer(&mut transfer).map_err(|error| why(&error))?;
    Ok(message.is_changed())
}

fn send_ours(device: &OurDevice<'_>, message: &mut Message) -> Result<bool> {
    message.next();
    let mut transfer = [Transfer::transfer(&message.sent, &mut message.received)];
    device.sync(&mut transfer).map_err(|error| {
        let Error::Failed { fault, .. } = error else {
            return anyhow!(error);
        };
        match fault {
            Fault::System(number) => why(&io::Error::from_raw_os_error(number)),
            Fault::Gone => why(&io::Error::from_raw_os_error(libc::ENODEV)),
            _ => anyhow!(error),
        }
    })?;
    Ok(message.is_changed())
}

/// Linux's errors in a person's words.
fn why(error: &io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN) => {
            anyhow!("the device is gone: it was unbound from spidev, or its controller was removed")
        }
        Some(libc::EINVAL) => anyhow!(
            "Linux refuses the message: the controller cannot have this mode, clock or chip \
             select (dmesg tells which)"
        ),
        Some(libc::EMSGSIZE) => anyhow!("Linux refuses the message: it is too long for spidev"),
        Some(libc::ETIMEDOUT) => anyhow!("the controller did not finish a message in time"),
        _ => anyhow!("{error}"),
    }
}

/// Results of a bench.
pub struct Measured {
    pub clock: u32,
    pub rows: Vec<Row>,
    /// The first message that came in.
    pub answer: Message,
    pub ours: Statistics,
    pub has_worker: bool,
}

impl Measured {
    /// Returns the number of messages that came back changed.
    pub fn changed(&self) -> u64 {
        self.rows.iter().map(|row| row.tally.changed).sum()
    }
}
