//! Offsets and sizes of the structures of printk's ring, from a VMCOREINFO.

use crate::vmcoreinfo::Vmcoreinfo;

/// Maximum size of a structure: the largest has 88 bytes.
const LARGEST: usize = 4096;

/// Offsets in Linux's structures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Structures {
    /// Size of `printk_ringbuffer`.
    pub ring: usize,
    /// `desc_ring` and, in it, its members.
    pub count_bits: usize,
    pub descs: usize,
    pub infos: usize,
    pub head_id: usize,
    pub tail_id: usize,
    /// `text_data_ring` and, in it, its members.
    pub size_bits: usize,
    pub data: usize,
    pub head_lpos: usize,
    pub tail_lpos: usize,
    /// Size of `prb_desc`, and its members.
    pub desc: usize,
    pub state: usize,
    pub begin: usize,
    pub next: usize,
    /// Size of `printk_info`, and its members.
    pub info: usize,
    pub seq: usize,
    pub time: usize,
    pub text_len: usize,
    pub caller: usize,
    pub subsystem: (usize, usize),
    pub device: (usize, usize),
}

impl Structures {
    /// Reads the offsets; `None` if a line is missing or a member is outside its structure.
    pub fn of(info: &Vmcoreinfo) -> Option<Self> {
        let member = |outer: &str, member: &str, size: usize| {
            let at = info.offset(&format!("{outer}.{member}"))?;
            let whole = info.size(outer).filter(|whole| *whole <= LARGEST)?;
            (at.checked_add(size)? <= whole).then_some(at)
        };
        let counter = member("atomic_long_t", "counter", 8)?;
        let atomic = |outer: &str, name: &str| Some(member(outer, name, counter + 8)? + counter);
        let (ring, descs, data) = ("printk_ringbuffer", "prb_desc_ring", "prb_data_ring");
        let desc_ring = member(ring, "desc_ring", info.size(descs)?)?;
        let data_ring = member(ring, "text_data_ring", info.size(data)?)?;
        let (desc, position) = ("prb_desc", "prb_data_blk_lpos");
        let block = member(desc, "text_blk_lpos", info.size(position)?)?;
        let (record, device) = ("printk_info", "dev_printk_info");
        let dev_info = member(record, "dev_info", info.size(device)?)?;
        let text = |name: &str| {
            let len = info.length(&format!("printk_info_{name}"))?;
            Some((dev_info + member(device, name, len)?, len))
        };
        Some(Self {
            ring: info.size(ring)?,
            count_bits: desc_ring + member(descs, "count_bits", 4)?,
            descs: desc_ring + member(descs, "descs", 8)?,
            infos: desc_ring + member(descs, "infos", 8)?,
            head_id: desc_ring + atomic(descs, "head_id")?,
            tail_id: desc_ring + atomic(descs, "tail_id")?,
            size_bits: data_ring + member(data, "size_bits", 4)?,
            data: data_ring + member(data, "data", 8)?,
            head_lpos: data_ring + atomic(data, "head_lpos")?,
            tail_lpos: data_ring + atomic(data, "tail_lpos")?,
            desc: info.size(desc)?,
            state: atomic(desc, "state_var")?,
            begin: block + member(position, "begin", 8)?,
            next: block + member(position, "next", 8)?,
            info: info.size(record)?,
            seq: member(record, "seq", 8)?,
            time: member(record, "ts_nsec", 8)?,
            // Facility, flags and level are the two bytes behind it.
            text_len: member(record, "text_len", 4)?,
            caller: member(record, "caller_id", 4)?,
            subsystem: text("subsystem")?,
            device: text("device")?,
        })
    }

    /// Returns the offsets on 64-bit machines, for a ring of texts at this offset and records of this
    /// size. Names of devices are read from the sizes of known kernels.
    pub const fn assumed(text_ring: usize, info: usize) -> Self {
        let names = match info {
            88 => Some(24),
            // With the context of the caller (`CONFIG_PRINTK_EXECUTION_CTX`).
            112 => Some(44),
            _ => None,
        };
        let (subsystem, device) = match names {
            Some(at) => ((at, 16), (at + 16, 48)),
            None => ((0, 0), (0, 0)),
        };
        Self {
            ring: text_ring + 40,
            count_bits: 0,
            descs: 8,
            infos: 16,
            head_id: 24,
            tail_id: 32,
            size_bits: text_ring,
            data: text_ring + 8,
            head_lpos: text_ring + 16,
            tail_lpos: text_ring + 24,
            desc: 24,
            state: 0,
            begin: 8,
            next: 16,
            info,
            seq: 0,
            time: 8,
            text_len: 16,
            caller: 20,
            subsystem,
            device,
        }
    }
}
