//! The SPI models respond to any bytes of a guest, with bounded memory.

use nostall_devices::VirtualClock;
use nostall_devices::spi::{Flash, Frame, Identifier, Mcp2515, SdCard, Target};
use nostall_io::Nanos;
use proptest::prelude::*;

/// An action of an SPI controller.
#[derive(Clone, Debug)]
enum Step {
    Select,
    Release,
    Exchange(Vec<u8>),
    Pass(u8),
    Wait(u64),
}

/// Generates bytes that are mostly valid commands.
fn bytes(commands: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let command = proptest::sample::select(commands);
    let free = proptest::collection::vec(any::<u8>(), 0..20);
    (command, free).prop_map(|(command, mut rest)| {
        rest.insert(0, command);
        rest
    })
}

fn steps(commands: &'static [u8]) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Select),
        2 => Just(Step::Release),
        4 => bytes(commands).prop_map(Step::Exchange),
        1 => proptest::collection::vec(any::<u8>(), 500..600).prop_map(Step::Exchange),
        1 => any::<u8>().prop_map(Step::Pass),
        1 => (0..200_000_000_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..60)
}

fn go(target: &mut impl Target, steps: &[Step], clock: &VirtualClock) {
    for step in steps {
        match step {
            Step::Select => target.select(),
            Step::Release => target.release(),
            Step::Exchange(bytes) => bytes.iter().for_each(|&byte| {
                target.exchange(byte);
            }),
            Step::Pass(byte) => target.pass(*byte),
            Step::Wait(ns) => clock.advance(Nanos(*ns)),
        }
    }
}

const CARD: &[u8] = &[
    0x40, 0x48, 0x49, 0x4a, 0x4c, 0x4d, 0x50, 0x51, 0x52, 0x58, 0x59, 0x57, 0x69, 0x77, 0x7a, 0x7b,
    0xfc, 0xfd, 0xfe,
];

const FLASH: &[u8] = &[
    0x9f, 0x05, 0x4b, 0x06, 0x04, 0xb7, 0xe9, 0x03, 0x13, 0x0b, 0x0c, 0x02, 0x12, 0x20, 0x21, 0x52,
    0x5c, 0xd8, 0xdc, 0xc7,
];

const CAN: &[u8] = &[
    0xc0, 0x03, 0x02, 0x05, 0x40, 0x41, 0x42, 0x44, 0x81, 0x87, 0x90, 0x92, 0x94, 0x96, 0xa0, 0xb0,
];

/// Returns an initialised card, so that most commands are valid.
fn initialised(clock: &VirtualClock) -> SdCard<VirtualClock, Vec<u8>> {
    let mut card = SdCard::new(clock.clone(), vec![7; 64 << 9]);
    (0..10).for_each(|_| card.pass(0xff));
    card.select();
    let mut command = |bytes: [u8; 6]| {
        bytes.into_iter().for_each(|byte| {
            card.exchange(byte);
        });
        (0..8)
            .map(|_| card.exchange(0xff))
            .find(|byte| *byte < 0x80)
    };
    assert_eq!(command([0x40, 0, 0, 0, 0, 0x95]), Some(1));
    assert_eq!(command([0x77, 0, 0, 0, 0, 0]), Some(1));
    assert_eq!(command([0x69, 0x40, 0, 0, 0, 0]), Some(1));
    clock.advance(Nanos::from_millis(50));
    assert_eq!(command([0x77, 0, 0, 0, 0, 0]), Some(0));
    assert_eq!(command([0x69, 0x40, 0, 0, 0, 0]), Some(0));
    card
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_card_answers_any_guest(steps in steps(CARD)) {
        let clock = VirtualClock::new();
        let mut card = initialised(&clock);
        go(&mut card, &steps, &clock);
        prop_assert_eq!(card.memory().len(), 64 << 9);
    }

    #[test]
    fn a_can_controller_answers_any_guest(
        steps in steps(CAN),
        id: u32,
        data in proptest::collection::vec(any::<u8>(), 0..10),
    ) {
        let clock = VirtualClock::new();
        let mut chip = Mcp2515::new();
        for part in steps.chunks(3) {
            go(&mut chip, part, &clock);
            chip.receive(&Frame::new(Identifier::Extended(id), &data));
            // There are three buffers.
            let sent = (0..5).take_while(|_| chip.transmit().is_some()).count();
            prop_assert!(sent <= 3);
        }
    }

    #[test]
    fn a_frame_sent_as_buffer_bytes_is_the_same_frame(
        id: u32,
        extended: bool,
        data in proptest::collection::vec(any::<u8>(), 0..=8),
    ) {
        let identifier = match extended {
            true => Identifier::Extended(id),
            false => Identifier::Standard(id as u16),
        };
        let frame = Frame::new(identifier, &data);
        let mut chip = Mcp2515::new();
        let mut say = |bytes: &[u8]| {
            chip.select();
            let came: Vec<_> = bytes.iter().map(|&byte| chip.exchange(byte)).collect();
            chip.release();
            came
        };
        say(&[0x02, 0x60, 0x60]);
        say(&[0x02, 0x0f, 0x00]);
        say(&[&[0x40][..], &frame.to_transmit()].concat());
        say(&[0x81]);
        prop_assert_eq!(chip.transmit(), Some(frame));
        prop_assert!(chip.receive(&frame));
        chip.select();
        let came: Vec<_> = [0x90].iter().chain(&[0; 13]).map(|&byte| chip.exchange(byte)).collect();
        chip.release();
        prop_assert_eq!(&came[1..], &frame.received()[..]);
        // READ RX BUFFER clears the flag.
        prop_assert!(chip.has_room());
    }
}

proptest! {
    // Each case allocates 32 MiB.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_flash_answers_any_guest(all in proptest::collection::vec(steps(FLASH), 4)) {
        let clock = VirtualClock::new();
        let mut flash = Flash::new(clock.clone());
        for steps in &all {
            go(&mut flash, steps, &clock);
        }
        prop_assert_eq!(flash.memory().len(), 32 << 20);
    }
}

#[test]
fn a_page_wraps_and_bits_are_only_cleared() {
    let clock = VirtualClock::new();
    let mut flash = Flash::new(clock.clone());
    let mut say = |bytes: &[u8]| {
        flash.select();
        let last = bytes.iter().map(|&byte| flash.exchange(byte)).last();
        flash.release();
        clock.advance(Nanos::from_millis(1));
        last.unwrap()
    };
    say(&[0x06]);
    say(&[0x12, 1, 0, 0, 0xfe, 0x0f, 0xf0, 0x3c]);
    // Without another WREN nothing is written.
    say(&[0x12, 1, 0, 0, 0, 0]);
    say(&[0x06]);
    say(&[0x12, 1, 0, 0, 0xfe, 0x81]);
    let read = |say: &mut dyn FnMut(&[u8]) -> u8, low| say(&[0x13, 1, 0, 0, low, 0]);
    assert_eq!(read(&mut say, 0xfe), 0x01);
    assert_eq!(read(&mut say, 0xff), 0xf0);
    assert_eq!(read(&mut say, 0x00), 0x3c);
    assert_eq!(read(&mut say, 0x01), 0xff);
    // A three-byte address selects another place. After EN4B, the command takes four bytes.
    assert_eq!(say(&[0x03, 0, 0, 0xff, 0]), 0xff);
    say(&[0xb7]);
    assert_eq!(say(&[0x03, 1, 0, 0, 0xff, 0]), 0xf0);
    // A partial address, or one byte too many, erases nothing.
    for bytes in [&[0x21, 1, 0, 0][..], &[0x21, 1, 0, 0, 0, 0]] {
        say(&[0x06]);
        say(bytes);
        assert_eq!(say(&[0x13, 1, 0, 0, 0xff, 0]), 0xf0);
    }
    say(&[0x06]);
    say(&[0x21, 1, 0, 0x0f, 0xff]);
    // While busy, it accepts only the status commands.
    assert_eq!(say(&[0x13, 1, 0, 0, 0xff, 0]), 0xff);
    assert_eq!(say(&[0x05, 0]), 1);
    clock.advance(Nanos::from_millis(70));
    assert_eq!(say(&[0x05, 0]), 0);
    assert_eq!(say(&[0x13, 1, 0, 0, 0xff, 0]), 0xff);
    assert_eq!(say(&[0x9f, 0, 0, 0]), 0x19);
}
