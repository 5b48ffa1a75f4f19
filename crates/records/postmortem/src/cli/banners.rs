//! Linux's banners in an image, which `--all` shows.

use std::io::{self, Write};
use std::ops::Range;

use nostall_pstore::Trust;
use serde::Serialize;

use super::input::Input;
use super::json::{self, About};
use super::outcome::{Outcome, Status};
use super::output::Style;
use super::part::{Opening, Part, Parts};
use super::text::{self, HEADING};
use crate::banner::Banner;

struct Shown {
    index: usize,
    banner: Banner,
}

/// Returns the banners outside the parts that were taken, if everything is shown.
pub fn open<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
    let found = opening.all.then(|| opening.discovery.banners(taken));
    let banners = found.into_iter().flatten().enumerate();
    banners
        .map(|(index, banner)| Box::new(Shown { index, banner }) as _)
        .collect()
}

/// JSON line of a banner.
#[derive(Serialize)]
struct BannerLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
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
        let (heading, index, address) = (style.heading(), self.index, self.address());
        let trust = text::trust(Trust::Unchecked);
        writeln!(
            out,
            "{heading}{HEADING}banner {index}{heading:#}: at {address:#x}; {trust}"
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
            kind: "banner",
            image: about,
            index: self.index,
            start: format!("{:#x}", self.address()),
            text: &self.banner.text,
            trust: Trust::Unchecked.name(),
        };
        json::escaped(&line, out)
    }
    fn outcome(&self, input: &Input) -> Outcome {
        let at = self.address();
        let message = format!("{input}: nothing but a banner of Linux, at {at:#x}");
        Outcome::none(Status::None, message)
    }
}
