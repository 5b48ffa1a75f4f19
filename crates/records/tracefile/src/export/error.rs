//! Errors of an export.

use std::{error, fmt, io};

use crate::model::ReadError;

/// Error of an export.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// The rest of the trace cannot be read.
    Read(ReadError),
    /// The output cannot be written.
    Write(io::Error),
}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Write(error) => write!(f, "writing the export: {error}"),
        }
    }
}

impl error::Error for ExportError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Read(error) => error.source(),
            Self::Write(error) => Some(error),
        }
    }
}
