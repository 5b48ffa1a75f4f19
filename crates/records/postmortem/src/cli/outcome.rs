//! Results and exit statuses.

use super::output::NotWritten;

/// Result for one image; its number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Status {
    /// There are records.
    Records = 0,
    /// The image cannot be read, or a file of the output exists.
    Error = 1,
    /// There is a region, ring or trace, but no record in it to show.
    Empty = 3,
    /// There is a damaged region or ring, and no record in it can be read.
    Damaged = 4,
    /// There is no region, no ring and no trace.
    None = 5,
    /// The output cannot be written.
    #[strum(serialize = "error")]
    NotWritten = 6,
}

impl Status {
    /// Returns the status for an error.
    pub fn of(error: &anyhow::Error) -> Self {
        match error.chain().any(|cause| cause.is::<NotWritten>()) {
            true => Self::NotWritten,
            false => Self::Error,
        }
    }

    /// Returns whether there is an error to print.
    pub fn is_error(self) -> bool {
        matches!(self, Self::Error | Self::NotWritten)
    }

    /// Combines the statuses of several images, regions or rings, by precedence.
    pub fn and(self, other: Self) -> Self {
        const ORDER: [Status; 6] = [
            Status::NotWritten,
            Status::Error,
            Status::Records,
            Status::Damaged,
            Status::Empty,
            Status::None,
        ];
        let mut order = ORDER.into_iter();
        order.find(|&it| it == self || it == other).unwrap_or(self)
    }
}

/// Result for one image, region or ring.
pub struct Outcome {
    pub status: Status,
    /// Number of records.
    pub records: usize,
    /// The reason, if there are no records or not all places were searched.
    pub message: Option<String>,
}

impl Outcome {
    /// Creates a result without records.
    pub fn none(status: Status, message: String) -> Self {
        Self {
            status,
            records: 0,
            message: Some(message),
        }
    }

    /// Creates the result of an error, which has this message.
    pub fn failed(error: &anyhow::Error, message: String) -> Self {
        Self::none(Status::of(error), message)
    }

    /// Combines two results.
    pub fn and(self, other: Self) -> Self {
        let status = self.status.and(other.status);
        let is_mine = status == self.status;
        Self {
            status,
            records: self.records + other.records,
            message: if is_mine { self.message } else { other.message },
        }
    }
}
