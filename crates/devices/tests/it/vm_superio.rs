//! One program, compiled with `vm-superio` and with our adapter: the `use` line differs. Then any
//! guest on both.

use std::cell::Cell;
use std::convert::Infallible;

use nostall_devices::uart::{LineStatus, Transmit, vm_superio as ours};
use nostall_uart::registers::{FCR, IER, IIR, LCR, LSR, MCR, RBR, THR, iir, lcr, lsr, mcr};
use proptest::prelude::*;
use vm_superio as theirs;

mod with_theirs {
    use ::vm_superio;

    include!("vm_superio/program.rs");
}

mod with_ours {
    use nostall_devices::uart::vm_superio;

    include!("vm_superio/program.rs");
}

#[derive(Debug, Default)]
struct Count(Cell<u32>);

impl theirs::Trigger for Count {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }
}

impl ours::Trigger for Count {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        theirs::Trigger::trigger(self)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u8, u8),
    Read(u8),
    Input(Vec<u8>),
}

fn any_step() -> impl Strategy<Value = Step> {
    // A 16550A has five bits in its MCR.
    let write = (0u8..=8, any::<u8>()).prop_map(|(register, value)| {
        let bits = if usize::from(register) == MCR {
            0x1f
        } else {
            0xff
        };
        Step::Write(register, value & bits)
    });
    let enable = (0u8..4).prop_map(|bits| Step::Write(IER as u8, bits));
    let input = proptest::collection::vec(any::<u8>(), 0..80).prop_map(Step::Input);
    prop_oneof![
        3 => write,
        1 => Just(Step::Write(LCR as u8, 3)),
        1 => Just(Step::Write(MCR as u8, 8)),
        2 => enable,
        4 => (0u8..=8).prop_map(Step::Read),
        2 => Just(Step::Read(IIR as u8)),
        1 => input,
    ]
}

proptest! {
    #[test]
    fn any_guest_sees_the_same_registers_and_interrupts(steps in proptest::collection::vec(any_step(), 0..200)) {
        let mut our = ours::Serial::new(Count::default(), Vec::new());
        let mut their = theirs::Serial::new(Count::default(), Vec::new());
        for step in steps {
            // A byte that loopback has no room for is an overrun here, and nothing there.
            let looped = our.state().modem_control & mcr::LOOP != 0;
            if our.fifo_capacity() == 0 && looped && matches!(step, Step::Write(0, _)) {
                continue;
            }
            match &step {
                Step::Write(register, value) => {
                    our.write(*register, *value).unwrap();
                    their.write(*register, *value).unwrap();
                }
                Step::Read(register) => {
                    let (our, their) = (our.read(*register), their.read(*register));
                    let same = match usize::from(*register) {
                        IIR => 0,
                        LSR => !lsr::OVERRUN,
                        _ => 0xff,
                    };
                    prop_assert_eq!(our & same, their & same, "{:?}", step);
                }
                Step::Input(bytes) => {
                    let our = our.enqueue_raw_bytes(bytes).map_err(|error| error.to_string());
                    let their = their.enqueue_raw_bytes(bytes).map_err(|error| error.to_string());
                    prop_assert_eq!(our, their);
                }
            }
            let our_interrupt = our.interrupt_evt().0.take() > 0;
            let their_interrupt = their.interrupt_evt().0.take() > 0;
            prop_assert_eq!(our_interrupt, their_interrupt, "{:?}", step);
            prop_assert_eq!(our.fifo_capacity(), their.fifo_capacity());
            prop_assert_eq!(our.writer(), their.writer());
            prop_assert_eq!(our.state().in_buffer, their.state().in_buffer);
        }
    }
}

proptest! {
    #[test]
    fn a_guest_sees_no_difference_if_the_vmm_takes_every_offer(steps in proptest::collection::vec(any_step(), 0..200)) {
        let mut trapped = ours::Serial::new(Count::default(), Vec::new());
        let mut offered = ours::Serial::new(Count::default(), Vec::new());
        let mut collected = Vec::new();
        for step in steps {
            if let Step::Write(register, value) = step {
                trapped.write(register, value).unwrap();
                if usize::from(register) == THR && offered.offer().transmit == Transmit::Collect {
                    collected.push(value);
                    continue;
                }
            }
            let offer = offered.offer().line_status;
            for byte in collected.drain(..) {
                offered.write(THR as u8, byte).unwrap();
            }
            match &step {
                Step::Write(register, value) => offered.write(*register, *value).unwrap(),
                Step::Read(register) => {
                    let value = trapped.read(*register);
                    prop_assert_eq!(offered.read(*register), value, "{:?}", step);
                    if let (LSR, LineStatus::Memory(status)) = (usize::from(*register), offer) {
                        prop_assert_eq!(status, value);
                    }
                }
                Step::Input(bytes) => {
                    let taken = trapped.enqueue_raw_bytes(bytes).map_err(|error| error.to_string());
                    let offered = offered.enqueue_raw_bytes(bytes).map_err(|error| error.to_string());
                    prop_assert_eq!(offered, taken);
                }
            }
            prop_assert_eq!(offered.interrupt_evt().0.take(), trapped.interrupt_evt().0.take());
            prop_assert_eq!(offered.writer(), trapped.writer());
            prop_assert_eq!(offered.state(), trapped.state());
        }
    }
}

#[test]
fn two_pending_interrupts_are_identified_one_after_the_other() {
    let mut port = ours::Serial::new(Count::default(), Vec::new());
    port.write(IER as u8, 3).unwrap();
    port.enqueue_raw_bytes(b"ab").unwrap();
    let id = |port: &mut ours::Serial<Count, _, _>| port.read(IIR as u8) & (iir::ID | iir::NONE);
    for byte in *b"ab" {
        assert_eq!(id(&mut port), iir::RECEIVED_DATA);
        assert_eq!(port.read(RBR as u8), byte);
    }
    assert_eq!(id(&mut port), iir::TRANSMITTER_EMPTY);
    assert_eq!(id(&mut port), iir::NONE);
}

#[test]
fn the_guest_learns_of_a_byte_that_loopback_has_no_room_for() {
    let mut port = ours::Serial::new(Count::default(), Vec::new());
    port.write(MCR as u8, mcr::LOOP).unwrap();
    (0..64).for_each(|byte| port.write(THR as u8, byte).unwrap());
    assert_eq!(port.read(LSR as u8) & lsr::OVERRUN, 0);
    port.write(THR as u8, 64).unwrap();
    let state = port.state();
    let trigger = Count::default();
    let restored = ours::Serial::from_state(&state, trigger, ours::NoEvents, Vec::new());
    for mut port in [port, restored.unwrap()] {
        assert_eq!(port.read(LSR as u8) & lsr::OVERRUN, lsr::OVERRUN);
        assert_eq!(port.read(LSR as u8) & lsr::OVERRUN, 0);
    }
}

#[test]
fn a_failed_trigger_is_tried_again() {
    struct Broken(Cell<bool>);
    impl ours::Trigger for Broken {
        type E = &'static str;
        fn trigger(&self) -> Result<(), &'static str> {
            if self.0.replace(false) {
                Err("broken")
            } else {
                Ok(())
            }
        }
    }
    let mut port = ours::Serial::new(Broken(Cell::new(true)), Vec::new());
    assert!(port.write(IER as u8, 1).is_ok());
    assert!(port.enqueue_raw_bytes(b"a").is_err());
    assert_eq!(port.state().in_buffer, b"a", "it is received");
    port.interrupt_evt().0.set(true);
    assert!(port.enqueue_raw_bytes(b"b").is_err(), "tried again");
    assert!(port.enqueue_raw_bytes(b"c").is_ok());
    port.interrupt_evt().0.set(true);
    assert!(port.enqueue_raw_bytes(b"d").is_ok(), "not identified yet");
}

#[test]
fn a_saved_state_has_only_bits_that_the_registers_have() {
    let state = ours::SerialState {
        interrupt_enable: 0xff,
        interrupt_identification: 0xff,
        line_status: 0xff,
        modem_control: 0xff,
        modem_status: 0xff,
        ..ours::SerialState::default()
    };
    let port = ours::Serial::from_state(&state, Count::default(), ours::NoEvents, Vec::new());
    let mut port = port.unwrap();
    assert_eq!((port.read(IER as u8), port.read(MCR as u8)), (0x0f, 0x1f));
    assert_eq!(port.read(LSR as u8), lsr::THRE | lsr::TEMT | lsr::OVERRUN);
    assert_eq!(port.read(FCR as u8), iir::FIFOS | iir::TRANSMITTER_EMPTY);
    assert_eq!(port.read(LCR as u8) & lcr::DLAB, 0);
}
