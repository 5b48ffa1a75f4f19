//! embedded-hal below and above the bus: the exact traffic of a dozen kinds of messages.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use embedded_hal::spi::{Operation, SpiDevice};
use embedded_hal_mock::eh1::digital::{Mock as MockPin, State, Transaction as Edge};
use embedded_hal_mock::eh1::spi::{Mock as Spi, Transaction as Traffic};
use nostall_devices::VirtualClock;
use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::{AsyncHal, Configure, Hal};
use nostall_spi::{
    Bare, Bus, Capabilities, Controller, Device, Error, Fault, Invalid, MODE_0, MODE_3, Mode,
    Polarity, Select, Settings, Transfer, Wire, WordSize,
};

type HalBus = Bus<Hal<Spi<u8>, [MockPin; 2]>, Bare<VirtualClock>>;
type Dev<'b> = Device<'b, Hal<Spi<u8>, [MockPin; 2]>, Bare<VirtualClock>>;

/// Returns settings for line 0, which is active low.
fn settings() -> Settings {
    Settings::new(1_000_000, 0)
}

/// Clock and mode of [`settings`].
const FIXED: (u32, Mode) = (1_000_000, MODE_0);

/// Returns the edges of one selection of line 0.
fn selected() -> Vec<Edge> {
    vec![Edge::set(State::Low), Edge::set(State::High)]
}

/// Runs `act` on a device with `settings`, and checks that the bus and the pins see exactly this
/// traffic.
fn sees(
    settings: Settings,
    traffic: &[Traffic<u8>],
    line: &[Edge],
    other: &[Edge],
    act: impl FnOnce(&mut Dev<'_>),
) -> Nanos {
    let (mut spi, clock) = (Spi::new(traffic), VirtualClock::new());
    let mut pins = [MockPin::new(line), MockPin::new(other)];
    let fixed = (settings.clock, settings.mode);
    let hal = Hal::new(spi.clone(), pins.clone(), fixed);
    let bus: HalBus = Bus::new(hal, Bare(clock.clone()));
    act(&mut bus.device(settings).unwrap());
    spi.done();
    pins.iter_mut().for_each(MockPin::done);
    clock.now()
}

/// A pin of another type, which must not change.
struct Unwired;

impl embedded_hal::digital::ErrorType for Unwired {
    type Error = std::convert::Infallible;
}

impl embedded_hal::digital::OutputPin for Unwired {
    fn set_low(&mut self) -> Result<(), Self::Error> {
        panic!("the other line changes")
    }
    fn set_high(&mut self) -> Result<(), Self::Error> {
        panic!("the other line changes")
    }
}

#[test]
fn a_write() {
    let traffic = [Traffic::write_vec(vec![1, 2]), Traffic::flush()];
    sees(settings(), &traffic, &selected(), &[], |device| {
        SpiDevice::write(device, &[1, 2]).unwrap();
    });
}

#[test]
fn a_read() {
    let traffic = [
        Traffic::transfer_in_place(vec![0, 0], vec![1, 2]),
        Traffic::flush(),
    ];
    sees(settings(), &traffic, &selected(), &[], |device| {
        let mut into = [0; 2];
        device.read(&mut into).unwrap();
        assert_eq!(into, [1, 2]);
    });
}

#[test]
fn a_transfer() {
    let traffic = [Traffic::transfer(vec![1, 2], vec![3, 4]), Traffic::flush()];
    sees(settings(), &traffic, &selected(), &[], |device| {
        let mut into = [0; 2];
        device.transfer(&mut into, &[1, 2]).unwrap();
        assert_eq!(into, [3, 4]);
    });
}

#[test]
fn a_read_sends_the_devices_fill() {
    let traffic = [
        Traffic::transfer_in_place(vec![0xff, 0xff], vec![1, 2]),
        Traffic::flush(),
        Traffic::transfer(vec![7], vec![3]),
        Traffic::transfer_in_place(vec![0xff], vec![4]),
        Traffic::flush(),
    ];
    let filled = Settings {
        fill: 0xff,
        ..settings()
    };
    sees(filled, &traffic, &selected(), &[], |device| {
        let (mut into, mut longer) = ([0; 2], [0; 2]);
        device
            .transaction(&mut [
                Operation::Read(&mut into),
                Operation::Transfer(&mut longer, &[7]),
            ])
            .unwrap();
        assert_eq!((into, longer), ([1, 2], [3, 4]));
    });
}

#[test]
fn chip_selects_may_be_of_different_types() {
    let mut other = MockPin::new(&selected());
    let mut spi = Spi::new(&[Traffic::write_vec(vec![1]), Traffic::flush()]);
    let hal = Hal::new(spi.clone(), (Unwired, other.clone()), FIXED);
    let bus: Bus<_, _> = Bus::new(hal, Bare(VirtualClock::new()));
    let second = Settings::new(1_000_000, 1);
    bus.device(second).unwrap().write(&[1]).unwrap();
    let third = Settings::new(1_000_000, 2);
    assert_eq!(bus.device(third).err(), Some(Invalid::Line(2)));
    spi.done();
    other.done();
}

#[test]
fn a_driver_runs_a_sequence_of_transactions_on_a_locked_bus() {
    fn identify(mut device: impl SpiDevice) -> [u8; 1] {
        device.write(&[0xab]).unwrap();
        let mut id = [0];
        let mut operations = [Operation::Write(&[0x9f]), Operation::Read(&mut id)];
        device.transaction(&mut operations).unwrap();
        id
    }
    let traffic = [
        Traffic::write_vec(vec![0xab]),
        Traffic::flush(),
        Traffic::write_vec(vec![0x9f]),
        Traffic::flush(),
        Traffic::transfer_in_place(vec![0], vec![5]),
        Traffic::flush(),
    ];
    let line = [selected(), selected()].concat();
    sees(settings(), &traffic, &line, &[], |device| {
        assert_eq!(identify(device.lock().unwrap()), [5]);
    });
}

#[test]
fn a_transfer_in_place() {
    let traffic = [
        Traffic::transfer_in_place(vec![1, 2], vec![3, 4]),
        Traffic::flush(),
    ];
    sees(settings(), &traffic, &selected(), &[], |device| {
        let mut bytes = [1, 2];
        device.transfer_in_place(&mut bytes).unwrap();
        assert_eq!(bytes, [3, 4]);
    });
}

#[test]
fn a_write_then_a_read_in_one_selection() {
    let traffic = [
        Traffic::write_vec(vec![0x9f]),
        Traffic::flush(),
        Traffic::transfer_in_place(vec![0; 3], vec![0xef, 0x40, 0x16]),
        Traffic::flush(),
    ];
    sees(settings(), &traffic, &selected(), &[], |device| {
        let mut id = [0; 3];
        device.write_then_read(&[0x9f], &mut id).unwrap();
        assert_eq!(id, [0xef, 0x40, 0x16]);
    });
}

#[test]
fn all_operations_in_one_selection_with_a_delay() {
    let traffic = [
        Traffic::write_vec(vec![1]),
        Traffic::flush(),
        Traffic::transfer_in_place(vec![0], vec![2]),
        Traffic::flush(),
        Traffic::transfer(vec![3], vec![4]),
        Traffic::flush(),
        Traffic::transfer_in_place(vec![5], vec![6]),
        Traffic::flush(),
    ];
    let took = sees(settings(), &traffic, &selected(), &[], |device| {
        let (mut read, mut both, mut place) = ([0], [0], [5]);
        device
            .transaction(&mut [
                Operation::Write(&[1]),
                Operation::DelayNs(700),
                Operation::Read(&mut read),
                Operation::Transfer(&mut both, &[3]),
                Operation::TransferInPlace(&mut place),
            ])
            .unwrap();
        assert_eq!((read, both, place), ([2], [4], [6]));
    });
    assert_eq!(took, Nanos(700));
}

#[test]
fn no_operations_select_and_release() {
    sees(settings(), &[], &selected(), &[], |device| {
        device.transaction(&mut []).unwrap();
    });
}

#[test]
fn empty_operations_transfer_nothing() {
    sees(settings(), &[], &selected(), &[], |device| {
        device.read(&mut []).unwrap();
    });
}

#[test]
fn a_message_that_deselects_in_the_middle_has_two_selections() {
    let traffic = [
        Traffic::write_vec(vec![1]),
        Traffic::flush(),
        Traffic::write_vec(vec![2]),
        Traffic::flush(),
    ];
    let line = [selected(), selected()].concat();
    let took = sees(settings(), &traffic, &line, &[], |device| {
        let again = Transfer::write(&[1]).cs_change(Nanos(900));
        device.sync(&mut [again, Transfer::write(&[2])]).unwrap();
    });
    assert_eq!(took, Nanos(900));
}

#[test]
fn an_active_high_line_is_inverted() {
    let traffic = [Traffic::write_vec(vec![1]), Traffic::flush()];
    let high = Settings::new(1_000_000, 0).select(Select::Line(1, Polarity::ActiveHigh));
    let line = [Edge::set(State::High), Edge::set(State::Low)];
    sees(high, &traffic, &[], &line, |device| {
        SpiDevice::write(device, &[1]).unwrap();
    });
}

#[test]
fn without_a_line_no_pin_changes() {
    let traffic = [Traffic::write_vec(vec![0xff; 10]), Traffic::flush()];
    let none = Settings::new(1_000_000, 0).select(Select::None);
    sees(none, &traffic, &[], &[], |device| {
        SpiDevice::write(device, &[0xff; 10]).unwrap();
    });
}

#[test]
fn several_messages_in_a_row_are_each_selected() {
    let traffic = [
        Traffic::write_vec(vec![1]),
        Traffic::flush(),
        Traffic::transfer_in_place(vec![0], vec![2]),
        Traffic::flush(),
    ];
    let line = [selected(), selected()].concat();
    sees(settings(), &traffic, &line, &[], |device| {
        let mut locked = device.lock().unwrap();
        locked.sync(&mut [Transfer::write(&[1])]).unwrap();
        locked.sync(&mut [Transfer::read(&mut [0])]).unwrap();
    });
}

#[test]
fn settings_other_than_those_of_a_fixed_bus_are_refused() {
    sees(settings(), &[], &[], &[], |device| {
        let refused = |transfer: Transfer<'_>, why| {
            let expected = Err(Error::Invalid { transfer: 0, why });
            assert_eq!(device.sync(&mut [transfer]), expected);
        };
        refused(
            Transfer::write(&[1]).clock(999_999),
            Invalid::TooSlow {
                asked: 999_999,
                slowest: 1_000_000,
            },
        );
        let word = WordSize::Bits16;
        refused(Transfer::write(&[1, 2]).word(word), Invalid::Word(word));
    });
    let pins = [MockPin::new(&[]), MockPin::new(&[])];
    let hal = Hal::new(Spi::new(&[]), pins, FIXED);
    let bus: HalBus = Bus::new(hal, Bare(VirtualClock::new()));
    let refused = bus.device(settings().mode(MODE_3)).unwrap_err();
    assert_eq!(refused, Invalid::Mode(MODE_3));
    bus.with_controller(|_| ()).unwrap();
    // None of the mocks was called.
    let (mut spi, mut pins) = take(bus);
    spi.done();
    pins.iter_mut().for_each(MockPin::done);
}

/// A chip-select pin whose next calls fail as often as the counter says. Shows its level.
#[derive(Clone, Default)]
struct Weak(Rc<RefCell<(u32, bool)>>);

impl embedded_hal::digital::ErrorType for Weak {
    type Error = embedded_hal::digital::ErrorKind;
}

impl Weak {
    fn drive(&self, low: bool) -> Result<(), embedded_hal::digital::ErrorKind> {
        let (fails, is_low) = &mut *self.0.borrow_mut();
        if *fails > 0 && !low {
            *fails -= 1;
            return Err(embedded_hal::digital::ErrorKind::Other);
        }
        *is_low = low;
        Ok(())
    }
}

impl embedded_hal::digital::OutputPin for Weak {
    fn set_low(&mut self) -> Result<(), Self::Error> {
        self.drive(true)
    }
    fn set_high(&mut self) -> Result<(), Self::Error> {
        self.drive(false)
    }
}

#[test]
fn nothing_is_sent_while_the_line_of_another_device_cannot_be_released() {
    let written = |byte| [Traffic::write_vec(vec![byte]), Traffic::flush()];
    // The flush of a stopped message comes before the next settings.
    let traffic = [
        &written(1)[..],
        &[Traffic::flush()],
        &written(2),
        &written(1),
    ]
    .concat();
    let mut spi = Spi::new(&traffic);
    let pins = [Weak::default(), Weak::default()];
    let hal = Hal::new(spi.clone(), pins.clone(), FIXED);
    let bus: Bus<_, _> = Bus::new(hal, Bare(VirtualClock::new()));
    let [one, two] = [0, 1].map(|line| {
        let settings = Settings::new(1_000_000, line);
        bus.device(settings).unwrap()
    });
    // At the end of the message, in its clean-up, and before each of the next two messages.
    pins[0].0.borrow_mut().0 = 4;
    let fault = Fault::Bus(embedded_hal::spi::ErrorKind::ChipSelectFault);
    assert_eq!(one.write(&[1]), Err(Error::Failed { transfer: 0, fault }));
    assert_eq!(two.write(&[2]), Err(Error::StillSelected));
    assert_eq!(one.write(&[1]), Err(Error::StillSelected));
    let low = |pin: &Weak| pin.0.borrow().1;
    assert_eq!((low(&pins[0]), low(&pins[1])), (true, false));
    // Now the line works.
    assert_eq!(two.write(&[2]), Ok(()));
    assert_eq!(one.write(&[1]), Ok(()));
    assert_eq!((low(&pins[0]), low(&pins[1])), (false, false));
    spi.done();
}

/// Settings of a bus that sleeps, and the calls that it gets. The first wake-up fails.
#[derive(Clone, Default)]
struct Sleeper(Rc<RefCell<Vec<&'static str>>>);

impl<B> Configure<B> for Sleeper {
    fn capabilities(&self, lines: u8) -> Capabilities {
        Capabilities::least(lines)
    }
    fn configure(&mut self, _bus: &mut B, wire: &Wire) -> Result<u32, Fault> {
        self.0.borrow_mut().push("set");
        Ok(wire.clock)
    }
    fn prepare(&mut self, _bus: &mut B) -> Result<(), Fault> {
        let mut calls = self.0.borrow_mut();
        calls.push("awake");
        if calls.len() == 1 {
            Err(Fault::Short)
        } else {
            Ok(())
        }
    }
    fn unprepare(&mut self, _bus: &mut B) {
        self.0.borrow_mut().push("asleep");
    }
}

fn sleeps(controller: impl Controller, sleeper: &Sleeper) {
    let clock = VirtualClock::new();
    let bus: Bus<_, _> = Bus::new(controller, Bare(clock.clone()));
    let device = bus.device(settings()).unwrap();
    assert!(device.write(&[1]).is_err());
    for _ in 0..2 {
        device.write(&[1]).unwrap();
        device.write(&[1]).unwrap();
        while let Some(next) = bus.poll() {
            clock.wait_until(next);
        }
    }
    let period = ["awake", "set", "asleep"];
    assert_eq!(
        *sleeper.0.borrow(),
        [&["awake"][..], &period, &period].concat()
    );
}

#[test]
fn a_hals_bus_sleeps_once_in_a_busy_period_if_its_settings_can() {
    let (sleeper, pins) = (Sleeper::default(), [Weak::default()]);
    let write = [Traffic::write_vec(vec![1]), Traffic::flush()];
    let mut spi = Spi::new(&[&write[..]; 4].concat());
    sleeps(Hal::new(spi.clone(), pins, sleeper.clone()), &sleeper);
    spi.done();

    let (sleeper, dma) = (Sleeper::default(), Dma::default());
    sleeps(AsyncHal::new(dma.clone(), [dma], sleeper.clone()), &sleeper);
}

/// Releases the mocks; the caller checks that all expected calls were made.
fn take(bus: HalBus) -> (Spi<u8>, [MockPin; 2]) {
    bus.into_controller().release()
}

/// An asynchronous bus without a blocking interface, as in Embassy.
#[derive(Clone, Default)]
struct Dma(Rc<RefCell<DmaState>>);

#[derive(Default)]
struct DmaState {
    seen: Vec<&'static str>,
    /// Number of polls of each following operation before its last one.
    polls: u32,
}

impl Dma {
    async fn act(&self, name: &'static str) -> Result<(), Infallible> {
        self.0.borrow_mut().seen.push(name);
        let mut left = self.0.borrow().polls;
        std::future::poll_fn(|_| match left {
            0 => Poll::Ready(()),
            _ => {
                left -= 1;
                Poll::Pending
            }
        })
        .await;
        Ok(())
    }

    fn seen(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.borrow_mut().seen)
    }
}

impl embedded_hal::spi::ErrorType for Dma {
    type Error = Infallible;
}

impl embedded_hal_async::spi::SpiBus for Dma {
    async fn read(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
        self.act("read").await
    }
    async fn write(&mut self, _: &[u8]) -> Result<(), Infallible> {
        self.act("write").await
    }
    async fn transfer(&mut self, _: &mut [u8], _: &[u8]) -> Result<(), Infallible> {
        self.act("transfer").await
    }
    async fn transfer_in_place(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
        self.act("in place").await
    }
    async fn flush(&mut self) -> Result<(), Infallible> {
        self.act("flush").await
    }
}

/// The chip-select line of the bus.
impl embedded_hal::digital::ErrorType for Dma {
    type Error = Infallible;
}

impl embedded_hal::digital::OutputPin for Dma {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0.borrow_mut().seen.push("low");
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        self.0.borrow_mut().seen.push("high");
        Ok(())
    }
}

type DmaBus = Bus<AsyncHal<Dma, [Dma; 1]>, Bare<VirtualClock>>;

fn dma(polls: u32) -> (DmaBus, Dma, VirtualClock) {
    let (dma, clock) = (Dma::default(), VirtualClock::new());
    dma.0.borrow_mut().polls = polls;
    let hal = AsyncHal::new(dma.clone(), [dma.clone()], FIXED);
    let bus = Bus::new(hal, Bare(clock.clone()));
    (bus, dma, clock)
}

fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_bus_without_a_blocking_interface_is_awaited() {
    let (bus, dma, _) = dma(1);
    let device = bus.device(settings()).unwrap();
    let mut read = [0; 3];
    let mut message = [Transfer::write(&[1]), Transfer::transfer(&[1], &mut read)];
    let mut future = pin!(device.transfer_async(&mut message));
    for _ in 0..5 {
        assert!(poll(&mut future).is_pending());
    }
    assert_eq!(poll(&mut future), Poll::Ready(Ok(())));
    let expected = [
        "low", "write", "flush", "transfer", "in place", "flush", "high",
    ];
    assert_eq!(dma.seen(), expected);
}

#[test]
fn after_a_dropped_future_the_fifo_is_flushed_before_a_line_changes() {
    let (bus, dma, clock) = dma(1);
    let device = bus.device(settings()).unwrap();
    {
        let mut message = [Transfer::write(&[1])];
        let mut dropped = pin!(device.transfer_async(&mut message));
        assert!(poll(&mut dropped).is_pending());
    }
    assert_eq!(dma.seen(), ["low", "write", "high"]);
    let mut message = [Transfer::write(&[2])];
    {
        let mut future = pin!(device.transfer_async(&mut message));
        assert!(poll(&mut future).is_pending());
        assert_eq!(dma.seen(), ["flush"]);
        // This future is also dropped, so the bus is flushed again.
    }
    assert_eq!(dma.seen(), ["high"]);
    let mut future = pin!(device.transfer_async(&mut message));
    let mut polls = 0;
    while poll(&mut future).is_pending() {
        polls += 1;
    }
    assert_eq!(
        (polls, dma.seen()),
        (3, vec!["flush", "low", "write", "flush", "high"])
    );
    // A flush that does not end times out.
    {
        let mut message = [Transfer::write(&[1])];
        let mut dropped = pin!(device.transfer_async(&mut message));
        assert!(poll(&mut dropped).is_pending());
    }
    dma.0.borrow_mut().polls = u32::MAX;
    let mut message = [Transfer::write(&[3])];
    let mut future = pin!(device.transfer_async(&mut message));
    assert!(poll(&mut future).is_pending());
    clock.advance(Nanos::from_secs(1));
    let timeout = Err(Error::Timeout { transfer: 0 });
    assert_eq!(poll(&mut future), Poll::Ready(timeout));
}

#[test]
fn a_blocking_caller_polls_an_asynchronous_bus_itself_but_not_forever() {
    let (bus, dma, _) = dma(1_000);
    let mut device = bus.device(settings()).unwrap();
    SpiDevice::write(&mut device, &[1]).unwrap();
    assert_eq!(dma.seen(), ["low", "write", "flush", "high"]);
    dma.0.borrow_mut().polls = u32::MAX;
    let short = Error::Failed {
        transfer: 0,
        fault: Fault::Short,
    };
    assert_eq!(SpiDevice::write(&mut device, &[1]), Err(short));
    assert_eq!(dma.seen(), ["low", "write", "high"]);
}

#[test]
fn a_blocking_caller_polls_an_asynchronous_bus_for_as_long_as_a_long_transfer_may_take() {
    let slow = Settings {
        clock: 100_000,
        ..settings()
    };
    let dma = Dma::default();
    // Half a second at 20 ns per poll.
    dma.0.borrow_mut().polls = 25_000_000;
    let hal = AsyncHal::new(dma.clone(), [dma.clone()], (100_000, MODE_0));
    let bus: DmaBus = Bus::new(hal, Bare(VirtualClock::new()));
    let mut device = bus.device(slow).unwrap();
    // The message takes half a second on the wire.
    assert_eq!(SpiDevice::write(&mut device, &[1; 6_250]), Ok(()));
}

#[test]
fn a_clock_of_0_hertz_is_refused_before_a_word_is_sent() {
    let dma = Dma::default();
    let hal = AsyncHal::new(dma.clone(), [dma.clone()], (0, MODE_0));
    let bus: DmaBus = Bus::new(hal, Bare(VirtualClock::new()));
    let mut device = bus.device(settings()).unwrap();
    let refused = Error::Failed {
        transfer: 0,
        fault: Fault::Refused,
    };
    assert_eq!(SpiDevice::write(&mut device, &[1]), Err(refused));
    assert!(!dma.seen().contains(&"write"));
}
