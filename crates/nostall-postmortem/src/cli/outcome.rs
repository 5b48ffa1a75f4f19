//! Results, and the exit status that they are.

/// Result for one image. Its number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Status {
    /// There are records.
    Records = 0,
    /// The image cannot be read, or the output not be written.
    Error = 1,
    /// There is a region, ring or trace, and no record in it to show.
    Empty = 3,
    /// There is a region or a ring. No record in it can be read, and it is damaged.
    Damaged = 4,
    /// There is no region, no ring and no trace.
    None = 5,
}

impl Status {
    /// The status of several images, regions or rings: the first of these that one has.
    pub fn and(self, other: Self) -> Self {
        const ORDER: [Status; 5] = [
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
    /// The reason, if there are no records.
    pub message: Option<String>,
}

impl Outcome {
    /// The result without a record.
    pub fn none(status: Status, message: String) -> Self {
        Self {
            status,
            records: 0,
            message: Some(message),
        }
    }

    /// The result for both.
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
