//! State of each peer, for readers of the figures.

use serde::Serialize;

/// Peers of a run, and the machine that they booted on.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    pub peers: Vec<Peer>,
    /// Version of the QEMU that booted them.
    pub qemu: Option<String>,
}

impl Beside {
    /// Adds the peers of another experiment. Equal entries are kept once.
    pub fn add(&mut self, other: &Self) {
        for peer in &other.peers {
            if !self.peers.contains(peer) {
                self.peers.push(peer.clone());
            }
        }
        self.qemu = self.qemu.take().or_else(|| other.qemu.clone());
    }
}

/// A peer, as `host.peers` of a document lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    pub name: &'static str,
    /// Experiment in which the peer failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'static str>,
    #[serde(flatten)]
    pub state: State,
}

/// Result of looking for a peer and booting it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &'static str, state: State) -> Beside {
        let path = None;
        Beside {
            peers: vec![Peer { name, path, state }],
            qemu: Some("7.2".to_owned()),
        }
    }

    #[test]
    fn a_peer_of_several_experiments_has_one_entry_for_each_state() {
        let release = || State::Release("6.1.192".to_owned());
        let mut all = Beside::default();
        all.add(&peer("linux-6.1", release()));
        all.add(&peer("linux-6.1", release()));
        all.add(&peer("linux-6.1", State::Failed("it hung".to_owned())));
        assert_eq!(all.peers.len(), 2);
        assert_eq!(all.qemu.as_deref(), Some("7.2"));
        let json = serde_json::to_string(&all.peers).unwrap();
        let expected =
            r#"[{"name":"linux-6.1","release":"6.1.192"},{"name":"linux-6.1","failed":"it hung"}]"#;
        assert_eq!(json, expected);
    }
}
