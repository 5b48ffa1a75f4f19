//! A disk image that holds nothing yet and stands in front of another.

/// log2 of the bytes of a cluster.
const CLUSTER_BITS: u32 = 16;

const CLUSTER: u64 = 1 << CLUSTER_BITS;

/// Places in clusters: after the header, the table of the file's contents, the table of the counts'
/// clusters, and the counts.
const L1: u64 = 1;
const REFCOUNT_TABLE: u64 = 2;
const REFCOUNTS: u64 = 3;
const CLUSTERS: u64 = 4;

/// A qcow2 image of version 2 that is `size` bytes long, and whose every byte is that of the
/// raw file that QEMU opens as `backing`; zeros where that one is shorter. (QEMU,
/// docs/interop/qcow2.txt.)
///
/// `size` has to be 32 GiB at most, so that one cluster holds the table, and `backing`
/// shorter than a cluster.
pub(super) fn overlay(size: u64, backing: &str) -> Vec<u8> {
    /// The type of the header extension that names the backing file's format.
    const BACKING_FORMAT: u32 = 0xe279_2aca;
    const HEADER: u64 = 72;
    const EXTENSIONS: u64 = 8 + 8 + 8;

    // An entry of the first table leads to a cluster of entries of 8 bytes, one for each
    // cluster.
    let entries = size.div_ceil(CLUSTER * (CLUSTER / 8)) as u32;
    let header: [&[u8]; 16] = [
        b"QFI\xfb",
        &2_u32.to_be_bytes(), // version
        &(HEADER + EXTENSIONS).to_be_bytes(),
        &(backing.len() as u32).to_be_bytes(),
        &CLUSTER_BITS.to_be_bytes(),
        &size.to_be_bytes(),
        &0_u32.to_be_bytes(), // not encrypted
        &entries.to_be_bytes(),
        &(L1 * CLUSTER).to_be_bytes(),
        &(REFCOUNT_TABLE * CLUSTER).to_be_bytes(),
        &1_u32.to_be_bytes(), // its clusters
        &[0; 12],             // no snapshots
        &BACKING_FORMAT.to_be_bytes(),
        b"\0\0\0\x03raw\0\0\0\0\0",
        &[0; 8], // no more extensions
        backing.as_bytes(),
    ];
    let mut image = header.concat();
    image.resize((CLUSTERS * CLUSTER) as usize, 0);
    let at = |cluster: u64| (cluster * CLUSTER) as usize;
    image[at(REFCOUNT_TABLE)..][..8].copy_from_slice(&(REFCOUNTS * CLUSTER).to_be_bytes());
    for count in image[at(REFCOUNTS)..].chunks_mut(2).take(CLUSTERS as usize) {
        count.copy_from_slice(&1_u16.to_be_bytes());
    }
    image
}
