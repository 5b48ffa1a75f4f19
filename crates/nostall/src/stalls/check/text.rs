//! The report for a person, in lines of at most 79 columns.

use super::report::Report;
use crate::stalls::wrap::wrap;

/// Everything.
pub fn all(report: &Report) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    let place = match machine.is_guest {
        Some(true) => "a virtual machine",
        Some(false) => "real hardware",
        None => "real hardware or a virtual machine, which is not known",
    };
    let release = match &*machine.release {
        "" => "of unknown release",
        release => release,
    };
    let product = match &*machine.product {
        "" => String::new(),
        product => format!(" ({product})"),
    };
    let title = format!("Linux {release}, on {place}{product}.");
    wrap(&mut text, 0, 0, &title);
    for finding in &report.paths {
        let verdict = format!("{:?}", finding.verdict).to_lowercase();
        text.push('\n');
        wrap(&mut text, 0, 0, &format!("{}: {verdict}", finding.path));
        wrap(&mut text, 2, 2, &finding.reason);
    }
    if !report.remedies.is_empty() {
        text += "\nRemedies, most effective first:\n";
    }
    for (remedy, number) in report.remedies.iter().zip(1..) {
        text.push('\n');
        let title = format!("{number}. {}: {}", remedy.path, remedy.text);
        wrap(&mut text, 0, 3, &title);
        for command in &remedy.commands {
            text += &format!("     {command}\n");
        }
        if !remedy.loses.is_empty() {
            wrap(&mut text, 3, 3, &format!("But: {}", remedy.loses));
        }
        wrap(&mut text, 3, 3, &format!("Source: {}", remedy.source));
    }
    if !report.missing.is_empty() {
        text += "\nNot known, because only root may read the file:\n";
    }
    for missing in &report.missing {
        let line = format!("{} ({})", missing.answer, missing.file);
        wrap(&mut text, 2, 4, &line);
    }
    text
}
