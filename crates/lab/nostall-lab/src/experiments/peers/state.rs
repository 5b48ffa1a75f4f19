//! State of each peer, for readers of the figures.

use crate::host::Peer;

/// Peers of a run, and the machine that they booted on.
#[derive(Clone, Debug, Default)]
pub struct PeerStates {
    pub peers: Vec<Peer>,
    /// Version of the QEMU that booted them.
    pub qemu: Option<String>,
}

impl PeerStates {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::State;

    fn peer(name: &str, state: State) -> PeerStates {
        let path = None;
        PeerStates {
            peers: vec![Peer {
                name: name.to_owned(),
                path,
                state,
            }],
            qemu: Some("7.2".to_owned()),
        }
    }

    #[test]
    fn a_peer_of_several_experiments_has_one_entry_for_each_state() {
        let release = || State::Release("6.1.192".to_owned());
        let mut all = PeerStates::default();
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
