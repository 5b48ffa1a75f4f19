//! Futures that are dropped, leaked or late, and wakers that panic: the bus goes on, and
//! nobody's message is lost or run for nothing.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use common::*;
use embedded_hal::spi::Operation;
use embedded_hal_async::spi::SpiDevice;
use nostall_io::Nanos;
use nostall_spi::{Completed, Config, Error, Part};

/// Counts how often it was woken, or panics.
struct Woken(AtomicUsize, bool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        assert!(!self.1, "on purpose");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn waker(panics: bool) -> (Arc<Woken>, Waker) {
    let woken = Arc::new(Woken(AtomicUsize::new(0), panics));
    (woken.clone(), woken.into())
}

#[cfg(feature = "std")]
#[test]
fn a_waker_that_panics_harms_nobody() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let locked = device.lock().unwrap();
    let mut pending = device.submit(&[Part::write(&[1])]).unwrap();
    let (_, waker) = waker(true);
    {
        let mut future = pin!(pending.finished());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    drop(locked);
    bus.poll(now(&clock));
    assert_eq!(bus.statistics().panics, 1);
    assert_eq!(pending.wait(), Ok(()));
    goes_on(&device, &probe);
}

#[test]
fn a_future_that_is_dropped_while_it_waits_for_an_interrupt_leaves_nothing_selected() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut first = bus.device(device(1)).unwrap();
    let second = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts]);
    let (_, waker) = waker(false);
    {
        let mut operations = [Operation::Write(&[1])];
        let mut future = pin!(first.transaction(&mut operations));
        let mut context = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!(probe.selected(), Some(1));
        assert_eq!(second.write(&[2]), Err(Error::WouldBlock));
    }
    assert_eq!(probe.told().last(), Some(&Abort));
    goes_on(&second, &probe);
}

#[test]
fn a_future_goes_on_when_the_controller_interrupts() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut device = bus.device(device(1)).unwrap();
    probe.next(&[Act::Interrupts, Act::Interrupts]);
    let (woken, waker) = waker(false);
    let mut context = Context::from_waker(&waker);
    let mut came = [0; 2];
    let mut operations = [Operation::Write(&[1]), Operation::Read(&mut came)];
    {
        let mut future = pin!(device.transaction(&mut operations));
        assert!(future.as_mut().poll(&mut context).is_pending());
        for interrupts in 1..=2 {
            assert!(future.as_mut().poll(&mut context).is_pending());
            probe.complete();
            bus.on_interrupt();
            assert_eq!(woken.0.load(Ordering::Relaxed), interrupts);
            let polled = future.as_mut().poll(&mut context);
            assert_eq!(polled.is_ready(), interrupts == 2);
        }
    }
    assert_eq!(came, [1, 1]);
    assert_eq!(bus.statistics().asynchronous, 1);
    assert_eq!(probe.selected(), None);
}

#[test]
fn a_future_whose_controller_never_interrupts_is_woken_by_poll_when_its_time_is_over() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let mut device = bus.device(device(1)).unwrap();
    probe.next(&[Act::NeverInterrupts]);
    let (woken, waker) = waker(false);
    let mut context = Context::from_waker(&waker);
    {
        let mut operations = [Operation::Write(&[1])];
        let mut future = pin!(device.transaction(&mut operations));
        assert!(future.as_mut().poll(&mut context).is_pending());
        bus.poll(now(&clock));
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        clock.advance(Nanos::from_secs(1));
        bus.poll(now(&clock));
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        let polled = future.as_mut().poll(&mut context);
        assert_eq!(polled, Poll::Ready(Err(Error::Timeout { transfer: 0 })));
    }
    goes_on(&device, &probe);
}

#[test]
fn a_driver_that_panics_on_a_future_that_has_the_bus_lets_it_go_once() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut first = bus.device(device(1)).unwrap();
    let second = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts, Act::Panics]);
    let (_, waker) = waker(false);
    let mut operations = [Operation::Write(&[1]), Operation::Write(&[2])];
    {
        let mut future = pin!(first.transaction(&mut operations));
        let mut context = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        probe.complete();
        bus.on_interrupt();
        let polled = AssertUnwindSafe(|| future.as_mut().poll(&mut context));
        assert!(catch_unwind(polled).is_err());
    }
    // A second time, it might have been another's bus.
    let aborts = probe.told().iter().filter(|told| **told == Abort).count();
    assert_eq!(aborts, 1);
    goes_on(&second, &probe);
}

#[test]
fn a_handle_whose_future_was_dropped_is_through_and_the_bus_is_free() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let first = bus.device(device(1)).unwrap();
    let second = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts]);
    let (_, waker) = waker(false);
    let mut pending = first.submit(&[Part::write(&[1])]).unwrap();
    {
        let mut future = pin!(pending.finished());
        let mut context = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!(probe.selected(), Some(1));
    }
    assert_eq!(probe.told().last(), Some(&Abort));
    goes_on(&second, &probe);
    assert_eq!(pending.wait(), Err(Error::Cancelled));
}

#[test]
fn a_future_that_is_through_takes_nobody_elses_message_with_it() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut first = bus.device(device(1)).unwrap();
    let mut second = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts, Act::Interrupts]);
    let (_, waker_of_first) = waker(false);
    let (woken, waker_of_second) = waker(false);
    let mut its = Context::from_waker(&waker_of_second);
    let mut operations = [Operation::Write(&[2])];
    let mut other = pin!(second.transaction(&mut operations));
    {
        let mut operations = [Operation::Write(&[1])];
        let mut future = pin!(first.transaction(&mut operations));
        let mut context = Context::from_waker(&waker_of_first);
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert!(other.as_mut().poll(&mut its).is_pending());
        probe.complete();
        bus.on_interrupt();
        let polled = future.as_mut().poll(&mut context);
        assert_eq!(polled, Poll::Ready(Ok(())));
    }
    assert_ne!(woken.0.load(Ordering::Relaxed), 0, "the other was not told");
    assert!(other.as_mut().poll(&mut its).is_pending());
    probe.complete();
    bus.on_interrupt();
    assert_eq!(other.as_mut().poll(&mut its), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[1], [2]]);
    assert_eq!(probe.selected(), None);
}

#[test]
fn a_future_that_finds_no_place_makes_one() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut device = bus.device(device(1)).unwrap();
    fn nothing(_: Completed<'_>) {}
    for byte in 0..4 {
        let submitted = device.submit_then(&[Part::write(&[byte])], &nothing, 0);
        submitted.unwrap();
    }
    let (_, waker) = waker(false);
    let mut context = Context::from_waker(&waker);
    let mut operations = [Operation::Write(&[4])];
    let mut future = pin!(device.transaction(&mut operations));
    let through = (0..10).any(|_| future.as_mut().poll(&mut context).is_ready());
    assert!(through);
    assert_eq!(probe.sent(), [[0], [1], [2], [3], [4]]);
}

#[test]
#[cfg_attr(miri, ignore = "it leaks, on purpose")]
fn a_future_that_is_leaked_while_it_waits_for_an_interrupt_keeps_the_bus_no_longer_than_its_time() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let mut leaked = bus.device(device(1)).unwrap();
    let other = bus.device(device(2)).unwrap();
    probe.next(&[Act::NeverInterrupts]);
    let (_, waker) = waker(false);
    let mut operations = [Operation::Write(&[1])];
    let mut future = Box::pin(leaked.transaction(&mut operations));
    let mut context = Context::from_waker(&waker);
    assert!(future.as_mut().poll(&mut context).is_pending());
    std::mem::forget(future);
    bus.poll(now(&clock));
    assert_eq!(other.write(&[2]), Err(Error::WouldBlock));
    clock.advance(Nanos::from_secs(1));
    bus.poll(now(&clock));
    assert_eq!(probe.told().last(), Some(&Abort));
    assert_eq!(bus.statistics().timeouts, 1);
    goes_on(&other, &probe);
}

#[test]
fn a_future_that_is_dropped_does_not_take_anothers_message_with_it() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    fn ran(completed: Completed<'_>) {
        assert_eq!(completed.result, Ok(()));
        RAN.fetch_add(1, Ordering::Relaxed);
    }
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let others = bus.device(device(1)).unwrap();
    let mut dropped = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts]);
    others.submit_then(&[Part::write(&[1])], &ran, 0).unwrap();
    let (_, waker) = waker(false);
    {
        let mut operations = [Operation::Write(&[2])];
        let mut future = pin!(dropped.transaction(&mut operations));
        let mut context = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!(probe.selected(), Some(1));
    }
    probe.complete();
    bus.on_interrupt();
    bus.poll(now(&clock));
    assert_eq!(RAN.load(Ordering::Relaxed), 1);
    assert_eq!(probe.sent(), [[1]]);
    assert_eq!(bus.statistics().errors, 0);
    goes_on(&dropped, &probe);
}

#[test]
fn whose_message_a_dropped_future_was_driving_goes_on_with_it() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let others = bus.device(device(1)).unwrap();
    let mut dropped = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts]);
    let mut pending = others.submit(&[Part::write(&[1])]).unwrap();
    let (_, waker_of_dropped) = waker(false);
    let (woken, its_waker) = waker(false);
    let mut its = Context::from_waker(&its_waker);
    let mut finished = pin!(pending.finished());
    {
        let mut operations = [Operation::Write(&[2])];
        let mut future = pin!(dropped.transaction(&mut operations));
        let mut context = Context::from_waker(&waker_of_dropped);
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert!(finished.as_mut().poll(&mut its).is_pending());
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    }
    assert_ne!(woken.0.load(Ordering::Relaxed), 0);
    assert!(finished.as_mut().poll(&mut its).is_pending());
    probe.complete();
    bus.on_interrupt();
    assert_eq!(finished.as_mut().poll(&mut its), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[1]]);
    goes_on(&dropped, &probe);
}

#[test]
fn what_nobody_wants_any_more_does_not_stay_selected_whoever_gives_up_first() {
    for owner_first in [true, false] {
        let (bus, probe, _) = bus(Config::DEFAULT);
        let others = bus.device(device(1)).unwrap();
        let mut driver = bus.device(device(2)).unwrap();
        probe.next(&[Act::Interrupts]);
        let mut pending = Some(others.submit(&[Part::write(&[1])]).unwrap());
        let (_, waker) = waker(false);
        let mut context = Context::from_waker(&waker);
        {
            let mut operations = [Operation::Write(&[2])];
            let mut future = pin!(driver.transaction(&mut operations));
            assert!(future.as_mut().poll(&mut context).is_pending());
            assert_eq!(probe.selected(), Some(1));
            if owner_first {
                drop(pending.take());
            }
        }
        drop(pending);
        assert_eq!(probe.selected(), None, "owner first: {owner_first}");
        goes_on(&driver, &probe);
        let all: Vec<_> = (0..4)
            .map(|byte| others.submit(&[Part::write(&[byte])]))
            .collect();
        assert!(all.iter().all(Result::is_ok), "a place is lost");
    }
}

#[test]
fn a_future_that_finds_no_place_for_long_enough_gives_up() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let sender = bus.device(device(1)).unwrap();
    let mut late = bus.device(device(2)).unwrap();
    let kept: Vec<_> = (0..4)
        .map(|byte| sender.submit(&[Part::write(&[byte])]).unwrap())
        .collect();
    bus.poll(now(&clock));
    assert!(kept.iter().all(|kept| kept.is_done()));
    let (_, waker) = waker(false);
    let mut context = Context::from_waker(&waker);
    {
        let mut operations = [Operation::Write(&[9])];
        let mut future = pin!(late.transaction(&mut operations));
        assert!(future.as_mut().poll(&mut context).is_pending());
        clock.advance(Config::DEFAULT.patience);
        let polled = future.as_mut().poll(&mut context);
        assert_eq!(polled, Poll::Ready(Err(Error::QueueFull)));
    }
    drop(kept);
    goes_on(&late, &probe);
}

#[test]
fn a_future_whose_device_is_dropped_leaves_the_message_that_it_was_driving_to_others() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    fn ran(completed: Completed<'_>) {
        assert_eq!(completed.result, Ok(()));
        RAN.fetch_add(1, Ordering::Relaxed);
    }
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let others = bus.device(device(1)).unwrap();
    let dropped = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts]);
    others.submit_then(&[Part::write(&[1])], &ran, 0).unwrap();
    let mut pending = dropped.submit(&[Part::write(&[2])]).unwrap();
    let (woken, waker) = waker(false);
    let mut context = Context::from_waker(&waker);
    {
        let mut future = pin!(pending.finished());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!(probe.selected(), Some(1));
        drop(dropped);
        assert_ne!(woken.0.load(Ordering::Relaxed), 0);
        let polled = future.as_mut().poll(&mut context);
        assert_eq!(polled, Poll::Ready(Err(Error::Cancelled)));
    }
    probe.complete();
    bus.on_interrupt();
    bus.poll(now(&clock));
    assert_eq!(RAN.load(Ordering::Relaxed), 1);
    goes_on(&others, &probe);
}

#[test]
fn a_future_that_comes_late_finds_its_message_through_and_lets_others_be() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let mut late = bus.device(device(1)).unwrap();
    let other = bus.device(device(2)).unwrap();
    probe.next(&[Act::NeverInterrupts, Act::Interrupts]);
    let (_, waker) = waker(false);
    let mut context = Context::from_waker(&waker);
    let mut operations = [Operation::Write(&[1])];
    {
        let mut future = pin!(late.transaction(&mut operations));
        assert!(future.as_mut().poll(&mut context).is_pending());
        clock.advance(Nanos::from_secs(1));
        bus.poll(now(&clock));
        let mut others = other.submit(&[Part::write(&[3])]).unwrap();
        let polled = future.as_mut().poll(&mut context);
        assert_eq!(polled, Poll::Ready(Err(Error::Timeout { transfer: 0 })));
        // It has not begun what it would have had to leave.
        assert_eq!(probe.selected(), None);
        let mut finished = pin!(others.finished());
        assert!(finished.as_mut().poll(&mut context).is_pending());
        probe.complete();
        bus.on_interrupt();
        assert_eq!(finished.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    }
    assert_eq!(probe.sent(), [[3]]);
    goes_on(&other, &probe);
}
