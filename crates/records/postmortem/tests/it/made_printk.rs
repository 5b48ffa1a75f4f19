//! A writer of printk's ring, for tests: x86-64, without page tables unless a test makes them.

use nostall_postmortem::memory::Memory;

/// Size of a page in bytes.
pub const PAGE: usize = 4096;

/// Virtual address of the kernel's image, and its physical address.
const IMAGE: (u64, u64) = (0xffff_ffff_8000_0000, 0x100_0000);

/// Offsets of the objects in the image.
const INFO: u64 = 0x1008;
const POINTER: u64 = 0x3000;
const HEADER: u64 = 0x3100;
const ARRAYS: u64 = 0x4000;
const NAMES: u64 = 0x3_0000;

/// Virtual address of the kernel's names in a dump.
pub const NAMES_AT: u64 = IMAGE.0 + 0x20_0000 + NAMES;

/// State of a made record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeState {
    Finalized,
    Committed,
    /// Committed, with an empty text.
    Empty,
    /// The text found no room.
    NoRoom,
    /// Reserved again, with its earlier text.
    Reopened,
    /// Reserved, and never committed.
    Reserved,
    /// A newer record has bytes of the text: Linux marks the descriptor before it overwrites them.
    Reusable,
}

#[derive(Clone, Debug)]
struct Made {
    text: Vec<u8>,
    state: MadeState,
    begin: u64,
    next: u64,
    claimed: Option<u16>,
}

/// A ring in the making.
#[derive(Clone, Debug)]
pub struct MadeLog {
    count_bits: u32,
    size_bits: u32,
    records: Vec<Made>,
    data: Vec<u8>,
    head: u64,
    info: Vec<(&'static str, u64)>,
    /// Other contents of the image.
    names: Vec<u8>,
    /// Size of a record's data, which VMCOREINFO does not follow.
    pub info_size: usize,
}

impl MadeLog {
    pub fn new(count_bits: u32, size_bits: u32) -> Self {
        Self {
            count_bits,
            size_bits,
            records: Vec::new(),
            data: vec![0; 1 << size_bits],
            // The first lap begins with the words before 0, as in Linux.
            head: (1_u64 << size_bits).wrapping_neg(),
            info: info(),
            names: Vec::new(),
            info_size: 88,
        }
    }

    fn count(&self) -> u64 {
        1 << self.count_bits
    }

    /// Returns the ID of a record.
    fn id(&self, sequence: u64) -> u64 {
        let first = (1_u64 << 32) - self.count();
        first + sequence
    }

    pub fn add(&mut self, text: &[u8], state: MadeState) {
        let sequence = self.records.len() as u64;
        let size = 1_u64 << self.size_bits;
        let text = match state {
            MadeState::Empty | MadeState::NoRoom | MadeState::Reserved => Vec::new(),
            _ => text.to_vec(),
        };
        let block = (8 + text.len() as u64).next_multiple_of(8);
        let (mut begin, mut next) = match state {
            MadeState::NoRoom => (1, 1),
            _ if text.is_empty() => (3, 3),
            _ => (self.head, self.head.wrapping_add(block)),
        };
        let mut state = state;
        if block > size / 2 && begin == self.head {
            (begin, next, state) = (1, 1, MadeState::NoRoom);
        }
        if begin == self.head {
            let lap = |position: u64| position >> self.size_bits;
            let mut start = begin & (size - 1);
            if lap(begin) != lap(next) {
                // It does not fit before the end.
                start = 0;
                next = (lap(next) << self.size_bits).wrapping_add(block);
            }
            let start = start as usize;
            for older in &mut self.records {
                if older.begin & 1 == 0 && next.wrapping_sub(older.begin) > size {
                    older.state = MadeState::Reusable;
                }
            }
            let id = self.id(sequence);
            self.data[start..][..8].copy_from_slice(&id.to_le_bytes());
            self.data[start + 8..][..text.len()].copy_from_slice(&text);
            self.head = next;
        }
        self.records.push(Made {
            text,
            state,
            begin,
            next,
            claimed: None,
        });
    }

    /// Gives the block of a record another ID.
    pub fn overwrite_block(&mut self, sequence: usize) {
        let start = self.records[sequence].begin & ((1 << self.size_bits) - 1);
        self.data[start as usize] ^= 1;
    }

    /// Gives a record another block.
    pub fn set_block(&mut self, sequence: usize, begin: u64, next: u64) {
        (self.records[sequence].begin, self.records[sequence].next) = (begin, next);
    }

    /// Gives the newest two records blocks over those of the others.
    pub fn overlap(&mut self) {
        // 20 bytes and the ID are a block of 32 bytes, and the ring has 64.
        for sequence in [0, 1] {
            let id = self.id(sequence as u64 + 2);
            self.data[sequence * 32..][..8].copy_from_slice(&id.to_le_bytes());
            let begin = (sequence as u64) * 32;
            self.set_block(sequence + 2, begin, begin + 32);
        }
        for sequence in [0, 1] {
            self.records[sequence].state = MadeState::Finalized;
            let begin = 8 + (sequence as u64) * 8;
            let id = self.id(sequence as u64);
            self.data[begin as usize..][..8].copy_from_slice(&id.to_le_bytes());
            self.set_block(sequence, begin, begin + 40);
        }
    }

    /// Gives a record another length.
    pub fn claim(&mut self, sequence: usize, len: u16) {
        self.records[sequence].claimed = Some(len);
    }

    /// Adds the kernel's names, which are at [`NAMES_AT`], and their lines of the VMCOREINFO.
    pub fn add_names(&mut self, (names, lines): (Vec<u8>, Vec<(&'static str, u64)>)) {
        self.names = names;
        self.info.extend(lines);
    }

    /// Returns the number of lines of the VMCOREINFO.
    pub fn keys(&self) -> usize {
        self.info.len()
    }

    /// Sets the value of one of them.
    pub fn set(&mut self, key: usize, value: u64) {
        self.info[key].1 = value;
    }

    /// Returns the records whose texts are complete: those of the last descriptors whose blocks were
    /// not overwritten.
    pub fn wanted(&self) -> Vec<(u64, Vec<u8>)> {
        let oldest =
            self.records.len() as u64 - self.records.len().min(1 << self.count_bits) as u64;
        let size = 1_u64 << self.size_bits;
        let records = (oldest..).zip(&self.records[oldest as usize..]);
        let records = records.filter(|(sequence, record)| {
            let start = record.begin & (size - 1);
            let lap = |position: u64| position >> self.size_bits;
            let start = if lap(record.begin) == lap(record.next) {
                start
            } else {
                0
            };
            let id = self.data[start as usize..].first_chunk();
            let is_there = id == Some(&self.id(*sequence).to_le_bytes());
            match record.begin {
                _ if record.state == MadeState::Reusable => false,
                1 => false,
                3 => record.state != MadeState::Reserved,
                _ => is_there,
            }
        });
        let texts = records.map(|(sequence, record)| (sequence, record.text.clone()));
        texts.collect()
    }

    /// Returns the objects as bytes with their physical addresses. The header is in the image, the
    /// arrays are at `arrays`: their virtual and their physical address. `root` is the physical
    /// address of the top-level page table.
    pub fn place(&self, image: (u64, u64), arrays: (u64, u64), root: u64) -> Vec<(u64, Vec<u8>)> {
        let (count, last) = (self.count(), self.records.len() as u64 - 1);
        let oldest = (last + 1).saturating_sub(count);
        let mut descs = vec![0; 24 * count as usize];
        let mut infos = vec![0; self.info_size * count as usize];
        for sequence in oldest..=last {
            let record = &self.records[sequence as usize];
            let index = (sequence % count) as usize;
            let state = match record.state {
                MadeState::Reopened | MadeState::Reserved => 0,
                MadeState::Committed => 1,
                MadeState::Reusable => 3,
                _ => 2_u64,
            };
            let words = [state << 62 | self.id(sequence), record.begin, record.next];
            descs[index * 24..][..24].copy_from_slice(&words.map(u64::to_le_bytes).concat());
            let info = &mut infos[index * self.info_size..][..self.info_size];
            info[..8].copy_from_slice(&sequence.to_le_bytes());
            info[8..16].copy_from_slice(&(sequence * 1_000_000).to_le_bytes());
            let len = record.claimed.unwrap_or(record.text.len() as u16);
            info[16..18].copy_from_slice(&len.to_le_bytes());
            info[18] = 1;
            info[19] = 6 << 5;
            let caller = if sequence % 2 == 0 {
                7
            } else {
                0x8000_0003_u32
            };
            info[20..24].copy_from_slice(&caller.to_le_bytes());
            // Linux's larger data has the caller's context first.
            let names = if self.info_size == 112 { 44 } else { 24 };
            info[names..][..3].copy_from_slice(b"pci");
            info[names + 16..][..17].copy_from_slice(b"+pci:0000:00:01.0");
        }
        let (descs_at, infos_at) = (arrays.0, arrays.0 + 0x8000);
        let data_at = arrays.0 + 0x1_0000;
        let mut header = [0; 88];
        let mut put = |at: usize, word: u64| header[at..][..8].copy_from_slice(&word.to_le_bytes());
        put(0, self.count_bits.into());
        put(8, descs_at);
        put(16, infos_at);
        put(24, self.id(last));
        put(32, self.id(oldest));
        put(48, self.size_bits.into());
        put(56, data_at);
        put(64, self.head);
        put(72, self.head.wrapping_sub(1 << self.size_bits));
        let virt = |offset: u64| image.0 + offset;
        let mut text = "OSRELEASE=6.1.0-made\nPAGESIZE=4096\n".to_owned();
        for (key, value) in &self.info {
            let value = match *key {
                "SYMBOL(prb)" if *value == 0 => virt(image.1.max(0x20_0000) + POINTER),
                "SYMBOL(init_top_pgt)" if *value == 0 => image.0.wrapping_add(root),
                _ => *value,
            };
            text += &match key.starts_with("SYMBOL") || *key == "KERNELOFFSET" {
                true => format!("{key}={value:x}\n"),
                false => format!("{key}={value}\n"),
            };
        }
        let base = image.1.max(0x20_0000);
        vec![
            (base + INFO, [text.as_bytes(), &[0]].concat()),
            (base + POINTER, virt(base + HEADER).to_le_bytes().to_vec()),
            (base + HEADER, header.to_vec()),
            (arrays.1, descs),
            (arrays.1 + 0x8000, infos),
            (arrays.1 + 0x1_0000, self.data.clone()),
        ]
    }

    /// Returns a LiME dump of the kernel's image.
    pub fn lime(&self) -> Vec<u8> {
        let (virt, physical) = (IMAGE.0, 0);
        let at = IMAGE.1 + ARRAYS;
        let mut image = vec![0; 64 * PAGE];
        let base = 0x20_0000;
        let objects = self.place((virt, physical), (virt + base + ARRAYS, base + ARRAYS), at);
        for (physical, bytes) in objects {
            image[(physical - base) as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        image[NAMES as usize..][..self.names.len()].copy_from_slice(&self.names);
        crate::kernel_logs::lime(&[(base, image)])
    }

    /// Returns a dump, and the records whose texts are complete.
    pub fn dump(&self) -> (Memory, Vec<(u64, Vec<u8>)>) {
        (Memory::from_bytes(self.lime()).unwrap(), self.wanted())
    }
}

/// Lines of a VMCOREINFO. Two symbols are set when the dump is made.
fn info() -> Vec<(&'static str, u64)> {
    let lines = [
        ("SYMBOL(prb)", 0),
        ("SYMBOL(init_top_pgt)", 0),
        ("NUMBER(phys_base)", 0),
        ("NUMBER(pgtable_l5_enabled)", 0),
        ("SIZE(printk_ringbuffer)", 88),
        ("OFFSET(printk_ringbuffer.desc_ring)", 0),
        ("OFFSET(printk_ringbuffer.text_data_ring)", 48),
        ("SIZE(prb_desc_ring)", 48),
        ("OFFSET(prb_desc_ring.count_bits)", 0),
        ("OFFSET(prb_desc_ring.descs)", 8),
        ("OFFSET(prb_desc_ring.infos)", 16),
        ("OFFSET(prb_desc_ring.head_id)", 24),
        ("OFFSET(prb_desc_ring.tail_id)", 32),
        ("SIZE(prb_desc)", 24),
        ("OFFSET(prb_desc.state_var)", 0),
        ("OFFSET(prb_desc.text_blk_lpos)", 8),
        ("SIZE(prb_data_blk_lpos)", 16),
        ("OFFSET(prb_data_blk_lpos.begin)", 0),
        ("OFFSET(prb_data_blk_lpos.next)", 8),
        ("SIZE(printk_info)", 88),
        ("OFFSET(printk_info.seq)", 0),
        ("OFFSET(printk_info.ts_nsec)", 8),
        ("OFFSET(printk_info.text_len)", 16),
        ("OFFSET(printk_info.caller_id)", 20),
        ("OFFSET(printk_info.dev_info)", 24),
        ("SIZE(dev_printk_info)", 64),
        ("OFFSET(dev_printk_info.subsystem)", 0),
        ("LENGTH(printk_info_subsystem)", 16),
        ("OFFSET(dev_printk_info.device)", 16),
        ("LENGTH(printk_info_device)", 48),
        ("SIZE(prb_data_ring)", 32),
        ("OFFSET(prb_data_ring.size_bits)", 0),
        ("OFFSET(prb_data_ring.data)", 8),
        ("OFFSET(prb_data_ring.head_lpos)", 16),
        ("OFFSET(prb_data_ring.tail_lpos)", 24),
        ("SIZE(atomic_long_t)", 8),
        ("OFFSET(atomic_long_t.counter)", 0),
    ];
    lines.to_vec()
}
