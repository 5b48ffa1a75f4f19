//! The cause of the crash, which is the first line of the output.

use std::io::{self, Write};

use nostall_pstore::Trust;
use serde::Serialize;

use super::json::{About, escaped};
use super::output::Style;
use super::text;
use crate::kernel::{Cause, CrashedKernel};

/// Writes the cause as a line. `before` stands before it: the name of the image, if there are several.
pub fn text(
    before: &str,
    cause: &Cause,
    kernel: &CrashedKernel,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let crash = &cause.crash;
    let reason = shown(&crash.reason);
    let mut line = match &crash.panic {
        None => reason,
        Some(panic) => {
            let panic = shown(panic);
            // The report's first line is the panic's own, or that of the oops before it.
            match crash.reason.contains("Kernel panic") {
                true => format!("panic: {panic}"),
                false => format!("panic: {panic} ({reason})"),
            }
        }
    };
    if let Some(cpu) = crash.cpu {
        line += &format!(", CPU {cpu}");
    }
    if let Some(task) = &crash.task {
        line += &format!(", task {}", shown(task));
    }
    if let Some(uptime) = crash.uptime {
        let tenths = uptime / 100_000_000;
        line += &format!(", {}.{} s after boot", tenths / 10, tenths % 10);
    }
    if let Some(release) = kernel.release() {
        line += &format!(", Linux {}", release.text);
    }
    if cause.trust == Trust::Unverified {
        line += ", unverified";
    }
    text::heading(&format!("{before}{line}"), style, out)
}

/// Returns a text of the crashed machine with the escapes of its log.
fn shown(text: &str) -> String {
    let mut shown = Vec::new();
    // A vector takes all bytes.
    let _ = text::passage(text.as_bytes(), false, &mut shown);
    String::from_utf8_lossy(&shown).into_owned()
}

/// Writes the cause as a line of JSON.
pub fn json(
    cause: &Cause,
    kernel: &CrashedKernel,
    about: &About<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let crash = &cause.crash;
    let line = CauseLine {
        r#type: "cause",
        image: about,
        class: crash.class,
        reason: &crash.reason,
        panic: crash.panic.as_deref(),
        cpu: crash.cpu,
        task: crash.task.as_deref(),
        time_ns: crash.uptime,
        release: kernel.release().map(|release| release.text),
        trust: cause.trust.name(),
    };
    escaped(&line, out)
}

/// JSON line of the cause.
#[derive(Serialize)]
struct CauseLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    image: &'a About<'a>,
    class: &'static str,
    reason: &'a str,
    panic: Option<&'a str>,
    cpu: Option<i32>,
    task: Option<&'a str>,
    time_ns: Option<i64>,
    release: Option<String>,
    trust: &'static str,
}
