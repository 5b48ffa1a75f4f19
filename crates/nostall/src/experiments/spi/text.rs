//! The flash and the card, for people.

use super::run::{Entry, Volume};
use nostall_work::spi::{CardKind, Fat, SECTOR};

use super::measured::{Measured, hex};
use crate::escape::escape_name;
use crate::experiments::table::time;
use crate::grouped::grouped;

impl Measured {
    pub(super) fn heading(&self) -> String {
        let name = escape_name(&self.card.name);
        let bytes = grouped(self.card.bytes);
        format!("{}\ncard: {name}, {bytes} bytes", self.headline)
    }

    pub(super) fn flash_text(&self) -> Option<String> {
        let [maker, kind, size] = self.outcome.flash?;
        let mut lines = vec![format!(
            "flash: {maker:02x} {kind:02x} {size:02x}, {}{}",
            match maker {
                // JEDEC JEP106, the first bank, as it is known of such chips.
                0x9d => "ISSI, ",
                0xef => "Winbond, ",
                0xc2 => "Macronix, ",
                0x20 => "Micron, ",
                _ => "",
            },
            binary(1 << size.min(63)),
        )];
        if let Some(sector) = &self.outcome.sector {
            lines[0] += &format!("; the sector at {:#x}, by its SHA-256:", sector.address);
            lines.push(format!("  found    {}", hex(&sector.before)));
            let (erase, write) = (time(sector.erase_ns as f64), time(sector.write_ns as f64));
            lines.push(match sector.not_erased {
                0 => format!(
                    "  erased   to {} bytes of ones in {erase}; and written in {write}",
                    grouped(SECTOR)
                ),
                n => format!("  erased   but for {} bytes", grouped(n)),
            });
            lines.push(format!("  written  {}", hex(&sector.pattern)));
            lines.push(format!("  read     {}", hex(&sector.after)));
        }
        Some(lines.join("\n"))
    }

    pub(super) fn card_text(&self) -> Option<String> {
        let (kind, bytes) = self.outcome.card?;
        let kind = match kind {
            CardKind::Sd1 => "SD version 1",
            CardKind::Sd2 => "SD",
            CardKind::Sdhc => "SDHC",
        };
        let mut lines = vec![format!("card: {kind}, {}", binary(bytes))];
        if let Some(volume) = self.outcome.volume {
            lines[0] += &format!("; {}", words(volume));
        }
        if let Some(read) = self.outcome.read {
            lines.push(format!(
                "{}, {}, {} bytes in {} and {} messages",
                many(read.files, "file", "files"),
                many(read.directories, "directory", "directories"),
                grouped(read.bytes),
                time(read.ns as f64),
                grouped(read.messages),
            ));
        }
        for (number, entry) in self.outcome.entries.iter().enumerate() {
            let name = escape_name(entry.name());
            if entry.directory {
                lines.push(format!("{name}/: not entered"));
                continue;
            }
            let beside = match self.is_equal(number) {
                true => "the same by the host",
                false => "not the same by the host",
            };
            lines.push(format!("{name}: {} bytes, {beside}", grouped(entry.size)));
            lines.push(match &entry.sha256 {
                Some(digest) => format!("  {}", hex(digest)),
                None => "  not read".to_owned(),
            });
        }
        Some(lines.join("\n"))
    }
}

/// The name that people know an entry by.
pub(super) trait Named {
    fn name(&self) -> &str;
}

impl Named for Entry {
    fn name(&self) -> &str {
        self.long.as_deref().unwrap_or(&self.short)
    }
}

fn words(volume: Volume) -> String {
    let fat = match volume.fat {
        Fat::Fat16 => "FAT16",
        Fat::Fat32 => "FAT32",
    };
    let place = match volume.partition {
        Some(number) => format!("in partition {number}"),
        None => "without partitions".to_owned(),
    };
    format!(
        "{fat} {place}, clusters of {}",
        binary(volume.cluster.into())
    )
}

fn many(count: u32, one: &str, more: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { more })
}

/// With the largest unit that leaves nothing behind the point.
fn binary(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{} bytes", grouped(bytes))
}

#[cfg(test)]
mod tests {
    use super::binary;

    #[test]
    fn a_size_has_the_unit_that_leaves_nothing_over() {
        assert_eq!(binary(512), "512 bytes");
        assert_eq!(binary(4096), "4 KiB");
        assert_eq!(binary(32 << 20), "32 MiB");
        assert_eq!(binary((32 << 20) + 1), "33,554,433 bytes");
    }
}
