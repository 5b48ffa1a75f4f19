//! An image that is the text of a kernel's log, and its output.

use std::borrow::Cow;
use std::io::{self, Write};

use nostall_pstore::Trust;
use serde::Serialize;

use super::input::Input;
use super::json::{About, Hex, Lossy, escaped};
use super::outcome::{Outcome, Status};
use super::output::Style;
use super::part::{Part, safe};
use super::text::{self, passage};
use crate::count::counted;
use crate::kernel::{CrashedKernel, log_text};
use crate::memory::Memory;

/// Returns the log if the image is its text.
pub fn of(image: &Memory) -> Option<Box<dyn Part + '_>> {
    Some(Box::new(Log(log_text(image)?)))
}

struct Log<'a>(Cow<'a, [u8]>);

impl Part for Log<'_> {
    fn kind(&self) -> &'static str {
        "log text"
    }

    fn address(&self) -> u64 {
        0
    }

    fn name(&self) -> String {
        "dmesg.txt".to_owned()
    }

    fn describe(&self) -> String {
        let lines = self.0.split_inclusive(|&byte| byte == b'\n').count();
        format!(
            "no dump, but the text of a kernel's log, {}",
            counted(lines, "line")
        )
    }

    fn tell(&self, kernel: &mut CrashedKernel) {
        kernel.read_log(&String::from_utf8_lossy(&self.0), Trust::Unchecked);
    }

    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        text::part("log text", &self.describe(), self.trust(), style, out)
    }

    fn text(&mut self, _: Style, out: &mut dyn Write) -> io::Result<()> {
        passage(&self.0, true, out)?;
        match self.0.last() {
            Some(b'\n') => Ok(()),
            _ => writeln!(out),
        }
    }

    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        safe(style, out, |out| out.write_all(&self.0))
    }

    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        let line = TextLine {
            r#type: "log_text",
            image: about,
            name: self.name(),
            text: Lossy(&self.0),
            data_hex: str::from_utf8(&self.0).is_err().then(|| Hex(&self.0)),
            trust: self.trust().name(),
        };
        escaped(&line, out)
    }

    fn outcome(&self, _: &Input) -> Outcome {
        Outcome {
            status: Status::Records,
            records: 1,
            message: None,
        }
    }
}

/// JSON line of the text.
#[derive(Serialize)]
struct TextLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    image: &'a About<'a>,
    name: String,
    text: Lossy<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_hex: Option<Hex<'a>>,
    trust: &'static str,
}
