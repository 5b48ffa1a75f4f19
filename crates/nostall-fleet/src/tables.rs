//! Rows of the tables, collected into Arrow's batches.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Int32Builder, Int64Builder, ListBuilder, StringBuilder,
    StructBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};

use crate::schema::{Kind, TABLES, Table, range_fields};

/// Most rows of a batch.
pub(crate) const MOST_ROWS: usize = 16 << 10;

/// Most bytes of text in a batch, but for its last row.
const MOST_BYTES: usize = 2 << 20;

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A number of 64 bits.
    Long(i64),
    /// A number of 32 bits.
    Int(i32),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(&'a str),
    /// Microseconds since 1970.
    Time(i64),
    /// Several texts.
    Texts(&'a [String]),
    /// Ranges of bytes.
    Ranges(&'a [Range<usize>]),
}

impl<'a> Cell<'a> {
    /// Returns the number, as far as it fits.
    pub fn long(number: impl TryInto<i64>) -> Self {
        Self::Long(number.try_into().unwrap_or(i64::MAX))
    }

    /// Returns the number, as far as it fits.
    pub fn int(number: impl TryInto<i32>) -> Self {
        Self::Int(number.try_into().unwrap_or(i32::MAX))
    }

    /// Returns the number, as far as it fits; null without one.
    pub fn maybe_long(number: Option<impl TryInto<i64>>) -> Self {
        number.map_or(Self::Null, Self::long)
    }

    /// Returns the number, as far as it fits; null without one.
    pub fn maybe_int(number: Option<impl TryInto<i32>>) -> Self {
        number.map_or(Self::Null, Self::int)
    }

    /// Returns the same 64 bits with a sign; null without a number.
    pub fn address(number: impl Into<Option<u64>>) -> Self {
        number
            .into()
            .map_or(Self::Null, |number| Self::Long(number as i64))
    }

    /// Returns the text; null without one.
    pub fn text(text: impl Into<Option<&'a str>>) -> Self {
        text.into().map_or(Self::Null, Self::Text)
    }
}

/// A number of a table: its place in [`TABLES`].
pub type TableNumber = usize;

/// Place of the table of inputs.
pub const DUMPS: TableNumber = 0;
/// Place of the table of log lines.
pub const RECORDS: TableNumber = 1;
/// Place of the table of function entries and exits.
pub const CALLS: TableNumber = 2;
/// Place of the table of panics and oopses.
pub const CRASHES: TableNumber = 3;

/// Rows of one table that are not in a batch yet.
pub struct Rows {
    table: &'static Table,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl Rows {
    /// No rows of a table.
    pub fn new(number: TableNumber) -> Self {
        let table = TABLES[number];
        Self {
            table,
            columns: table
                .columns
                .iter()
                .map(|column| Column::new(column.kind))
                .collect(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If the values are not of the table's columns.
    pub fn push<'c>(&mut self, cells: impl Iterator<Item = &'c Cell<'c>>) {
        let mut number = 0;
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            let Some(bytes) = column.push(cell) else {
                let name = self.table.columns[number].name;
                panic!("{cell:?} is no value of column {name}");
            };
            self.bytes += bytes;
            number += 1;
        }
        assert_eq!(number, self.columns.len(), "{}", self.table.name);
        self.rows += 1;
    }

    /// Whether a batch is full.
    pub const fn is_full(&self) -> bool {
        self.rows >= MOST_ROWS || self.bytes >= MOST_BYTES
    }

    /// Returns the rows as a batch, and starts again; `None` without rows.
    ///
    /// # Panics
    ///
    /// Not for rows of [`Self::push`], whose values are of the table's columns.
    pub fn take(&mut self) -> Option<RecordBatch> {
        if self.rows == 0 {
            return None;
        }
        (self.rows, self.bytes) = (0, 0);
        let columns = self.columns.iter_mut().map(Column::finish).collect();
        let batch = RecordBatch::try_new(self.table.schema(), columns);
        Some(batch.expect("columns of the schema's types"))
    }
}

/// A column's values.
enum Column {
    Long(Int64Builder),
    Int(Int32Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
    Time(TimestampMicrosecondBuilder),
    Texts(ListBuilder<StringBuilder>),
    Ranges(ListBuilder<StructBuilder>),
}

impl Column {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Long => Self::Long(Int64Builder::new()),
            Kind::Int => Self::Int(Int32Builder::new()),
            Kind::Bool => Self::Bool(BooleanBuilder::new()),
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Time => {
                let times = TimestampMicrosecondBuilder::new();
                Self::Time(times.with_data_type(kind.data_type()))
            }
            Kind::Texts => Self::Texts(ListBuilder::new(StringBuilder::new())),
            Kind::Ranges => {
                let numbers = || Box::new(Int64Builder::new()) as Box<dyn ArrayBuilder>;
                let ranges = StructBuilder::new(range_fields(), vec![numbers(), numbers()]);
                Self::Ranges(ListBuilder::new(ranges))
            }
        }
    }

    /// Adds a value, and returns the number of its bytes; `None` if it has another type.
    fn push(&mut self, cell: &Cell<'_>) -> Option<usize> {
        match (self, *cell) {
            (Self::Long(all), Cell::Long(value)) => all.append_value(value),
            (Self::Int(all), Cell::Int(value)) => all.append_value(value),
            (Self::Bool(all), Cell::Bool(value)) => all.append_value(value),
            (Self::Time(all), Cell::Time(value)) => all.append_value(value),
            (Self::Text(all), Cell::Text(value)) => {
                all.append_value(value);
                return Some(value.len());
            }
            (Self::Texts(all), Cell::Texts(values)) => {
                values
                    .iter()
                    .for_each(|value| all.values().append_value(value));
                all.append(true);
            }
            (Self::Ranges(all), Cell::Ranges(ranges)) => {
                for range in ranges {
                    for (number, at) in [range.start, range.end].into_iter().enumerate() {
                        let numbers = all.values().field_builder::<Int64Builder>(number)?;
                        numbers.append_value(i64::try_from(at).unwrap_or(i64::MAX));
                    }
                    all.values().append(true);
                }
                all.append(true);
                return Some(16 * ranges.len());
            }
            (Self::Long(all), Cell::Null) => all.append_null(),
            (Self::Int(all), Cell::Null) => all.append_null(),
            (Self::Bool(all), Cell::Null) => all.append_null(),
            (Self::Time(all), Cell::Null) => all.append_null(),
            (Self::Text(all), Cell::Null) => all.append_null(),
            (Self::Texts(all), Cell::Null) => all.append_null(),
            (Self::Ranges(all), Cell::Null) => all.append_null(),
            _ => return None,
        }
        Some(0)
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Long(all) => Arc::new(all.finish()),
            Self::Int(all) => Arc::new(all.finish()),
            Self::Bool(all) => Arc::new(all.finish()),
            Self::Text(all) => Arc::new(all.finish()),
            Self::Time(all) => Arc::new(all.finish()),
            Self::Texts(all) => Arc::new(all.finish()),
            Self::Ranges(all) => Arc::new(all.finish()),
        }
    }
}
