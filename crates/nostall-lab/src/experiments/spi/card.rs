//! The image of the SD card.

use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::Path;

use super::run::Image;
use anyhow::{Context, Result, ensure};
use fatfs::{Dir, FatType, FileSystem, FormatVolumeOptions, FsOptions, ReadWriteSeek};
use nostall_vm::process::MemoryFile;
use nostall_vm::qemu::Drive;

use super::host::{self, HostEntry};

/// Bytes of the largest card that can be said (CSD version 2).
const LARGEST: u64 = 2 << 40;

/// Bytes of the image that is made.
const MADE: usize = 32 << 20;

/// Where its partition begins, as partitioning tools have it.
const START: usize = 1 << 20;

/// Bytes of its clusters.
const CLUSTER: u32 = 4096;

/// An image, and the host's reading of it.
pub struct Card {
    file: File,
    pub bytes: u64,
    /// In words.
    pub name: String,
    pub entries: Vec<HostEntry>,
}

impl Card {
    /// The image that the arguments name, or else one that is made.
    pub fn open(image: Option<&Path>) -> Result<Self> {
        match image {
            Some(path) => Self::given(path).with_context(|| format!("--sd {}", path.display())),
            None => Self::made().context("making an image for the card"),
        }
    }

    fn given(path: &Path) -> Result<Self> {
        // First, as to open a pipe would wait for its other end.
        let kind = fs::metadata(path)?.file_type();
        ensure!(!kind.is_dir(), "a directory, and not an image");
        ensure!(is_storage(kind), "neither a file nor a block device");
        Self::of(File::open(path)?, path.display().to_string())
    }

    fn made() -> Result<Self> {
        let file = MemoryFile::new(&make()?)?.share()?;
        Self::of(file, "an image made for this".to_owned())
    }

    fn of(file: File, name: String) -> Result<Self> {
        let image = Image::new(file.try_clone()?)?;
        let bytes = image.bytes();
        ensure!(bytes > 0, "the image is empty");
        ensure!(
            bytes <= LARGEST,
            "{bytes} bytes: the largest card has {LARGEST}"
        );
        let entries = host::read(&file, bytes)?;
        Ok(Self {
            file,
            bytes,
            name,
            entries,
        })
    }

    /// Whether QEMU can have it.
    pub fn fits_qemu(&self) -> Result<()> {
        ensure!(
            self.bytes <= Drive::LARGEST_CARD,
            "--sd {}: {} bytes: QEMU's card has at most {}; --on model reads it",
            self.name,
            self.bytes,
            Drive::LARGEST_CARD
        );
        Ok(())
    }

    /// The image, to be put into a machine.
    pub fn image(&self) -> Result<Image> {
        Ok(Image::new(self.file.try_clone()?)?)
    }
}

#[cfg(unix)]
fn is_storage(kind: fs::FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_file() || kind.is_block_device()
}

/// One partition, one FAT16, and one file of each sort.
pub(super) fn make() -> Result<Vec<u8>> {
    let mut image = vec![0; MADE];
    image[..512].copy_from_slice(&table());
    let mut within = Cursor::new(vec![0; MADE - START]);
    let options = FormatVolumeOptions::new()
        .fat_type(FatType::Fat16)
        .bytes_per_cluster(CLUSTER)
        .volume_label(*b"NOSTALL    ");
    fatfs::format_volume(&mut within, options)?;
    {
        let files = FileSystem::new(&mut within, FsOptions::new())?;
        fill(&files.root_dir())?;
        files.unmount()?;
    }
    image[START..].copy_from_slice(within.get_ref());
    Ok(image)
}

fn fill<T: ReadWriteSeek>(root: &Dir<'_, T>) -> Result<()> {
    let write = |name: &str, content: &[u8]| -> Result<()> {
        let mut file = root.create_file(name)?;
        file.write_all(content)?;
        Ok(())
    };
    write(
        "README.TXT",
        b"A card that nostall made, to read it again.\n",
    )?;
    write(
        "A long name, with spaces. And with dots.text",
        &bytes(1_234),
    )?;
    write("empty", b"")?;
    write("one cluster.bin", &bytes(CLUSTER as usize))?;
    write("many clusters.bin", &bytes(300_007))?;
    write("Gr\u{fc}\u{df}e, \u{4e16}\u{754c}.txt", &bytes(77))?;
    root.create_dir("a directory")?;
    write("a directory/not read", &bytes(10))
}

/// Bytes that are the same every time, and nowhere the same for long.
fn bytes(len: usize) -> Vec<u8> {
    let words = (0..len as u32).map(|n| n.wrapping_mul(0x9e37_79b1).rotate_left(9));
    words.flat_map(u32::to_le_bytes).take(len).collect()
}

/// A table with one partition, a FAT16 up to the end.
fn table() -> [u8; 512] {
    let mut table = [0; 512];
    table[446 + 4] = 0x0e;
    table[446 + 8..][..4].copy_from_slice(&(START as u32 / 512).to_le_bytes());
    table[446 + 12..][..4].copy_from_slice(&((MADE - START) as u32 / 512).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    table
}
