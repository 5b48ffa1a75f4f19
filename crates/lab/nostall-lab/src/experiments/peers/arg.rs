//! The values of `--peers`.

use clap::ValueEnum;

use super::linux::Linux;

/// One word of `--peers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PeerArg {
    /// No peer
    None,
    /// Every peer
    All,
    /// Every Linux
    Linux,
    /// Linux 6.1
    #[value(name = "linux-6.1")]
    Linux61,
    /// Linux 6.1 with each of the fixes undone
    #[value(name = "linux-6.1-before")]
    Linux61Before,
    /// Linux 6.1 with the fix that Linux did not take: configuration space through memory first
    #[value(name = "linux-6.1-after")]
    Linux61After,
    /// Linux 6.12
    #[value(name = "linux-6.12")]
    Linux612,
    /// Linux 6.12 with PREEMPT_RT, where a thread prints
    #[value(name = "linux-6.12-rt")]
    Linux612Rt,
}

impl PeerArg {
    /// Returns the Linux that this word names, if it names one.
    const fn linux(self) -> Option<Linux> {
        match self {
            Self::Linux61 => Some(Linux::V6_1),
            Self::Linux61Before => Some(Linux::V6_1Before),
            Self::Linux61After => Some(Linux::V6_1After),
            Self::Linux612 => Some(Linux::V6_12),
            Self::Linux612Rt => Some(Linux::V6_12Rt),
            Self::None | Self::All | Self::Linux => None,
        }
    }

    /// Returns each Linux that the words name, once, in the order of [`Linux::ALL`].
    pub fn linuxes(words: &[Self]) -> Vec<Linux> {
        let named = |linux: &Linux| {
            let mut words = words.iter();
            words
                .any(|word| matches!(word, Self::All | Self::Linux) || word.linux() == Some(*linux))
        };
        Linux::ALL.into_iter().filter(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_linux_is_named_once_in_any_order_of_the_words() {
        let of = PeerArg::linuxes;
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[PeerArg::None]), []);
        assert_eq!(of(&[PeerArg::Linux]), Linux::ALL);
        assert_eq!(of(&[PeerArg::All, PeerArg::Linux612]), Linux::ALL);
        let some = [PeerArg::Linux612, PeerArg::Linux61, PeerArg::Linux61];
        assert_eq!(of(&some), [Linux::V6_1, Linux::V6_12]);
    }

    #[test]
    fn a_peer_has_one_name_in_the_arguments_and_in_the_figures() {
        for word in PeerArg::value_variants() {
            let Some(linux) = word.linux() else { continue };
            let value = word.to_possible_value().unwrap();
            assert_eq!(value.get_name(), linux.name());
        }
    }
}
