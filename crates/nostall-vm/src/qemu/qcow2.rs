//! Empty copy-on-write disk images in the qcow2 format (QEMU, docs/interop/qcow2.txt).

/// Base-2 logarithm of the cluster size in bytes.
const CLUSTER_BITS: u32 = 16;

const CLUSTER: u64 = 1 << CLUSTER_BITS;

/// Cluster numbers, after the header: the L1 table, the refcount table, and the refcounts.
const L1: u64 = 1;
const REFCOUNT_TABLE: u64 = 2;
const REFCOUNTS: u64 = 3;
const CLUSTERS: u64 = 4;

/// Returns an empty qcow2 image, version 2, of `size` bytes. Its contents are those of the raw file
/// that QEMU opens as `backing`, followed by zeros.
///
/// `size` is at most 32 GiB, so that the L1 table fits into one cluster. `backing` is shorter than
/// a cluster.
pub(super) fn overlay(size: u64, backing: &str) -> Vec<u8> {
    /// Type of the header extension that names the backing file's format.
    const BACKING_FORMAT: u32 = 0xe279_2aca;
    const HEADER: u64 = 72;
    const EXTENSIONS: u64 = 8 + 8 + 8;

    // An L1 entry refers to one cluster of 8-byte L2 entries, with one entry per data cluster.
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
