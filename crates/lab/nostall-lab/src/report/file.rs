//! Files that a run writes: checked before it begins, and replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use nostall_postmortem::cli::output;
use tempfile::Builder;

/// Whether `path` stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Fails if the file of `option` cannot be written, before a run takes its time. Leaves no new
/// file, and opens no pipe.
pub fn probe(option: &str, path: &Path) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    let is_new = !path.exists();
    if !is_new && !path.is_file() && !path.is_dir() {
        return Ok(());
    }
    let name = || named(option, path);
    File::options()
        .append(true)
        .create(true)
        .open(path)
        .with_context(name)?;
    if is_new {
        fs::remove_file(path).with_context(name)?;
    }
    Ok(())
}

/// Writes the file of `option`. A reader finds the old contents or all of the new ones.
pub fn replace(option: &str, path: &Path, contents: &str) -> Result<()> {
    if is_stdout(path) {
        return output::to_stdout(|out| out.write_all(contents.as_bytes()));
    }
    let written = match fs::canonicalize(path) {
        // A pipe or a terminal has no old contents.
        Ok(real) if !real.is_file() => fs::write(real, contents),
        // The target of a link is replaced, and not the link.
        Ok(real) => rename_over(&real, contents),
        Err(_) => rename_over(path, contents),
    };
    written.with_context(|| named(option, path))
}

/// Returns the way from a page to this project, if the page lies in its folder or one level below.
pub fn project(page: &Path) -> Option<&'static str> {
    let folder = page.parent()?;
    let is_it = |up: &&str| folder.join(up).join("crates/lab/nostall-lab").is_dir();
    [".", ".."].into_iter().find(is_it)
}

fn named(option: &str, path: &Path) -> String {
    format!("{option} {}", path.display())
}

fn rename_over(path: &Path, contents: &str) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = Builder::new();
    builder.prefix(".nostall-");
    match fs::metadata(path) {
        Ok(old) => builder.permissions(old.permissions()),
        #[cfg(unix)]
        Err(_) => builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)),
        #[cfg(not(unix))]
        Err(_) => &mut builder,
    };
    let mut file = match builder.tempfile_in(folder.unwrap_or(Path::new("."))) {
        // The file can be written, and its folder cannot.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return fs::write(path, contents);
        }
        made => made?,
    };
    file.write_all(contents.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_in_the_project_or_one_level_below_knows_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |page: &str| project(&dir.path().join(page));
        fs::create_dir_all(dir.path().join("docs/src")).unwrap();
        assert_eq!(at("docs/report.html"), None);
        fs::create_dir_all(dir.path().join("crates/lab/nostall-lab")).unwrap();
        assert_eq!(at("report.html"), Some("."));
        assert_eq!(at("docs/report.html"), Some(".."));
        assert_eq!(at("docs/src/report.html"), None);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_is_left_in_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        replace("--report", &path, "old").unwrap();
        let old = File::open(&path).unwrap();
        replace("--report", &path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        // A reader that had opened the old file has it still.
        assert_eq!(io::read_to_string(old).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_permissions_and_its_link() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real", &link).unwrap();
        replace("--json", &link, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_probe_leaves_no_file_and_keeps_an_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        probe("--report", &path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        probe("--report", &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let error = probe("--report", &dir.path().join("no/page")).unwrap_err();
        assert!(format!("{error:#}").starts_with("--report "), "{error:#}");
    }
}
