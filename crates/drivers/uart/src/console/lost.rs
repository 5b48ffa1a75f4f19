//! Lost bytes, and their report on the line.

use core::fmt::Write;

use arrayvec::ArrayString;

use crate::Newline;

/// Size of the report buffer: above the line end, 20 digits and the words around them.
const LONGEST_REPORT: usize = 48;

/// Lost bytes, and their report on the line.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost {
    /// Number of bytes lost since the port was opened.
    total: u64,
    unreported: u64,
    /// Some of the unreported bytes may have arrived.
    at_most: bool,
    /// Counts in reports whose text may still be lost: it is in the port, or not completely given
    /// to it.
    reported: u64,
    /// The last load contains a part of a report.
    report_is_last: bool,
    report: Report,
    /// The last byte on the line was not a line feed.
    line_is_open: bool,
}

impl Lost {
    /// Adds bytes that were never given to the transmitter.
    pub(super) const fn add(&mut self, bytes: usize) {
        self.total = self.total.saturating_add(bytes as u64);
        self.unreported = self.unreported.saturating_add(bytes as u64);
    }

    /// Records that the port has lost its content, of which `bytes` were text. A report in that
    /// content is sent again.
    pub(super) fn lose_content(&mut self, bytes: usize) {
        if bytes == 0 && self.reported == 0 {
            return;
        }
        self.add(bytes);
        self.unreported = self.unreported.saturating_add(self.reported);
        // The bytes and the report may still have arrived.
        self.at_most = true;
        self.reported = 0;
        self.report = Report::default();
        self.line_is_open = true;
    }

    /// Records that the port has kept its content. If `is_empty`, the content has left.
    pub(super) const fn settle(&mut self, is_empty: bool) {
        if !self.report.is_under_way() && (is_empty || !self.report_is_last) {
            self.reported = 0;
        }
    }

    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Records that another driver has used the line, so that the next report begins with a line end.
    pub(super) const fn line_is_unknown(&mut self) {
        self.line_is_open = true;
    }

    /// Returns whether a report is due.
    pub(super) const fn is_due(&self) -> bool {
        self.unreported > 0 || self.report.is_under_way()
    }

    /// Puts the next part of the report into `piece`, to be sent next. Returns the part's length.
    pub(super) fn fill(&mut self, piece: &mut [u8], newline: Newline) -> usize {
        if !self.is_due() {
            return 0;
        }
        if !self.report.is_under_way() {
            self.report = Report::default();
            let end = newline.text();
            let line_end = if self.line_is_open { end } else { "" };
            let up_to = if self.at_most { "up to " } else { "" };
            let lost = self.unreported;
            // The buffer is large enough.
            let _ = write!(
                self.report.text,
                "{line_end}[{up_to}{lost} bytes lost]{end}"
            );
            self.reported = self.reported.saturating_add(lost);
            self.unreported = 0;
            self.at_most = false;
        }
        self.report.fill(piece)
    }

    /// Records a load that is given to the transmitter. Its first `report` bytes belong to a
    /// report.
    pub(super) fn given(&mut self, load: &[u8], report: usize) {
        self.report_is_last = report > 0;
        if let Some(&last) = load.last() {
            self.line_is_open = last != b'\n';
        }
    }
}

/// Text of a report, and the part of it that is sent.
#[derive(Clone, Debug, Default)]
struct Report {
    text: ArrayString<LONGEST_REPORT>,
    sent: usize,
}

impl Report {
    const fn is_under_way(&self) -> bool {
        self.sent < self.text.len()
    }

    fn fill(&mut self, piece: &mut [u8]) -> usize {
        let rest = self.text.as_bytes().get(self.sent..).unwrap_or_default();
        let part = rest.iter().zip(piece).map(|(&byte, slot)| *slot = byte);
        let filled = part.count();
        self.sent += filled;
        filled
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    fn reported(lost: &mut Lost, room: usize) -> String {
        let mut all = Vec::new();
        while lost.is_due() {
            let mut piece = [0; 64];
            let filled = lost.fill(&mut piece[..room], Newline::CrLf);
            all.extend_from_slice(&piece[..filled]);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn a_report_gives_the_number_of_missing_bytes_on_a_line_of_its_own() {
        let mut lost = Lost::default();
        lost.add(260);
        assert_eq!(reported(&mut lost, 16), "[260 bytes lost]\r\n");
        lost.given(b"half a li", 0);
        lost.add(3);
        lost.add(4);
        assert_eq!(reported(&mut lost, 1), "\r\n[7 bytes lost]\r\n");
        lost.settle(true);
        lost.lose_content(17);
        lost.add(1);
        assert_eq!(reported(&mut lost, 64), "\r\n[up to 18 bytes lost]\r\n");
        assert_eq!(lost.total(), 285);
    }

    #[test]
    fn a_report_that_is_lost_with_the_content_of_the_port_is_sent_again() {
        let mut lost = Lost::default();
        lost.add(260);
        assert_eq!(reported(&mut lost, 16), "[260 bytes lost]\r\n");
        lost.given(b"]\r\n", 3);
        // The report has not left the port.
        lost.settle(false);
        lost.lose_content(0);
        assert_eq!(reported(&mut lost, 16), "\r\n[up to 260 bytes lost]\r\n");
        lost.given(b"text", 0);
        lost.settle(false);
        lost.lose_content(4);
        assert_eq!(reported(&mut lost, 16), "\r\n[up to 4 bytes lost]\r\n");
        assert_eq!(lost.total(), 264);
    }

    #[test]
    fn the_longest_report_fits() {
        let mut lost = Lost {
            unreported: u64::MAX,
            at_most: true,
            line_is_open: true,
            ..Lost::default()
        };
        let expected = "\r\n[up to 18446744073709551615 bytes lost]\r\n";
        assert_eq!(reported(&mut lost, 7), expected);
    }
}
