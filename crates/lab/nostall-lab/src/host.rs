//! The machine of a document of figures, written and read.

use serde::{Deserialize, Serialize};

/// Machine that measured.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Version of nostall.
    pub nostall: Option<String>,
    pub os: Option<String>,
    pub arch: Option<String>,
    pub cpus: Option<usize>,
    pub cpu: Option<String>,
    /// Version of the QEMU that measured, or that booted the peers.
    pub qemu: Option<String>,
    /// The machine that QEMU emulates.
    pub machine: Option<String>,
    pub kvm: Option<Kvm>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
}

/// Properties of the machine's KVM. Times on one that interprets guest code hold for it alone.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kvm {
    pub ns_per_instruction: u64,
    pub interprets: bool,
    pub uart: String,
}

/// A peer, as `host.peers` of a document lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub name: String,
    /// Experiment in which the peer failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(flatten)]
    pub state: State,
}

/// Result of looking for a peer and booting it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Release of the Linux that was measured.
    Release(String),
    /// Text that says how to get it.
    Missing(String),
    /// Reason, with the last lines of the console.
    Failed(String),
}

impl Peer {
    /// Returns the line for a reader, unless the peer was measured.
    pub fn note(&self) -> Option<String> {
        match &self.state {
            State::Release(_) => None,
            State::Missing(why) => Some(format!("{}: {why}", self.name)),
            State::Failed(why) => Some(format!("{}: not measured: {why}", self.name)),
        }
    }
}
