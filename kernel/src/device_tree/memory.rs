//! Memory that the boot protocol assigns: RAM around the kernel, its input, and RAM that outlives it.

use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use super::{initrd, place, ram, reserved};
use crate::boot::{NoRam, overlap};

/// Returns the range of RAM that contains all of `range`.
pub fn ram_around(range: &Range<u64>) -> Option<Range<u64>> {
    ram().find(|ram| ram.start <= range.start && range.end <= ram.end)
}

/// Returns the range of RAM that contains the kernel's image.
///
/// Panics if the device tree has none.
pub fn ram_of(image: &Range<u64>) -> Range<u64> {
    let Some(ram) = ram_around(image) else {
        panic!("the device tree has no RAM at {image:#x?}, where the kernel is");
    };
    ram
}

/// Returns the initial RAM disk, empty if there is none. All RAM is mapped, except parts of the image
/// and memory that is adjacent to it.
///
/// Panics if it is not in mapped RAM of its own.
pub fn input(image: &Range<u64>, is_mapped: fn(usize) -> bool) -> &'static [u8] {
    let Some(range) = initrd() else {
        return &[];
    };
    assert!(
        ram_around(&range).is_some()
            && !overlap(&range, image)
            && [range.start, range.end - 1]
                .into_iter()
                .all(|end| is_mapped(end as usize)),
        "the input, at {range:#x?}, is not in mapped RAM of its own"
    );
    // SAFETY: the firmware put it there, in RAM that is mapped at both ends. It is also mapped in
    // between, because the unmapped part is adjacent to our image or in it. It is never written: it
    // is not in our image, and `persistent` excludes it.
    unsafe { slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) }
}

/// Returns the memory of `region`, in RAM that the machine may preserve when the kernel ends. The
/// addresses in `region` count from the start of RAM.
///
/// Otherwise, returns the reason: no RAM is there, or it is in use.
pub fn persistent(region: Range<u64>, image: &Range<u64>) -> Result<(NonNull<u8>, usize), NoRam> {
    let ram = ram_of(image);
    let region = ram.start + region.start..ram.start + region.end;
    let others = [Some(image.clone()), Some(place()), initrd()];
    let mut others = others.into_iter().flatten().chain(reserved());
    let in_use = others.find(|other| overlap(&region, other));
    if region.end > ram.end || in_use.is_some() {
        return Err(NoRam { region, in_use });
    }
    let start = NonNull::new(region.start as *mut u8).expect("not null");
    Ok((start, (region.end - region.start) as usize))
}
