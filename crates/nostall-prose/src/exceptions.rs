//! The list of exceptions: one file per line, with its number of findings.

use crate::rules::Finding;

/// Path of the list of exceptions.
pub const LIST: &str = "scripts/prose-exceptions.txt";

/// A file and its findings.
pub type Found = (String, Vec<Finding>);

/// Returns a line for each fault of the files or of the list.
pub fn compare(list: &str, found: &[Found]) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, findings) in found {
        if findings.len() > allowed(list, path) {
            faults.extend(
                findings
                    .iter()
                    .map(|f| format!("{path}:{}: {}", f.line, f.reason)),
            );
        }
    }
    for (line, (path, allowed)) in lines(list).enumerate() {
        let fault = match count(found, path) {
            0 => "is plain, or not there: remove it from the list".to_owned(),
            count if count == allowed => continue,
            count => format!("has {count} findings: the list says {allowed}"),
        };
        faults.push(format!("{LIST}:{}: {path} {fault}", line + 1));
    }
    faults
}

/// Returns the list with each number lowered to the findings, without files that have none.
pub fn lowered(list: &str, found: &[Found]) -> String {
    lines(list)
        .map(|(path, allowed)| (allowed.min(count(found, path)), path))
        .filter(|&(count, _)| count > 0)
        .map(|(count, path)| format!("{count} {path}\n"))
        .collect()
}

fn count(found: &[Found], path: &str) -> usize {
    found
        .iter()
        .find(|(found, _)| found == path)
        .map_or(0, |(_, findings)| findings.len())
}

fn allowed(list: &str, path: &str) -> usize {
    lines(list)
        .find(|(listed, _)| *listed == path)
        .map_or(0, |(_, allowed)| allowed)
}

fn lines(list: &str) -> impl Iterator<Item = (&str, usize)> {
    list.lines().map(|line| {
        let (count, path) = line.split_once(' ').unwrap_or(("0", line));
        (path, count.parse().unwrap_or(0))
    })
}
