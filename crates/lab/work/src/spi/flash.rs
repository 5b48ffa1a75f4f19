//! A flash test: identifies the flash; erases, writes and reads back a sector.
//!
//! Sources: JEDEC JESD216 for the common instructions, with four-byte addresses. ISSI's IS25WP256
//! supports them all. Neither document was at hand: the driver was written from general knowledge,
//! and tested with QEMU's model and nostall's.

use core::fmt;

use nostall_io::Nanos;
use nostall_spi::{
    AnySlots, Bus, Controller, Device, Error, Invalid, Platform, Settings, Transfer,
};
use sha2::{Digest as _, Sha256};

use super::job_result::{Digest, JobResult, Sector};
use crate::text;

/// Size of an erase sector in bytes.
pub const SECTOR: u32 = 4096;

/// Address of the tested sector. Three-byte addresses do not reach it, so that the test covers
/// those of four bytes.
const ADDRESS: u32 = (16 << 20) + 5 * SECTOR;

/// Size of a program page in bytes.
const PAGE: usize = 256;

/// Clock rate in hertz: all such chips read at this rate without dummy cycles.
const CLOCK: u32 = 20_000_000;

/// READ JEDEC ID.
const READ_ID: u8 = 0x9f;
const READ_STATUS: u8 = 0x05;
const WRITE_ENABLE: u8 = 0x06;
const WRITE_DISABLE: u8 = 0x04;
/// READ with a four-byte address.
const READ: u8 = 0x13;
/// PAGE PROGRAM with a four-byte address.
const PROGRAM: u8 = 0x12;
/// 4 KiB SECTOR ERASE with a four-byte address.
const ERASE: u8 = 0x21;

/// Status bit WIP: an erase or program operation is in progress.
const BUSY: u8 = 1 << 0;
/// Status bit WEL: writes are enabled.
const WRITABLE: u8 = 1 << 1;

/// Time limit: longer than any such chip takes to erase a sector. A page takes a hundredth of that.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// Interval between reads of the status.
const LOOK: Nanos = Nanos::from_micros(100);

/// Reason why the job failed.
enum Failed {
    Refused(Invalid),
    Bus(Error),
    /// No device drives the data wire, or the wire is shorted; the value is the byte read.
    Absent(u8),
    /// Too small, or of unknown size: manufacturer and two bytes of device ID.
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
                write!(f, "no flash: only {byte:02x} is received")
            }
            Self::Small([a, b, c]) => write!(
                f,
                "flash {a:02x} {b:02x} {c:02x}: it does not report a size above 16 MiB"
            ),
            Self::NotWritable(status) => {
                write!(f, "flash: it does not enable writes (status {status:02x})")
            }
            Self::Busy => write!(f, "flash: still busy after {PATIENCE}"),
        }
    }
}

/// Tests the flash at `line`: erases a sector, checks that it is all ones, and writes a pattern
/// that differs from the old contents. It then reads the sector back. The old contents are lost.
pub fn flash<C: Controller, P: Platform>(
    bus: &Bus<C, P, dyn AnySlots>,
    line: u8,
    tell: &mut dyn FnMut(JobResult),
) {
    let tried = bus
        .device(Settings::new(CLOCK, line))
        .map_err(Failed::Refused)
        .and_then(|device| {
            let clock = bus.platform();
            Flash { device, clock }.try_sector(tell)
        });
    if let Err(failed) = tried {
        tell(JobResult::Fault(text(format_args!("{failed}"))));
    }
}

struct Flash<'b, C: Controller, P: Platform> {
    device: Device<'b, C, P>,
    clock: &'b P,
}

impl<C: Controller, P: Platform> Flash<'_, C, P> {
    fn try_sector(&self, tell: &mut dyn FnMut(JobResult)) -> Result<(), Failed> {
        let id = self.identify()?;
        tell(JobResult::FlashId(id));
        // Most makers code the size in the third byte: 0x19 for 32 MiB, 0x1a or 0x20 for 64 MiB.
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
        tell(JobResult::Sector(Sector {
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

    /// Returns the pages directly before and behind the sector.
    fn neighbours(&self) -> Result<[[u8; PAGE]; 2], Failed> {
        let mut around = [[0; PAGE]; 2];
        self.read(ADDRESS - PAGE as u32, &mut around[0])?;
        self.read(ADDRESS + SECTOR, &mut around[1])?;
        Ok(around)
    }

    /// Erases or programs, and waits until the operation is complete.
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
        // Real chips clear the write enable latch themselves. QEMU's model does not, and its
        // controller also selects the chip for bytes without a device. They must not be written.
        Ok(self.device.write(&[WRITE_DISABLE])?)
    }

    /// Waits until the chip is ready. The number of polls is also limited, so that a stopped or
    /// reset clock cannot prolong the wait.
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

/// Pseudo-random bytes from a seed.
struct Pattern(u64);

impl Pattern {
    /// Returns a pattern with another digest than `digest`.
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
            // SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
            // 2014).
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
