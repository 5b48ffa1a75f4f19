//! A small writer of kdump and flattened files. It writes the compressions that Debian's
//! makedumpfile cannot write, and damage on purpose.

use std::collections::BTreeMap;
use std::ops::Range;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Compression of a page. The values are the flags of its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Stored = 0,
    Zlib = 1,
    Lzo = 2,
    Snappy = 4,
    Zstd = 0x20,
}

impl Packing {
    pub const ALL: [Self; 5] = [
        Self::Stored,
        Self::Zlib,
        Self::Lzo,
        Self::Snappy,
        Self::Zstd,
    ];

    fn pack(self, page: &[u8]) -> Vec<u8> {
        match self {
            Self::Stored => page.to_vec(),
            Self::Zlib => miniz_oxide::deflate::compress_to_vec_zlib(page, 6),
            Self::Lzo => lzokay::compress::compress(page).unwrap(),
            Self::Snappy => snap::raw::Encoder::new().compress_vec(page).unwrap(),
            Self::Zstd => compress_to_vec(page, CompressionLevel::Fastest),
        }
    }
}

/// A dump to write.
#[derive(Clone, Debug)]
pub struct Kdump {
    pub signature: &'static [u8; 8],
    pub version: u32,
    pub page: usize,
    /// Pages and their compressions, by page frame.
    pub pages: BTreeMap<u64, (Vec<u8>, Packing)>,
    pub max_frames: u64,
    /// Page frames of this part, if the dump is split.
    pub split: Option<Range<u64>>,
    pub status: u32,
    pub vmcoreinfo: Vec<u8>,
}

impl Kdump {
    pub fn new(page: usize) -> Self {
        Self {
            signature: b"KDUMP   ",
            version: 6,
            page,
            pages: BTreeMap::new(),
            max_frames: 0,
            split: None,
            status: 0,
            vmcoreinfo: Vec::new(),
        }
    }

    pub fn insert(&mut self, frame: u64, bytes: &[u8], packing: Packing) {
        assert_eq!(bytes.len(), self.page);
        self.max_frames = self.max_frames.max(frame + 1);
        self.pages.insert(frame, (bytes.to_vec(), packing));
    }

    /// Offset of the second bitmap.
    pub fn bitmap(&self) -> usize {
        2 * self.page + self.bitmap_blocks() * self.page
    }

    fn bitmap_blocks(&self) -> usize {
        (self.max_frames as usize).div_ceil(8).div_ceil(self.page)
    }

    /// Offset of the descriptors.
    pub fn descriptors(&self) -> usize {
        2 * self.page + 2 * self.bitmap_blocks() * self.page
    }

    /// Returns the file, as makedumpfile orders it: the page of zeros comes first.
    pub fn write(&self) -> Vec<u8> {
        let mut file = vec![0; self.descriptors()];
        file[..8].copy_from_slice(self.signature);
        let mut word =
            |at: usize, value: u32| file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        word(8, self.version);
        word(424, self.status);
        word(428, self.page as u32);
        word(432, 1);
        word(436, 2 * self.bitmap_blocks() as u32);
        word(440, self.max_frames as u32);
        word(self.page + 12, u32::from(self.split.is_some()));
        let mut long = |at: usize, value: u64| {
            let at = self.page + at;
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        let split = self.split.clone().unwrap_or(0..self.max_frames);
        if self.signature == b"KDUMP   " {
            if self.split.is_some() {
                for (at, value) in [(16, split.start), (24, split.end)] {
                    long(at, value);
                    long(at + 64, value);
                }
            }
            if !self.vmcoreinfo.is_empty() {
                long(32, self.page as u64 + 104);
                long(40, self.vmcoreinfo.len() as u64);
            }
            long(96, self.max_frames);
        }
        let text = self.page + 104;
        file[text..text + self.vmcoreinfo.len()].copy_from_slice(&self.vmcoreinfo);
        for (bitmap, frames) in [(2 * self.page, 0), (self.bitmap(), 1)] {
            for frame in 0..self.max_frames {
                if frames == 0 || self.pages.contains_key(&frame) {
                    file[bitmap + frame as usize / 8] |= 1 << (frame % 8);
                }
            }
        }
        let start = file.len() + self.pages.len() * 24;
        let mut data = vec![0; self.page];
        for (_, (bytes, packing)) in self.pages.range(split) {
            let is_zero = bytes.iter().all(|byte| *byte == 0);
            let packed = packing.pack(bytes);
            let (offset, size, flags) = match is_zero {
                true => (0, self.page, 0),
                false if packed.len() < self.page => (data.len(), packed.len(), *packing as u32),
                false => (data.len(), self.page, 0),
            };
            if !is_zero {
                data.extend(if size < self.page { &packed } else { bytes });
            }
            file.extend((start as u64 + offset as u64).to_le_bytes());
            file.extend((size as u32).to_le_bytes());
            file.extend(flags.to_le_bytes());
            file.extend([0; 8]);
        }
        file.resize(start, 0);
        file.extend(data);
        file
    }
}

/// Returns a flattened file with these blocks of a file, in this order, and without a mark of the
/// end.
pub fn flatten(file: &[u8], blocks: impl IntoIterator<Item = Range<usize>>) -> Vec<u8> {
    let mut flattened = b"makedumpfile\0\0\0\0".to_vec();
    flattened.extend([1u64.to_be_bytes(); 2].concat());
    flattened.resize(4096, 0);
    for block in blocks {
        flattened.extend((block.start as u64).to_be_bytes());
        flattened.extend((block.len() as u64).to_be_bytes());
        flattened.extend(&file[block]);
    }
    flattened
}

/// Mark of a flattened file's end.
pub const END: [u8; 16] = [0xff; 16];
