//! Rows of the tables, collected into Arrow's batches.

use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::{mem, ptr};

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Int32Builder, Int64Builder, ListBuilder, StringBuilder,
    StructBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow_schema::SchemaRef;

use crate::schema::{Kind, TABLES, Table, range_fields};

/// Maximum number of rows in a batch.
pub(crate) const MOST_ROWS: usize = 16 << 10;

/// Number of bytes of text at which a batch is full. The last row may exceed it.
pub(crate) const MOST_BYTES: usize = 2 << 20;

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
    /// A constant text of the program. Equal addresses replace a comparison of the bytes.
    Word(&'static str),
    /// Microseconds since 1970.
    Time(i64),
    /// Several texts.
    Texts(&'a [String]),
    /// Ranges of bytes.
    Ranges(&'a [Range<usize>]),
}

impl<'a> Cell<'a> {
    /// Returns the number, or `i64::MAX` if it does not fit.
    pub fn long(number: impl TryInto<i64>) -> Self {
        Self::Long(number.try_into().unwrap_or(i64::MAX))
    }

    /// Returns the number, or `i32::MAX` if it does not fit.
    pub fn int(number: impl TryInto<i32>) -> Self {
        Self::Int(number.try_into().unwrap_or(i32::MAX))
    }

    /// Returns the number as [`long`](Self::long) does; null for `None`.
    pub fn maybe_long(number: Option<impl TryInto<i64>>) -> Self {
        number.map_or(Self::Null, Self::long)
    }

    /// Returns the number as [`int`](Self::int) does; null for `None`.
    pub fn maybe_int(number: Option<impl TryInto<i32>>) -> Self {
        number.map_or(Self::Null, Self::int)
    }

    /// Returns the same 64 bits as a signed number; null for `None`.
    pub fn address(number: impl Into<Option<u64>>) -> Self {
        number
            .into()
            .map_or(Self::Null, |number| Self::Long(number as i64))
    }

    /// Returns the text; null for `None`.
    pub fn text(text: impl Into<Option<&'a str>>) -> Self {
        text.into().map_or(Self::Null, Self::Text)
    }
}

/// Number of a table: its index in [`TABLES`].
pub type TableNumber = usize;

/// Number of the table of inputs, `dumps`.
pub const DUMPS: TableNumber = 0;
/// Number of the table of log lines, `records`.
pub const RECORDS: TableNumber = 1;
/// Number of the table of function entries and exits, `calls`.
pub const CALLS: TableNumber = 2;
/// Number of the table of panics and oopses, `crashes`.
pub const CRASHES: TableNumber = 3;

/// Number of columns that all rows of an input share: its number and its hash.
const SHARED: usize = 2;

/// Length of a hash in bytes, which each row contains.
const HASH_BYTES: usize = 64;

/// The schemas of the tables, which all batches share.
static SCHEMAS: LazyLock<[SchemaRef; 4]> = LazyLock::new(|| TABLES.map(Table::schema));

/// Null values of each type, which columns without any value share.
static NULLS: LazyLock<[ArrayRef; Kind::ALL.len()]> =
    LazyLock::new(|| Kind::ALL.map(|kind| new_null_array(&kind.data_type(), MOST_ROWS)));

/// Rows of one table and one input that are not in a batch yet.
pub struct Rows {
    number: TableNumber,
    /// All columns but the shared ones, which are made with the batch.
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl Rows {
    /// Creates an empty set of rows for a table.
    ///
    /// # Panics
    ///
    /// If there is no such table.
    pub fn new(number: TableNumber) -> Self {
        let own = TABLES[number].columns[SHARED..].iter();
        Self {
            number,
            columns: own.map(|column| Column::new(column.kind)).collect(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Adds a row, without the columns that all rows share.
    ///
    /// # Panics
    ///
    /// If the values are not of the table's columns.
    pub fn push(&mut self, cells: &[Cell<'_>]) {
        let table = TABLES[self.number];
        assert_eq!(cells.len(), self.columns.len(), "{}", table.name);
        for (number, (column, cell)) in self.columns.iter_mut().zip(cells).enumerate() {
            let Some(bytes) = column.push(cell) else {
                let name = table.columns[SHARED + number].name;
                panic!("{cell:?} is no value of column {name}");
            };
            self.bytes += bytes;
        }
        self.bytes += HASH_BYTES;
        self.rows += 1;
    }

    /// Returns whether the rows fill a batch: 16,384 rows, or 2 MiB of text and hashes.
    pub const fn is_full(&self) -> bool {
        self.rows >= MOST_ROWS || self.bytes >= MOST_BYTES
    }

    /// Removes the rows, and returns them as a batch of this input and hash; `None` without rows.
    ///
    /// # Panics
    ///
    /// Never: [`push`](Self::push) has checked the values.
    pub fn take(&mut self, input: i64, hash: Option<&str>) -> Option<RecordBatch> {
        if self.rows == 0 {
            return None;
        }
        let rows = mem::take(&mut self.rows);
        self.bytes = 0;
        let own = self.columns.iter_mut().map(Column::finish).collect();
        Some(batch(self.number, rows, input, hash, own))
    }
}

/// Returns a batch of a table from the columns that not all rows of an input share.
///
/// # Panics
///
/// If the columns are not those of the table, or have another number of rows.
pub(crate) fn batch(
    table: TableNumber,
    rows: usize,
    input: i64,
    hash: Option<&str>,
    own: Vec<ArrayRef>,
) -> RecordBatch {
    let hash = hash.map_or_else(
        || StringArray::new_null(rows),
        |hash| StringArray::new_repeated(hash, rows),
    );
    let shared: [ArrayRef; SHARED] = [
        Arc::new(Int64Array::from_value(input, rows)),
        Arc::new(hash),
    ];
    let columns = shared.into_iter().chain(own).collect();
    let batch = RecordBatch::try_new(Arc::clone(&SCHEMAS[table]), columns);
    batch.expect("columns of the schema's types")
}

/// Returns a column of at most [`MOST_ROWS`] rows without any value.
pub(crate) fn nulls(kind: Kind, rows: usize) -> ArrayRef {
    NULLS[kind as usize].slice(0, rows)
}

/// A column's values. Most rows repeat the text or the null of the row before, so these are
/// counted first, and added at once.
struct Column {
    kind: Kind,
    values: Values,
    /// Number of nulls to add.
    nulls: usize,
    /// Number of times to add `text`.
    texts: usize,
    text: String,
    /// The constant that `text` was copied from, if it was one.
    word: Option<&'static str>,
}

enum Values {
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
        // Columns without any value are frequent, so no memory is allocated yet.
        let values = match kind {
            Kind::Long => Values::Long(Int64Builder::with_capacity(0)),
            Kind::Int => Values::Int(Int32Builder::with_capacity(0)),
            Kind::Bool => Values::Bool(BooleanBuilder::with_capacity(0)),
            Kind::Text => Values::Text(StringBuilder::with_capacity(0, 0)),
            Kind::Time => {
                let times = TimestampMicrosecondBuilder::with_capacity(0);
                Values::Time(times.with_data_type(kind.data_type()))
            }
            Kind::Texts => Values::Texts(ListBuilder::with_capacity(
                StringBuilder::with_capacity(0, 0),
                0,
            )),
            Kind::Ranges => {
                let numbers = || Box::new(Int64Builder::with_capacity(0)) as Box<dyn ArrayBuilder>;
                let ranges = StructBuilder::new(range_fields(), vec![numbers(), numbers()]);
                Values::Ranges(ListBuilder::with_capacity(ranges, 0))
            }
        };
        Self {
            kind,
            values,
            nulls: 0,
            texts: 0,
            text: String::new(),
            word: None,
        }
    }

    /// Adds a value, and returns its length if it is text or ranges, otherwise 0. `None` if it has
    /// another type.
    #[inline]
    fn push(&mut self, cell: &Cell<'_>) -> Option<usize> {
        if matches!(cell, Cell::Null) {
            if self.texts > 0 {
                self.add_counted();
            }
            self.nulls += 1;
            return Some(0);
        }
        if self.nulls > 0 {
            self.add_counted();
        }
        match (&mut self.values, *cell) {
            (Values::Long(all), Cell::Long(value)) => all.append_value(value),
            (Values::Int(all), Cell::Int(value)) => all.append_value(value),
            (Values::Bool(all), Cell::Bool(value)) => all.append_value(value),
            (Values::Time(all), Cell::Time(value)) => all.append_value(value),
            (Values::Text(_), Cell::Text(value) | Cell::Word(value)) => {
                let word = match *cell {
                    Cell::Word(word) => Some(word),
                    _ => None,
                };
                let known = self.word.filter(|_| self.texts > 0);
                if known
                    .zip(word)
                    .is_some_and(|(known, word)| ptr::eq(known, word))
                {
                    self.texts += 1;
                    return Some(value.len());
                }
                self.word = word;
                if self.texts > 0 && self.text != value {
                    self.add_counted();
                }
                if self.texts == 0 {
                    value.clone_into(&mut self.text);
                }
                self.texts += 1;
                return Some(value.len());
            }
            (Values::Texts(all), Cell::Texts(values)) => {
                values
                    .iter()
                    .for_each(|value| all.values().append_value(value));
                all.append(true);
            }
            (Values::Ranges(all), Cell::Ranges(ranges)) => {
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
            _ => return None,
        }
        Some(0)
    }

    /// Adds the nulls or texts that were counted.
    fn add_counted(&mut self) {
        let (nulls, texts) = (mem::take(&mut self.nulls), mem::take(&mut self.texts));
        match &mut self.values {
            Values::Text(all) if texts > 0 => all.append_value_n(&self.text, texts),
            Values::Long(all) => all.append_nulls(nulls),
            Values::Int(all) => all.append_nulls(nulls),
            Values::Bool(all) => all.append_nulls(nulls),
            Values::Text(all) => all.append_nulls(nulls),
            Values::Time(all) => all.append_nulls(nulls),
            Values::Texts(all) => all.append_nulls(nulls),
            Values::Ranges(all) => all.append_nulls(nulls),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        let is_empty = self.builder().is_empty();
        // The same text in all rows.
        if is_empty && self.texts > 0 {
            let texts = mem::take(&mut self.texts);
            return Arc::new(StringArray::new_repeated(&self.text, texts));
        }
        // No value in any row.
        if is_empty && (1..=MOST_ROWS).contains(&self.nulls) {
            return nulls(self.kind, mem::take(&mut self.nulls));
        }
        self.add_counted();
        self.builder().finish()
    }

    fn builder(&mut self) -> &mut dyn ArrayBuilder {
        match &mut self.values {
            Values::Long(all) => all,
            Values::Int(all) => all,
            Values::Bool(all) => all,
            Values::Text(all) => all,
            Values::Time(all) => all,
            Values::Texts(all) => all,
            Values::Ranges(all) => all,
        }
    }
}
