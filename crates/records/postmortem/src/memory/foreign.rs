//! Known file formats that need a conversion first.

use super::Error;

/// First bytes of a format, its name, and advice.
type Known = (&'static [u8], &'static str, &'static str);

/// Advice for the files of libvirt that have more than a guest's memory.
const MEMORY_ONLY: &str = "write the memory alone: `virsh dump --memory-only DOMAIN FILE`";

/// Memory dumps and disk images.
const DUMPS: [Known; 5] = [
    (
        b"PAGEDU64",
        "a Windows crash dump",
        "save the next one as ELF: QEMU's `dump-guest-memory` without -w",
    ),
    (
        b"PAGEDUMP",
        "a Windows crash dump",
        "save the next one as ELF: QEMU's `dump-guest-memory` without -w",
    ),
    (
        b"QFI\xfb",
        "a qcow2 disk image",
        "convert it with `qemu-img convert -O raw FILE NEW`",
    ),
    (b"QEVM", "a migration stream of QEMU", MEMORY_ONLY),
    (
        b"LibvirtQemudSave",
        "a saved domain of libvirt",
        MEMORY_ONLY,
    ),
];

/// Compressed files.
const COMPRESSED: [Known; 6] = [
    (
        b"\x1f\x8b",
        "gzip-compressed",
        "unpack it with `gunzip FILE`",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "zstd-compressed",
        "unpack it with `unzstd FILE`",
    ),
    (b"\xfd7zXZ\0", "xz-compressed", "unpack it with `unxz FILE`"),
    (
        b"\x04\x22\x4d\x18",
        "lz4-compressed",
        "unpack it with `unlz4 FILE`",
    ),
    (b"BZh", "bzip2-compressed", "unpack it with `bunzip2 FILE`"),
    (
        b"PK\x03\x04",
        "a zip archive",
        "unpack it with `unzip FILE`",
    ),
];

/// Returns the error for an image of a known but unreadable format.
pub(super) fn refuse(file: &[u8]) -> Option<Error> {
    find(&DUMPS, file).or_else(|| compressed(file))
}

/// Returns the error for a flattened file whose contents are no readable dump.
pub(super) const fn flattened() -> Error {
    Error::Unsupported {
        format: "a flattened file by makedumpfile or QEMU that has neither a kdump file nor an ELF core",
        advice: super::flattened::ADVICE,
    }
}

/// Returns the error for a compressed file.
pub(crate) fn compressed(file: &[u8]) -> Option<Error> {
    find(&COMPRESSED, file)
}

fn find(known: &[Known], file: &[u8]) -> Option<Error> {
    let is_it = |(magic, ..): &&Known| file.starts_with(magic);
    let &(_, format, advice) = known.iter().find(is_it)?;
    Some(Error::Unsupported { format, advice })
}
