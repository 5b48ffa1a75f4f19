//! Files that appear under their names when they are complete.

use std::io;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// Makes a temporary file beside `path`, with the permissions of a usual file. `persist` renames it.
///
/// # Errors
///
/// If the folder takes no file.
pub fn new(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = temporary();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder(path))
}

/// Returns the folder that has `path`.
pub fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Returns a builder of files and folders whose names say that they are nostall's.
pub fn temporary() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".nostall-");
    builder
}
