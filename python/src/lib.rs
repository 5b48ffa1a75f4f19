//! Native module of the Python package `nostall`. Tables are passed to pyarrow without a copy.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_pyarrow::{IntoPyArrow, Table, ToPyArrow};
use nostall_fleet::decode::{self as fleet, Options};
use nostall_fleet::names::Maps;
use nostall_fleet::schema::TABLES;
use nostall_postmortem::detect::{FoundRegion, Grade};
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::{self, Memory};
use nostall_postmortem::symbols;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

#[pymodule]
mod _nostall {
    #[pymodule_export]
    use super::{Region, Symbols, decode, detect, schemas, symbolize};

    #[pymodule_export]
    const SCHEMA_VERSION: u32 = nostall_fleet::schema::VERSION;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}

/// A file's path, or its bytes.
#[derive(FromPyObject)]
enum Source {
    Bytes(PyBackedBytes),
    Path(PathBuf),
}

/// Decodes one input to the tables `dumps`, `records`, `calls` and `crashes`.
///
/// `source` is a path, or the bytes of a file. With bytes, `path` fills the columns `path` and
/// `machine`. `input` fills the column of that name. `symbols` gives names to traced addresses.
/// With `redact`, the tables have no paths, log lines and messages.
///
/// An unreadable input raises no exception: the column `error` of `dumps` has the reason.
/// `ValueError` reports `path` together with a path as `source`.
///
/// pyarrow uses the decoded rows without a copy. Other Python threads run during decoding.
#[pyfunction]
#[pyo3(signature = (source, *, path=None, input=0, symbols=None, redact=false))]
fn decode<'py>(
    py: Python<'py>,
    source: Source,
    path: Option<PathBuf>,
    input: u64,
    symbols: Option<&Symbols>,
    redact: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let options = Options {
        maps: symbols.map_or(Maps::None, |symbols| symbols.0.clone()),
        redact,
        timings: false,
    };
    if path.is_some() && matches!(source, Source::Path(_)) {
        return Err(PyValueError::new_err(
            "path= names bytes: a file has its own path",
        ));
    }
    let mut batches = [const { Vec::new() }; TABLES.len()];
    py.detach(|| {
        let (source, file) = match (&source, &path) {
            (Source::Bytes(bytes), Some(path)) => (fleet::Source::Named(path, bytes), None),
            (Source::Bytes(bytes), None) => (fleet::Source::Bytes(bytes), None),
            (Source::Path(path), _) => (fleet::Source::Path(path), Some(path.as_path())),
        };
        let mut keep = |table: usize, batch| {
            batches[table].push(batch);
            Ok(())
        };
        // A panic of the decoder only becomes this input's error.
        let decode = || fleet::decode(source, input, &options, &mut keep);
        catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
            let path = path.as_deref().or(file);
            fleet::failed(path, input, &options, &mut keep)
        })
    })?;
    let tables = PyDict::new(py);
    for (table, batches) in TABLES.iter().zip(batches) {
        let rows = Table::try_new(batches, table.schema()).map_err(invalid)?;
        tables.set_item(table.name, rows.into_pyarrow(py)?)?;
    }
    Ok(tables)
}

/// Returns the schema of each table. Units are in the metadata of the fields.
#[pyfunction]
fn schemas(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let schemas = PyDict::new(py);
    for table in TABLES {
        schemas.set_item(table.name, table.schema().to_pyarrow(py)?)?;
    }
    Ok(schemas)
}

/// A ramoops region that was found in a dump.
#[pyclass(frozen, get_all, module = "nostall")]
struct Region {
    /// Physical address; in a raw dump, the offset in the file.
    start: u64,
    /// Number of the region's bytes that the dump contains.
    length: usize,
    /// Whether the evidence is stronger than any that ordinary data has by chance.
    convincing: bool,
    /// Parameters of Linux's `ramoops` module that divide a region in this way.
    parameters: BTreeMap<&'static str, usize>,
    /// Evidence, one finding per line.
    evidence: Vec<String>,
    /// Open questions, one per line.
    doubts: Vec<String>,
}

#[pymethods]
impl Region {
    fn __repr__(&self) -> String {
        let Self {
            start,
            length,
            convincing,
            ..
        } = self;
        let convincing = if *convincing { "True" } else { "False" };
        format!("Region(start={start:#x}, length={length:#x}, convincing={convincing})")
    }
}

impl From<&FoundRegion> for Region {
    fn from(found: &FoundRegion) -> Self {
        let params = &found.params;
        Self {
            start: found.start,
            length: found.len,
            convincing: found.grade == Grade::Convincing,
            parameters: BTreeMap::from([
                ("mem_size", params.mem_size),
                ("record_size", params.record_size),
                ("console_size", params.console_size),
                ("ftrace_size", params.ftrace_size),
                ("pmsg_size", params.pmsg_size),
                ("ecc", params.ecc),
            ]),
            evidence: found.why.clone(),
            doubts: found.doubts.clone(),
        }
    }
}

/// Finds the ramoops regions in a dump, convincing ones first.
///
/// `source` is a path, or the bytes of a file. `OSError` reports a file that cannot be read, and
/// `ValueError` one that is no memory dump.
#[pyfunction]
fn detect(py: Python<'_>, source: Source) -> PyResult<Vec<Region>> {
    py.detach(|| {
        let image = match source {
            Source::Bytes(bytes) => Memory::from_bytes(bytes.to_vec()),
            Source::Path(path) => Memory::open(path),
        };
        let image = image.map_err(image_error)?;
        let found = Discovery::new(&image).detection.found;
        image.check().map_err(image_error)?;
        Ok(found.iter().map(Region::from).collect())
    })
}

/// Symbols of kernels, from a file or a directory.
///
/// A file is a `System.map` (also gzipped), a copy of `/proc/kallsyms`, or a `vmlinux`. Its bytes
/// are also accepted. A directory has `System.map-RELEASE` (also `.gz`) or `vmlinux-RELEASE` of
/// each kernel. `OSError` reports a file or directory that cannot be read, and `ValueError` a file
/// without symbols.
#[pyclass(frozen, module = "nostall")]
struct Symbols(Maps);

#[pymethods]
impl Symbols {
    #[new]
    fn new(py: Python<'_>, source: Source) -> PyResult<Self> {
        let symbols = match &source {
            Source::Path(folder) if folder.is_dir() => {
                folder.read_dir()?;
                return Ok(Self(Maps::load(folder)?));
            }
            Source::Path(path) => py.detach(|| symbols::Symbols::load(path)),
            Source::Bytes(bytes) => py.detach(|| symbols::Symbols::parse(bytes)),
        };
        let symbols = symbols.map_err(|error| match error {
            symbols::Error::File(error) => image_error(error),
            error => invalid(error),
        })?;
        Ok(Self(Maps::One(Arc::new(symbols))))
    }
}

/// Returns names such as `panic+0x8c/0x140`; `None` outside of known code.
///
/// `kernel` is the release, which chooses the file if `symbols` is a directory. `kernel_offset` is
/// the distance of the kernel from its linked address. Both are columns of the table `dumps`. An
/// address may be a signed number, as in the table `calls`, or `None`.
#[pyfunction]
#[pyo3(signature = (addresses, symbols, *, kernel=None, kernel_offset=0))]
fn symbolize(
    addresses: Vec<Option<i128>>,
    symbols: &Symbols,
    kernel: Option<&str>,
    kernel_offset: i128,
) -> Vec<Option<String>> {
    let table = symbols.0.of(kernel);
    // The low 64 bits: an address and its signed form are the same.
    let linked = |address: i128| (address - kernel_offset) as u64;
    let name = |address| Some(table.as_ref()?.lookup(linked(address))?.to_string());
    let names = addresses.into_iter().map(|address| address.and_then(name));
    names.collect()
}

fn image_error(error: memory::Error) -> PyErr {
    match error {
        memory::Error::Io(error) => error.into(),
        memory::Error::Silent(_) | memory::Error::Shrunk => PyOSError::new_err(error.to_string()),
        error => invalid(error),
    }
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
