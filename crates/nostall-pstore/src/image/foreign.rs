//! Files that are known, cannot be read, and can be made readable.

use super::Error;

/// First bytes, what they mean, what helps.
const KNOWN: [(&[u8], &str, &str); 12] = [
    (
        b"KDUMP   ",
        "a dump compressed by makedumpfile",
        "no tool turns it back into an ELF core: save the next one with `makedumpfile -E` (or QEMU's \
         `dump-guest-memory` without -z, -l, -s), or take the region out with crash: `rd -p -r FILE ADDRESS COUNT`",
    ),
    (
        b"makedumpfile\0",
        "a flattened dump by makedumpfile",
        "put it together with `makedumpfile -R NEW < FILE` and open NEW",
    ),
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
    (
        b"EMiL\x02\0\0\0",
        "a compressed dump by AVML",
        "convert it with `avml-convert FILE NEW` and open NEW",
    ),
];

/// The error for a file that is known and cannot be read.
pub(crate) fn refuse(file: &[u8]) -> Option<Error> {
    let (_, format, advice) = KNOWN
        .into_iter()
        .find(|(magic, ..)| file.starts_with(magic))?;
    Some(Error::Unsupported { format, advice })
}
