//! A controller that records its calls, and fails on request.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nostall_devices::VirtualClock;
use nostall_io::{Clock, Nanos};
use nostall_spi::{
    AsyncController, Bare, Bus, Capabilities, Config, Controller, Device, Error, Fault, Level,
    Mode, Progress, Select, Settings, Slots, Transfer, Wire, Words,
};

/// Ends a hang.
pub const HANG_LIMIT: Duration = Duration::from_secs(300);

/// Calls of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Prepare,
    Unprepare,
    /// Mode, clock in hertz, and word size in bits.
    Set(Mode, u32, u32),
    Select(u8),
    Release(u8),
    /// All words of a transfer, recorded when it completes.
    Sent(Vec<u32>),
    Abort,
}
pub use Told::*;

/// Behavior of the next transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Well,
    /// Takes this time.
    Takes(Nanos),
    /// Interrupts when it completes, which [`Probe::complete`] triggers.
    Interrupts,
    /// Completes at this poll.
    InterruptsAfter(u32),
    Never,
    /// Never completes, and requests its next call at once.
    NeverAtOnce,
    NeverInterrupts,
    Fails(Fault),
    /// Fails after one word.
    FailsInTheMiddle,
    /// Reports its end before it is complete.
    StopsShort,
    Panics,
}

#[derive(Debug, Default)]
struct State {
    told: Vec<Told>,
    acts: VecDeque<Act>,
    /// Behavior of the transfer that is running.
    act: Option<Act>,
    sent: Vec<u32>,
    complete: bool,
    selected: Option<u8>,
    line: Option<u8>,
    prepare_fails: u32,
    /// Number of further calls that the transfer requests.
    pieces: u32,
}

/// Access to the controller from outside of the bus.
#[derive(Clone, Debug, Default)]
pub struct Probe(Arc<Mutex<State>>);

impl Probe {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the calls since the last use of this function.
    pub fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.state().told)
    }

    /// Returns the words sent since the last use of this function or of `told`.
    pub fn sent(&self) -> Vec<Vec<u32>> {
        let told = self.told().into_iter();
        told.filter_map(|told| match told {
            Sent(words) => Some(words),
            _ => None,
        })
        .collect()
    }

    /// Returns the number of transfers since the last use of `told`.
    pub fn count(&self) -> usize {
        let state = self.state();
        state
            .told
            .iter()
            .filter(|told| matches!(told, Sent(_)))
            .count()
    }

    pub fn next(&self, acts: &[Act]) {
        self.state().acts.extend(acts);
    }

    /// Completes the transfer that is running.
    pub fn complete(&self) {
        self.state().complete = true;
    }

    pub fn selected(&self) -> Option<u8> {
        self.state().selected
    }

    /// Makes the next transfer take this number of pieces.
    pub fn pieces(&self, pieces: u32) {
        self.state().pieces = pieces;
    }

    pub fn prepare_fails(&self, times: u32) {
        self.state().prepare_fails = times;
    }
}

/// A controller that records its calls.
pub struct Probed {
    pub probe: Probe,
    pub capabilities: Capabilities,
    /// Clock in hertz that is set for any requested clock; `None` sets the requested one.
    pub rate: Option<u32>,
}

impl Controller for Probed {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn prepare(&mut self) -> Result<(), Fault> {
        let mut state = self.probe.state();
        if state.prepare_fails > 0 {
            state.prepare_fails -= 1;
            return Err(Fault::Gone);
        }
        state.told.push(Prepare);
        Ok(())
    }

    fn unprepare(&mut self) {
        self.probe.state().told.push(Unprepare);
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        let mut state = self.probe.state();
        state.line = match wire.select {
            Select::Line(number, _) => Some(number),
            Select::None => None,
        };
        state
            .told
            .push(Set(wire.mode, wire.clock, wire.word.bits()));
        Ok(self.rate.unwrap_or(wire.clock))
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        let mut state = self.probe.state();
        if let Some(line) = state.line {
            match level {
                Level::Asserted => {
                    assert_eq!(state.selected, None, "selected twice");
                    state.selected = Some(line);
                    state.told.push(Select(line));
                }
                Level::Released => {
                    assert_eq!(state.selected, Some(line), "released twice");
                    state.selected = None;
                    state.told.push(Release(line));
                }
            }
        }
        Ok(())
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        let mut state = self.probe.state();
        let state = &mut *state;
        let first = state.act.is_none();
        let act = match state.act {
            Some(act) => act,
            None => state.acts.pop_front().unwrap_or(Act::Well),
        };
        state.act = Some(act);
        match act {
            Act::Takes(span) if first => {
                let pieces = u64::from(state.pieces.max(1));
                return Ok(Progress::After(span / pieces));
            }
            Act::Takes(span) if state.pieces > 1 => {
                let pieces = u64::from(state.pieces);
                state.pieces -= 1;
                return Ok(Progress::After(span / pieces));
            }
            Act::Interrupts if !state.complete => return Ok(Progress::Interrupt),
            Act::InterruptsAfter(polls) if polls > 0 => {
                state.act = Some(Act::InterruptsAfter(polls - 1));
                return Ok(Progress::Interrupt);
            }
            Act::Never => return Ok(Progress::After(Nanos::from_millis(1))),
            Act::NeverAtOnce => return Ok(Progress::After(Nanos::ZERO)),
            Act::NeverInterrupts => return Ok(Progress::Interrupt),
            Act::Fails(fault) => return Err(fault),
            Act::FailsInTheMiddle => {
                words.next_word();
                return Err(Fault::Gone);
            }
            Act::StopsShort => return Ok(Progress::Done),
            Act::Panics => panic!("on purpose"),
            _ => {}
        }
        while let Some(word) = words.next_word() {
            state.sent.push(word);
            // Each received word is the sent word plus one.
            words.receive(word.wrapping_add(1));
        }
        state.complete = false;
        state.act = None;
        let sent = std::mem::take(&mut state.sent);
        state.told.push(Sent(sent));
        Ok(Progress::Done)
    }

    fn abort(&mut self) -> Result<(), Fault> {
        let mut state = self.probe.state();
        state.selected = None;
        state.act = None;
        state.complete = false;
        state.sent.clear();
        state.told.push(Abort);
        Ok(())
    }
}

impl AsyncController for Probed {}

pub type Virtual = Bus<Probed, Bare<VirtualClock>, Slots<4, 4, 16>>;

/// A bus in virtual time, without a worker.
pub fn bus(config: Config) -> (Virtual, Probe, VirtualClock) {
    let (probe, clock) = (Probe::default(), VirtualClock::new());
    let bus = Bus::sized(controller(&probe), Bare(clock.clone())).with_config(config);
    (bus, probe, clock)
}

pub fn controller(probe: &Probe) -> Probed {
    Probed {
        probe: probe.clone(),
        capabilities: Capabilities::all(4),
        rate: None,
    }
}

/// Returns settings of a device at 1 MHz. A byte takes 8 us.
pub fn device(line: u8) -> Settings {
    Settings::new(1_000_000, line)
}

pub fn now(clock: &VirtualClock) -> Nanos {
    clock.now()
}

/// A device on the bus in virtual time.
pub type VirtualDevice<'b> = Device<'b, Probed, Bare<VirtualClock>>;

/// Checks that the bus works, and that earlier messages have no effect.
pub fn goes_on(device: &VirtualDevice<'_>, probe: &Probe) {
    assert_eq!(probe.selected(), None);
    probe.told();
    let mut came = [0];
    device
        .sync(&mut [Transfer::transfer(&[41], &mut came)])
        .unwrap();
    assert_eq!((came, probe.sent()), ([42], vec![vec![41]]));
    assert_eq!(probe.selected(), None);
}

pub fn failed<T>(transfer: usize, fault: Fault) -> Result<T, Error> {
    Err(Error::Failed { transfer, fault })
}
