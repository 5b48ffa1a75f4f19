//! Saving and restoring the registers that a guest has written.

use serde::{Deserialize, Serialize};

use super::function::Function;
use super::host_bridge::HostBridge;
use super::ports::KEPT;
use super::tree::FunctionId;

/// Saved state of a [`HostBridge`]: the register changes that guest writes made.
///
/// Functions are not included: the VMM builds the bridge with them. Nor are bits that only a device
/// can change, or its internal state. The device restores these itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    index: u32,
    /// For each place: registers that differ from their reset values; `None` if the place is empty.
    functions: Vec<Option<Vec<(u16, u8)>>>,
}

impl HostBridge {
    /// Returns the state that the guest's writes made.
    pub fn save(&self) -> State {
        State {
            index: self.index,
            functions: self
                .functions()
                .map(|(_, function)| function.map(Function::changed))
                .collect(),
        }
    }

    /// Restores the saved state of a bridge with the same functions in the same places.
    ///
    /// The state may be untrusted. Values that no guest could have written are ignored: other bits,
    /// registers and places.
    pub fn restore(&mut self, state: &State) {
        self.index = state.index & KEPT;
        let places = self.functions().count();
        for (n, saved) in state.functions.iter().take(places).enumerate() {
            if let Some(saved) = saved {
                self.tree
                    .change(FunctionId(n), |function| function.restore(saved));
            }
        }
    }
}

impl Function {
    fn changeable(&self, at: usize) -> u8 {
        self.writable[at] | self.clears[at]
    }

    fn changed(&self) -> Vec<(u16, u8)> {
        let both = self.bytes.iter().zip(self.after_reset.iter()).enumerate();
        both.filter(|&(at, (is, was))| (is ^ was) & self.changeable(at) != 0)
            .map(|(at, (is, _))| (at as u16, is & self.changeable(at)))
            .collect()
    }

    fn restore(&mut self, saved: &[(u16, u8)]) {
        for at in 0..self.bytes.len() {
            self.take(at, self.after_reset[at]);
        }
        for &(at, value) in saved {
            if usize::from(at) < self.bytes.len() {
                self.take(at.into(), value);
            }
        }
    }

    fn take(&mut self, at: usize, value: u8) {
        let changeable = self.changeable(at);
        self.bytes[at] = self.bytes[at] & !changeable | value & changeable;
    }
}
