//! Known file formats that need a conversion first.

use super::Error;

/// Advice for a dump that only its own tools can read: extract the region.
const TAKE_OUT: &str = "makedumpfile does not turn it back into an ELF core. Take the region out, with \
     ADDRESS and BYTES from ramoops.mem_address and mem_size, and open region.bin: in `crash VMLINUX FILE` with \
     `rd -p -r region.bin ADDRESS BYTES`, or in `drgn -c FILE` with `open('region.bin', \
     'wb').write(prog.read(ADDRESS, BYTES, True))`. Save the next dump with `makedumpfile -E`, or with QEMU's \
     `dump-guest-memory` without -z, -l and -s";

/// Advice for such a dump in the flattened format.
const FLATTENED_KDUMP: &str = "put it together with `makedumpfile -R NEW < FILE`; NEW is a compressed dump, from \
     which crash and drgn take the region: open NEW here for their commands";

/// First bytes of a format, its name, and advice.
type Known = (&'static [u8], &'static str, &'static str);

/// Memory dumps and disk images.
const DUMPS: [Known; 6] = [
    (b"KDUMP   ", "a dump compressed by makedumpfile", TAKE_OUT),
    (b"DISKDUMP", "a dump by diskdump", TAKE_OUT),
    (
        b"makedumpfile\0",
        "a flattened dump by makedumpfile or QEMU",
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

/// Number of bytes before the first piece of a flattened dump: the header, and the piece's offset
/// and size.
const FLATTENED: usize = 4096 + 16;

/// Returns the error for an image of a known but unreadable format.
pub(super) fn refuse(file: &[u8]) -> Option<Error> {
    let inner = file.get(FLATTENED..).unwrap_or_default();
    if file.starts_with(b"makedumpfile\0") && inner.starts_with(b"KDUMP   ") {
        let format = "a flattened dump, compressed by makedumpfile or QEMU";
        let advice = FLATTENED_KDUMP;
        return Some(Error::Unsupported { format, advice });
    }
    find(&DUMPS, file).or_else(|| compressed(file))
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
