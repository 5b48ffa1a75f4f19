//! The firmware's tables, as far as they are of use here.

use core::ptr::{self, NonNull};
use core::slice;

use acpi::rsdp::Rsdp;
use acpi::sdt::{SdtHeader, Signature};
use acpi::{AcpiError, AcpiHandler, AcpiTable, AcpiTables, PhysicalMapping};

use super::paging;

/// The bytes of the table of this kind, its header first; `None` if the firmware has none.
///
/// It begins with the signature and has the length that it says; what else is wrong with
/// it, its reader finds. `rsdp` is where the boot protocol says that the root pointer is;
/// if it does not, the places are searched where firmware leaves it (ACPI 6.5, 5.2.5.1).
pub fn mcfg(rsdp: u64) -> Option<&'static [u8]> {
    let tables = match rsdp {
        // SAFETY: a PC that was not booted by UEFI; all that is read there is mapped, ROM
        // or RAM.
        0 => unsafe { AcpiTables::search_for_rsdp_bios(Mapped) },
        // SAFETY: `Mapped` gives nothing but zeros where there is nothing to be read.
        rsdp => unsafe { AcpiTables::from_rsdp(Mapped, rsdp as usize) },
    };
    let table = tables.ok()?.find_table::<Mcfg>().ok()?;
    let start = table.virtual_start().cast::<u8>().as_ptr();
    // SAFETY: `Mapped` has found all of it to be mapped, for ever; the firmware's tables
    // are written by nobody.
    Some(unsafe { slice::from_raw_parts(start, table.region_length()) })
}

/// That table, whatever it holds.
#[repr(transparent)]
struct Mcfg {
    header: SdtHeader,
}

// SAFETY: nothing but the header, which each table has.
unsafe impl AcpiTable for Mcfg {
    const SIGNATURE: Signature = Signature::MCFG;

    fn header(&self) -> &SdtHeader {
        &self.header
    }

    /// Nothing more than its signature, which has been looked at: a table that is damaged
    /// is to be told from one that is not there.
    fn validate(&self) -> Result<(), AcpiError> {
        Ok(())
    }
}

/// What a table may be read from: memory that is mapped at its own address.
///
/// The crate has no way to be told that there is nothing, and believes the lengths that it
/// finds; so what cannot be right is shown to it as [`Nothing`], which has no signature.
#[derive(Clone, Copy)]
struct Mapped;

/// Longer than any table that we read, and than what is searched for the root pointer.
const LONGEST: usize = 256 << 10;

/// Where nothing is: longer than a header, and aligned for any `T`.
#[repr(align(16))]
struct Nothing([u8; 64]);

static NOTHING: Nothing = Nothing([0; 64]);

impl AcpiHandler for Mapped {
    unsafe fn map_physical_region<T>(
        &self,
        address: usize,
        size: usize,
    ) -> PhysicalMapping<Self, T> {
        let start = match NonNull::new(ptr::with_exposed_provenance_mut(address)) {
            Some(start) if is_plausible::<T>(address, size) => start,
            _ => NonNull::from(&NOTHING.0).cast(),
        };
        // What is mapped is said to be what was asked for, so that the crate asks again for
        // the whole of a table, by the length in its header.
        // SAFETY: mapped, or long enough for a header, which is the largest `T`.
        unsafe { PhysicalMapping::new(address, start, size, size, *self) }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
}

/// Whether a `T` of `size` bytes can be there, with the length that it says it has.
fn is_plausible<T>(address: usize, size: usize) -> bool {
    const { assert!(size_of::<T>() <= size_of::<Nothing>()) };
    let is_mapped = |size| size <= LONGEST && paging::is_mapped(address, size);
    if size < size_of::<T>() || !is_mapped(size) {
        return false;
    }
    if size_of::<T>() < size_of::<SdtHeader>() {
        return true; // a place to search
    }
    // SAFETY: mapped, see above; both are bytes of any value, unaligned.
    let (rsdp, header) = unsafe { (&*(address as *const Rsdp), &*(address as *const SdtHeader)) };
    if rsdp.signature() == *b"RSD PTR " {
        return rsdp.revision() == 0
            || (size_of::<Rsdp>()..=LONGEST).contains(&(rsdp.length() as usize))
                && is_mapped(rsdp.length() as usize);
    }
    let length = header.length as usize;
    length >= size_of::<SdtHeader>() && is_mapped(length)
}
