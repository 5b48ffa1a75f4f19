//! Effects of a message on the wires, including every edge.

use crate::common::*;
use nostall_io::Nanos;
use nostall_spi::{
    BitOrder, Capabilities, Config, Error, Fault, Invalid, Locked, MODE_0, MODE_1, MODE_3,
    Polarity, Select as Line, Settings, Transfer, Wires, WordSize,
};
use proptest::prelude::*;

const US: Nanos = Nanos::from_micros(1);

fn bytes(bytes: &[u8]) -> Told {
    Sent(bytes.iter().map(|&byte| byte.into()).collect())
}

#[test]
fn transfers_of_a_message_share_one_selection() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(2)).unwrap();
    let (mut read, mut both, mut place) = ([0; 2], [0; 3], [7, 8]);
    device
        .sync(&mut [
            Transfer::write(&[1, 2]),
            Transfer::read(&mut read),
            Transfer::transfer(&[5, 6], &mut both),
            Transfer::in_place(&mut place),
        ])
        .unwrap();
    assert_eq!((read, both, place), ([1, 1], [6, 7, 1], [8, 9]));
    assert_eq!(
        probe.told(),
        [
            Prepare,
            Set(MODE_0, 1_000_000, 8),
            Select(2),
            bytes(&[1, 2]),
            bytes(&[0, 0]),
            bytes(&[5, 6, 0]),
            bytes(&[7, 8]),
            Release(2),
        ]
    );
}

#[test]
fn the_controller_is_set_only_when_something_changes() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let one = bus.device(device(1).mode(MODE_3)).unwrap();
    let two = bus.device(device(2)).unwrap();
    one.write(&[1]).unwrap();
    one.write(&[2]).unwrap();
    two.write(&[3]).unwrap();
    let set = |told: &Told| matches!(told, Set(..));
    let told = probe.told();
    assert_eq!(
        told.iter().filter(|told| set(told)).collect::<Vec<_>>(),
        [&Set(MODE_3, 1_000_000, 8), &Set(MODE_0, 1_000_000, 8)]
    );
}

#[test]
fn clock_and_word_size_may_change_within_a_message() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(0)).unwrap();
    let sixteen = 0x1234_u16.to_ne_bytes();
    let mut read = [0; 4];
    device
        .sync(&mut [
            Transfer::write(&[1]).clock(400_000),
            Transfer::write(&sixteen).word(WordSize::Bits16),
            Transfer::read(&mut read).word(WordSize::Bits32),
        ])
        .unwrap();
    assert_eq!(u32::from_ne_bytes(read), 1);
    assert_eq!(
        probe.told()[1..],
        [
            Set(MODE_0, 400_000, 8),
            Select(0),
            bytes(&[1]),
            Set(MODE_0, 1_000_000, 16),
            Sent(vec![0x1234]),
            Set(MODE_0, 1_000_000, 32),
            Sent(vec![0]),
            Release(0),
        ]
    );
}

#[test]
fn a_device_may_be_deselected_in_mid_message() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    device
        .sync(&mut [
            Transfer::write(&[1]).cs_change(US * 7),
            Transfer::write(&[2]).delay(US * 5),
        ])
        .unwrap();
    assert_eq!(
        probe.told()[2..],
        [
            Select(1),
            bytes(&[1]),
            Release(1),
            Select(1),
            bytes(&[2]),
            Release(1)
        ]
    );
    assert_eq!(now(&clock), US * 12);
}

#[test]
fn setup_and_hold_times_are_observed_at_every_edge() {
    let (bus, _, clock) = bus(Config::DEFAULT);
    let settings = Settings {
        setup: US * 2,
        hold: US * 3,
        ..device(1)
    };
    let device = bus.device(settings).unwrap();
    device
        .sync(&mut [Transfer::write(&[1]).cs_change(US), Transfer::write(&[2])])
        .unwrap();
    assert_eq!(now(&clock), US * (2 + 3 + 1 + 2 + 3));
}

#[test]
fn an_empty_transfer_transfers_nothing_and_is_a_pause() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    device
        .sync(&mut [Transfer::pause(US * 100), Transfer::read(&mut [])])
        .unwrap();
    assert_eq!(probe.told()[2..], [Select(1), Release(1)]);
    assert_eq!(now(&clock), US * 100);
}

#[test]
fn without_a_line_no_line_changes() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus
        .device(Settings::new(1_000_000, 0).select(Line::None))
        .unwrap();
    device.write(&[0xff; 10]).unwrap();
    assert_eq!(probe.told()[2..], [bytes(&[0xff; 10])]);
}

#[test]
fn the_value_sent_while_reading_can_be_chosen() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let settings = Settings {
        fill: 0xff,
        ..device(0)
    };
    let device = bus.device(settings).unwrap();
    let mut both = [0; 2];
    device
        .sync(&mut [
            Transfer::read(&mut [0]),
            Transfer::transfer(&[1], &mut both),
        ])
        .unwrap();
    assert_eq!(probe.sent(), [vec![0xff], vec![1, 0xff]]);
}

#[test]
fn an_invalid_message_is_refused_with_the_number_of_the_wrong_transfer() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let three_wire = Settings {
        wires: Wires::Three,
        ..device(0)
    };
    let three = bus.device(three_wire).unwrap();
    let device = bus.device(device(0)).unwrap();
    let good = || Transfer::write(&[1, 2, 3, 4]);
    let invalid = |transfer, why| Err(Error::Invalid { transfer, why });
    let word = WordSize::Bits16;
    assert_eq!(device.sync(&mut []), Err(Error::NoTransfers));
    assert_eq!(
        device.sync(&mut [good(), good().clock(0)]),
        invalid(1, Invalid::ClockZero)
    );
    assert_eq!(
        device.sync(&mut [good(), Transfer::read(&mut [0; 3]).word(word)]),
        invalid(1, Invalid::PartOfWord(word))
    );
    assert_eq!(
        device.sync(&mut [good(), good().cs_change(US)]),
        invalid(1, Invalid::CsChangeAtEnd)
    );
    assert_eq!(
        three.sync(&mut [good(), Transfer::transfer(&[1], &mut [0])]),
        invalid(1, Invalid::BothOnThreeWires)
    );
    assert_eq!(three.sync(&mut [Transfer::read(&mut [0])]), Ok(()));
    assert_eq!(probe.sent(), [[0]]);
}

#[test]
fn a_transfers_own_clock_is_limited_to_the_controllers_fastest() {
    let (probe, clock) = (Probe::default(), nostall_devices::VirtualClock::new());
    let mut limited = controller(&probe);
    limited.capabilities = Capabilities::all(1).fastest(20_000_000);
    let bus: Virtual = nostall_spi::Bus::sized(limited, nostall_spi::Bare(clock));
    let device = bus.device(device(0)).unwrap();
    let message = || [Transfer::write(&[1]).clock(50_000_000)];
    device.sync(&mut message()).unwrap();
    let set = Set(MODE_0, 20_000_000, 8);
    assert_eq!(probe.told()[1], set);
    device.write(&[1]).unwrap();
    probe.told();
    let mut stored = device.submit(&mut message()).unwrap();
    bus.poll();
    assert_eq!(stored.wait(), Ok(()));
    assert_eq!(probe.told()[0], set);
}

#[test]
fn a_controller_is_set_again_after_outside_access_to_it() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(0)).unwrap();
    device.write(&[1]).unwrap();
    probe.told();
    assert_eq!(bus.with_controller(|_| ()), Some(()));
    device.write(&[2]).unwrap();
    assert_eq!(probe.told()[0], Set(MODE_0, 1_000_000, 8));
}

#[test]
fn a_controller_that_reports_a_clock_of_0_hertz_is_refused() {
    let (probe, clock) = (Probe::default(), nostall_devices::VirtualClock::new());
    let mut stopped = controller(&probe);
    stopped.rate = Some(0);
    let bus: Virtual = nostall_spi::Bus::sized(stopped, nostall_spi::Bare(clock));
    let device = bus.device(device(0)).unwrap();
    for _ in 0..2 {
        assert_eq!(device.write(&[1]), failed(0, Fault::Refused));
    }
    assert_eq!(probe.count(), 0);
}

#[test]
fn a_message_beyond_the_controllers_capabilities_is_refused_before_it_begins() {
    let probe = Probe::default();
    let mut least = controller(&probe);
    least.capabilities = Capabilities::least(1).slowest(1_000).longest(8);
    let clock = nostall_devices::VirtualClock::new();
    let bus: Virtual = nostall_spi::Bus::sized(least, nostall_spi::Bare(clock));
    let good = device(0);
    let refused = |settings: Settings| bus.device(settings).unwrap_err();
    assert_eq!(refused(good.mode(MODE_1)), Invalid::Mode(MODE_1));
    assert_eq!(refused(device(1)), Invalid::Line(1));
    let with = |change: fn(&mut Settings)| {
        let mut settings = good;
        change(&mut settings);
        settings
    };
    assert_eq!(
        refused(with(|it| it.order = BitOrder::LsbFirst)),
        Invalid::LsbFirst
    );
    assert_eq!(
        refused(with(|it| it.wires = Wires::Three)),
        Invalid::ThreeWire
    );
    assert_eq!(
        refused(with(|it| it.select = Line::Line(0, Polarity::ActiveHigh))),
        Invalid::ActiveHigh
    );
    assert_eq!(
        refused(with(|it| it.word = WordSize::Bits32)),
        Invalid::Word(WordSize::Bits32)
    );
    assert_eq!(
        refused(with(|it| it.clock = 999)),
        Invalid::TooSlow {
            asked: 999,
            slowest: 1_000
        }
    );
    assert_eq!(refused(with(|it| it.clock = 0)), Invalid::ClockZero);

    let device = bus.device(good).unwrap();
    let invalid = |why| Err(Error::Invalid { transfer: 0, why });
    assert_eq!(
        device.sync(&mut [Transfer::write(&[0; 2]).word(WordSize::Bits16)]),
        invalid(Invalid::Word(WordSize::Bits16))
    );
    assert_eq!(device.write(&[0; 9]), invalid(Invalid::TooLong(8)));
    assert_eq!(probe.told(), []);
}

#[test]
fn several_messages_in_a_row_are_not_interrupted() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let one = bus.device(device(1)).unwrap();
    let two = bus.device(device(2)).unwrap();
    let mut locked: Locked<'_, _, _> = one.lock().unwrap();
    locked.sync(&mut [Transfer::write(&[1])]).unwrap();
    assert_eq!(two.write(&[9]), Err(Error::WouldBlock));
    locked.sync(&mut [Transfer::write(&[2])]).unwrap();
    assert_eq!(locked.sync(&mut []), Err(Error::NoTransfers));
    drop(locked);
    two.write(&[3]).unwrap();
    assert_eq!(probe.sent(), [[1], [2], [3]]);
}

#[test]
fn a_message_submitted_during_a_lock_of_its_device_runs_after_the_locks_messages() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let before = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    let mut locked = device.lock().unwrap();
    let during = device.submit(&mut [Transfer::write(&[4])]).unwrap();
    locked.sync(&mut [Transfer::write(&[2])]).unwrap();
    locked.sync(&mut [Transfer::write(&[3])]).unwrap();
    drop(locked);
    assert!(before.is_done() && during.is_done());
    assert_eq!(probe.sent(), [[1], [2], [3], [4]]);
}

#[test]
fn a_submitted_transfer_that_sends_more_than_it_receives_returns_as_many_bytes_as_its_buffer() {
    let (bus, _, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let mut two = [0; 2];
    let message = &mut [Transfer::transfer(&[1, 2, 3, 4], &mut two)];
    let stored = device.submit(message).unwrap();
    bus.poll();
    let mut came = [0; 4];
    assert_eq!((stored.received(0, &mut came), came), (2, [2, 3, 0, 0]));
    let mut five = [0; 5];
    let message = &mut [Transfer::transfer(&[1, 2], &mut five)];
    let stored = device.submit(message).unwrap();
    bus.poll();
    let mut came = [0; 5];
    assert_eq!((stored.received(0, &mut came), came), (5, [2, 3, 1, 1, 1]));
}

#[test]
fn everything_is_counted() {
    let (bus, _, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    device.write_then_read(&[1, 2], &mut [0; 3]).unwrap();
    device.sync(&mut [Transfer::write(&[0; 50])]).unwrap();
    let statistics = bus.statistics();
    assert_eq!((statistics.messages, statistics.transfers), (2, 3));
    assert_eq!((statistics.bytes, statistics.errors), (55, 0));
    assert_eq!((statistics.sync, statistics.sync_immediate), (2, 2));
    assert_eq!((statistics.preparations, statistics.teardowns), (1, 0));
    assert_eq!((statistics.wakeups, statistics.asynchronous), (0, 0));
}

proptest! {
    /// Data of any kind of transfer arrives unchanged, and received data reaches its buffer.
    #[test]
    fn bytes_arrive_unchanged(
        messages in prop::collection::vec(
            prop::collection::vec((0..4_u8, prop::collection::vec(any::<u8>(), 0..9)), 1..6),
            1..5,
        )
    ) {
        let (bus, probe, _) = bus(Config::DEFAULT);
        let device = bus.device(device(0)).unwrap();
        for message in messages {
            let mut memory: Vec<_> = message
                .iter()
                .map(|(kind, sent)| (*kind, sent.clone(), sent.clone()))
                .collect();
            let mut transfers: Vec<_> = memory
                .iter_mut()
                .map(|(kind, sent, came)| match kind {
                    0 => Transfer::write(sent),
                    1 => Transfer::read(came),
                    2 => Transfer::transfer(sent, came),
                    _ => Transfer::in_place(came),
                })
                .collect();
            device.sync(&mut transfers).unwrap();
            let sent: Vec<Vec<u32>> = message
                .iter()
                .filter(|(_, sent)| !sent.is_empty())
                .map(|(kind, sent)| {
                    sent.iter().map(|&byte| if *kind == 1 { 0 } else { byte.into() }).collect()
                })
                .collect();
            prop_assert_eq!(probe.sent(), sent);
            for ((kind, sent, came), (_, before)) in memory.iter().zip(&message) {
                prop_assert_eq!(sent, before);
                let expected: Vec<u8> = before.iter().map(|&byte| match kind {
                    0 => byte,
                    1 => 1,
                    _ => byte.wrapping_add(1),
                }).collect();
                prop_assert_eq!(came, &expected);
            }
            prop_assert_eq!(probe.selected(), None);
        }
    }
}
