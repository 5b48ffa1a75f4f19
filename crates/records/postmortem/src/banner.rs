//! The banner of Linux in the memory of a machine: the kernel's release, its builder and its build.

use std::ops::Range;

use crate::discovery::Discovery;
use crate::memory::container::{Chunk, Container};
use crate::scan::{Finder, Signature};

/// Maximum number of banners: memory may be filled with them on purpose.
pub const MOST: usize = 64;

/// Maximum length of a banner. Linux prints at most about as much in one line of its log.
const LONGEST: usize = 1024;

const START: &[u8] = b"Linux version ";

/// Finds banners by their first words.
pub(crate) static FINDER: Finder = Finder {
    signatures: &[Signature::Anywhere(START)],
    is_start: |memory, at| text(memory, at).is_some(),
    most: MOST,
    on_request: true,
};

/// A banner in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banner {
    /// Physical address.
    pub address: u64,
    /// The text, without the end of the line.
    pub text: String,
}

impl Discovery<'_> {
    /// Returns Linux's banners outside `besides`, by address. None without
    /// [`of_all_kinds`](Self::of_all_kinds).
    pub fn banners(&self, besides: &[Range<u64>]) -> Vec<Banner> {
        let banners = self.addresses(&FINDER, besides).filter_map(|address| {
            let text = text(self.memory.container(), address)?;
            Some(Banner { address, text })
        });
        banners.collect()
    }
}

/// Returns the banner at an address; `None` if there is none. In the kernel's constants it is a line
/// with a zero behind it. Formats of programs are others, and so are most lines of a log.
fn text(memory: &dyn Container, at: u64) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let next = at.checked_add(line.len() as u64)?;
        let Chunk::Bytes(bytes) = memory.chunk(next, LONGEST + 2 - line.len()) else {
            return None;
        };
        line.extend_from_slice(&bytes);
        let end = line.iter().position(|byte| !matches!(byte, b' '..=b'~'));
        match end.and_then(|end| line.get(end..end + 2)) {
            Some(b"\n\0") => line.truncate(end?),
            None if line.len() < LONGEST + 2 && end.is_none_or(|end| line[end] == b'\n') => {
                continue;
            }
            _ => return None,
        }
        let line = String::from_utf8(line).ok()?;
        return (line.contains(" (") && line.contains(" #")).then_some(line);
    }
}

/// The output of banners: with `--all` only.
#[cfg(feature = "cli")]
pub(crate) mod output {
    use std::io::{self, Write};
    use std::ops::Range;

    use nostall_pstore::Trust;
    use serde::Serialize;

    use super::{Banner, MOST};
    use crate::cli::input::Input;
    use crate::cli::json::{About, escaped};
    use crate::cli::outcome::{Outcome, Status};
    use crate::cli::output::Style;
    use crate::cli::part::{Opening, Output, Part, Parts, Turn};
    use crate::cli::text;

    pub static OUTPUT: Output = Output {
        plural: "banners",
        most: MOST,
        takes_memory: false,
        turn: Turn::Later,
        is_record: false,
        open,
    };

    fn open<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
        let banners = opening.discovery.banners(taken).into_iter().enumerate();
        banners
            .map(|(index, banner)| Box::new(Shown { index, banner }) as _)
            .collect()
    }

    struct Shown {
        index: usize,
        banner: Banner,
    }

    /// JSON line of a banner.
    #[derive(Serialize)]
    struct BannerLine<'a> {
        r#type: &'static str,
        #[serde(flatten)]
        image: &'a About<'a>,
        index: usize,
        start: String,
        text: &'a str,
        trust: &'static str,
    }

    impl Part for Shown {
        fn kind(&self) -> &'static str {
            "banner"
        }
        fn address(&self) -> u64 {
            self.banner.address
        }
        fn name(&self) -> String {
            format!("banner-{}", self.index)
        }
        fn describe(&self) -> String {
            format!("a banner of Linux at {:#x}", self.address())
        }
        fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
            let title = format!("banner {}", self.index);
            text::part(
                &title,
                &format!("at {:#x}", self.address()),
                self.trust(),
                style,
                out,
            )
        }
        fn text(&mut self, _: Style, out: &mut dyn Write) -> io::Result<()> {
            writeln!(out, "{}", self.banner.text)
        }
        fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
            self.text(style, out)
        }
        fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
            let line = BannerLine {
                r#type: "banner",
                image: about,
                index: self.index,
                start: format!("{:#x}", self.address()),
                text: &self.banner.text,
                trust: Trust::Unchecked.name(),
            };
            escaped(&line, out)
        }
        fn outcome(&self, input: &Input) -> Outcome {
            let at = self.address();
            let message = format!("{input}: nothing but a banner of Linux, at {at:#x}");
            Outcome::none(Status::None, message)
        }
    }
}
