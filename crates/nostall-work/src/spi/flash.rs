//! A flash: its identification, and a sector that is erased, written and read back.
//!
//! Sources: JEDEC JESD216 for the instructions that such chips share, with addresses of four bytes;
//! ISSI's IS25WP256 has them all. Neither document was at hand. The driver is written from
//! experience, and was tried on QEMU's model and on ours.

use core::fmt;

use nostall_io::Nanos;
use nostall_spi::{Bus, Controller, Device, Error, Invalid, Platform, Select, Settings, Transfer};
use sha2::{Digest as _, Sha256};

use super::told::{Digest, Sector, Told};
use crate::text;

/// Bytes that are erased at once.
pub const SECTOR: u32 = 4096;

/// The sector that is tried: beyond the reach of addresses of three bytes, so that the test covers
/// those of four.
const ADDRESS: u32 = (16 << 20) + 5 * SECTOR;

/// Bytes that are programmed at once.
const PAGE: usize = 256;

/// Hertz: any such chip reads without dummy clocks at that.
const CLOCK: u32 = 20_000_000;

/// Read JEDEC ID.
const READ_ID: u8 = 0x9f;
const READ_STATUS: u8 = 0x05;
const WRITE_ENABLE: u8 = 0x06;
const WRITE_DISABLE: u8 = 0x04;
/// Read, with an address of four bytes.
const READ: u8 = 0x13;
/// Page program, with an address of four bytes.
const PROGRAM: u8 = 0x12;
/// Erase 4 KiB, with an address of four bytes.
const ERASE: u8 = 0x21;

/// The status: an erase or a program is going on.
const BUSY: u8 = 1 << 0;
/// The status: one may be begun.
const WRITABLE: u8 = 1 << 1;

/// Longer than any such chip takes to erase a sector; a page is a hundredth of that.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// Interval at which the status is read.
const LOOK: Nanos = Nanos::from_micros(100);

/// Why it could not go on.
enum Failed {
    Refused(Invalid),
    Bus(Error),
    /// No device drives the data wire, or it is shorted.
    Absent(u8),
    /// Its manufacturer, and two bytes of the manufacturer's.
    Small([u8; 3]),
    NotWritable(u8),
    Busy,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Bus(error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "flash: {why}"),
            Self::Bus(error) => write!(f, "flash: {error}"),
            Self::Absent(byte) => {
                write!(f, "no flash: it says nothing but {byte:02x}")
            }
            Self::Small([a, b, c]) => write!(
                f,
                "flash {a:02x} {b:02x} {c:02x}: not larger than 16 MiB, as far as it says"
            ),
            Self::NotWritable(status) => {
                write!(
                    f,
                    "flash: it does not let itself be written (status {status:02x})"
                )
            }
            Self::Busy => write!(f, "flash: still busy after {PATIENCE}"),
        }
    }
}

/// Identifies the flash at `line`, and erases a sector. Checks that the sector is all ones, writes
/// a pattern that differs from its old contents, and reads it back. The old contents are lost.
pub fn flash<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>(
    bus: &Bus<C, P, W, S, B>,
    line: Select,
    tell: &mut dyn FnMut(Told),
) {
    let tried = bus
        .device(Settings::new(CLOCK, line))
        .map_err(Failed::Refused)
        .and_then(|device| {
            let clock = bus.platform();
            Flash { device, clock }.try_sector(tell)
        });
    if let Err(failed) = tried {
        tell(Told::Fault(text(format_args!("{failed}"))));
    }
}

struct Flash<'b, C: Controller, P: Platform, const W: usize, const S: usize, const B: usize> {
    device: Device<'b, C, P, W, S, B>,
    clock: &'b P,
}

impl<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>
    Flash<'_, C, P, W, S, B>
{
    fn try_sector(&self, tell: &mut dyn FnMut(Told)) -> Result<(), Failed> {
        let id = self.identify()?;
        tell(Told::FlashId(id));
        // The third byte of every known maker: the size's logarithm.
        if !(0x19..=0x22).contains(&id[2]) {
            return Err(Failed::Small(id));
        }
        let before = self.digest()?;
        let around = self.neighbours()?;
        let pattern = Pattern::other_than(before);

        let start = self.clock.now();
        self.change(&[ERASE], ADDRESS, &[])?;
        let erased = self.clock.now();
        let mut not_erased = 0;
        self.each_page(|_, page| {
            not_erased += page.iter().filter(|&&byte| byte != 0xff).count() as u32;
        })?;

        let writes = self.clock.now();
        for page in 0..SECTOR / PAGE as u32 {
            let bytes = pattern.page(page);
            self.change(&[PROGRAM], ADDRESS + page * PAGE as u32, &bytes)?;
        }
        let written = self.clock.now();
        tell(Told::Sector(Sector {
            address: ADDRESS,
            before,
            not_erased,
            pattern: pattern.digest(),
            after: self.digest()?,
            neighbours_kept: self.neighbours()? == around,
            erase_ns: (erased - start).0,
            write_ns: (written - writes).0,
        }));
        Ok(())
    }

    fn identify(&self) -> Result<[u8; 3], Failed> {
        let mut id = [0; 3];
        self.device.write_then_read(&[READ_ID], &mut id)?;
        match id {
            [a, b, c] if a == b && b == c && matches!(a, 0 | 0xff) => Err(Failed::Absent(a)),
            id => Ok(id),
        }
    }

    fn read(&self, address: u32, into: &mut [u8]) -> Result<(), Failed> {
        let address = address.to_be_bytes();
        let mut transfers = [
            Transfer::write(&[READ]),
            Transfer::write(&address),
            Transfer::read(into),
        ];
        Ok(self.device.sync(&mut transfers)?)
    }

    fn each_page(&self, mut look: impl FnMut(u32, &[u8; PAGE])) -> Result<(), Failed> {
        for page in 0..SECTOR / PAGE as u32 {
            let mut bytes = [0; PAGE];
            self.read(ADDRESS + page * PAGE as u32, &mut bytes)?;
            look(page, &bytes);
        }
        Ok(())
    }

    fn digest(&self) -> Result<Digest, Failed> {
        let mut sha = Sha256::new();
        self.each_page(|_, page| sha.update(page))?;
        Ok(sha.finalize().into())
    }

    /// Returns the pages just before and just behind.
    fn neighbours(&self) -> Result<[[u8; PAGE]; 2], Failed> {
        let mut around = [[0; PAGE]; 2];
        self.read(ADDRESS - PAGE as u32, &mut around[0])?;
        self.read(ADDRESS + SECTOR, &mut around[1])?;
        Ok(around)
    }

    /// Erases or programs, and waits until it is done.
    fn change(&self, instruction: &[u8], address: u32, bytes: &[u8]) -> Result<(), Failed> {
        self.device.write(&[WRITE_ENABLE])?;
        let status = self.status()?;
        if status & WRITABLE == 0 || status & BUSY != 0 {
            return Err(Failed::NotWritable(status));
        }
        let address = address.to_be_bytes();
        let mut transfers = [
            Transfer::write(instruction),
            Transfer::write(&address),
            Transfer::write(bytes),
        ];
        self.device.sync(&mut transfers)?;
        self.wait_while_busy()?;
        // Chips do that by themselves. QEMU's does not, and is selected also for bytes
        // that are meant for no device (its controller takes "off" for asserted): it must not write that.
        Ok(self.device.write(&[WRITE_DISABLE])?)
    }

    /// Waits until the chip is ready. Polls are counted too, so that a clock that stops or is set
    /// back cannot prolong the wait.
    fn wait_while_busy(&self) -> Result<(), Failed> {
        let deadline = self.clock.now() + PATIENCE;
        for _ in 0..=PATIENCE.0 / LOOK.0 {
            if self.status()? & BUSY == 0 {
                return Ok(());
            }
            let now = self.clock.now();
            if now >= deadline {
                break;
            }
            self.clock.sleep_until(now + LOOK);
        }
        Err(Failed::Busy)
    }

    fn status(&self) -> Result<u8, Failed> {
        let mut status = [0];
        self.device.write_then_read(&[READ_STATUS], &mut status)?;
        Ok(status[0])
    }
}

/// Bytes without a pattern of their own, by a seed.
struct Pattern(u64);

impl Pattern {
    /// Returns a pattern whose contents do not have this digest.
    fn other_than(digest: Digest) -> Self {
        let mut seed = [0; 8];
        seed.copy_from_slice(&digest[..8]);
        let seed = u64::from_le_bytes(seed);
        let pattern = Self(seed);
        match pattern.digest() == digest {
            true => Self(seed ^ 1),
            false => pattern,
        }
    }

    fn page(&self, page: u32) -> [u8; PAGE] {
        let mut state = self.0 ^ u64::from(page + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = [0; PAGE];
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
            // Generators", 2014).
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
        }
        bytes
    }

    fn digest(&self) -> Digest {
        let mut sha = Sha256::new();
        for page in 0..SECTOR / PAGE as u32 {
            sha.update(self.page(page));
        }
        sha.finalize().into()
    }
}
