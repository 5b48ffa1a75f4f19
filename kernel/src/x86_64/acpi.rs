//! The firmware's MCFG table.

use core::ptr::{self, NonNull};
use core::slice;

use acpi::rsdp::Rsdp;
use acpi::sdt::{SdtHeader, Signature};
use acpi::{AcpiError, AcpiHandler, AcpiTable, AcpiTables, PhysicalMapping};

use super::paging;

/// Returns the bytes of the MCFG table with its header, or `None` if the firmware has none.
///
/// The signature and the length are valid; the caller checks the rest. `rsdp` is the address of
/// ACPI's root pointer from the boot protocol. If it is 0, the usual memory ranges are searched
/// (ACPI 6.5, section 5.2.5.1).
pub fn mcfg(rsdp: u64) -> Option<&'static [u8]> {
    let tables = match rsdp {
        // SAFETY: this PC was not booted with UEFI. All memory that is read is mapped ROM or RAM.
        0 => unsafe { AcpiTables::search_for_rsdp_bios(Mapped) },
        // SAFETY: `Mapped` returns only zeros for addresses that cannot be read.
        rsdp => unsafe { AcpiTables::from_rsdp(Mapped, rsdp as usize) },
    };
    let table = tables.ok()?.find_table::<Mcfg>().ok()?;
    let start = table.virtual_start().cast::<u8>().as_ptr();
    // SAFETY: `Mapped` has checked that all of it is mapped, forever. The firmware's tables are
    // never written.
    Some(unsafe { slice::from_raw_parts(start, table.region_length()) })
}

/// The table, with any contents.
#[repr(transparent)]
struct Mcfg {
    header: SdtHeader,
}

// SAFETY: only the header is accessed, and each table has one.
unsafe impl AcpiTable for Mcfg {
    const SIGNATURE: Signature = Signature::MCFG;

    fn header(&self) -> &SdtHeader {
        &self.header
    }

    /// Does not check the table again: its signature was compared already. A damaged table must be
    /// distinguishable from a missing one.
    fn validate(&self) -> Result<(), AcpiError> {
        Ok(())
    }
}

/// Access to tables: memory that is mapped at its own address.
///
/// The crate's interface cannot report missing memory, and the crate trusts the lengths that it
/// reads. Therefore, an implausible table is replaced with [`Nothing`], which has no signature.
#[derive(Clone, Copy)]
struct Mapped;

/// Maximum length of a readable range. It is above every table in use, and above the search range
/// for the root pointer.
const LONGEST: usize = 256 << 10;

/// Replacement for missing memory: longer than a header, and aligned for any `T`.
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
        // The region has the requested size, so the crate requests the whole table next, with the
        // length in its header.
        //
        // SAFETY: mapped, or long enough for a header, which is the largest `T`.
        unsafe { PhysicalMapping::new(address, start, size, size, *self) }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
}

/// Returns whether a `T` of `size` bytes can be at `address`, and whether the length in its header
/// is mapped memory.
fn is_plausible<T>(address: usize, size: usize) -> bool {
    const { assert!(size_of::<T>() <= size_of::<Nothing>()) };
    let is_mapped = |size| size <= LONGEST && paging::is_mapped(address, size);
    if size < size_of::<T>() || !is_mapped(size) {
        return false;
    }
    if size_of::<T>() < size_of::<SdtHeader>() {
        return true; // a search range
    }
    // SAFETY: mapped, see above. Both types allow any bytes and any alignment.
    let (rsdp, header) = unsafe { (&*(address as *const Rsdp), &*(address as *const SdtHeader)) };
    if rsdp.signature() == *b"RSD PTR " {
        return rsdp.revision() == 0
            || (size_of::<Rsdp>()..=LONGEST).contains(&(rsdp.length() as usize))
                && is_mapped(rsdp.length() as usize);
    }
    let length = header.length as usize;
    length >= size_of::<SdtHeader>() && is_mapped(length)
}
