//! The values that the PVH boot protocol passes.

use core::arch::global_asm;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use nostall_work::pstore::REGION;

use super::cpus::MAX_CPUS;
use super::paging::STACK_STRIDE;
use super::{apic, cpus, paging, traps};
use crate::boot::{Boot, NoRam, overlap};

global_asm!(
    ".set MAX_CPUS, {max}",
    ".set STACK_STRIDE, {stride}",
    include_str!("boot.s"),
    max = const MAX_CPUS,
    stride = const STACK_STRIDE,
    options(att_syntax),
);

/// The start info, version 1 (Xen's include/public/arch-x86/hvm/start_info.h).
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

const MAGIC: u32 = 0x336e_c578;

#[repr(C)]
struct Module {
    address: u64,
    size: u64,
    command_line: u64,
    reserved: u64,
}

/// One range of the memory map; the types are those of the PC's E820.
#[repr(C)]
struct MemoryRange {
    start: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

impl MemoryRange {
    const fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.size)
    }

    const fn is_ram(&self) -> bool {
        self.kind == 1
    }

    /// Returns whether the range is reserved: it is not RAM, and never will be (ACPI 6.5, section
    /// 15.1, table 15.4).
    const fn is_reserved(&self) -> bool {
        self.kind == 2
    }
}

/// Brings up the CPU with this number. The first one also reads the start info.
pub fn enter(number: usize, start_info: usize, _: usize) -> Option<Boot> {
    cpus::init_this(number);
    traps::init_this_cpu();
    if number != 0 {
        paging::activate();
        cpus::await_timer_rate();
        return None;
    }
    apic::mask_legacy_interrupts();
    // SAFETY: the boot protocol put it there, and since then only our own image was written.
    let info = unsafe { &*(start_info as *const StartInfo) };
    assert!(
        info.magic == MAGIC && info.version >= 1,
        "not booted by PVH version 1"
    );
    // SAFETY: as above; the count is the table's own.
    let memory: &[MemoryRange] =
        unsafe { array(info.memory_map, info.memory_map_entries as usize) };
    let ram = memory.iter().filter(|range| range.is_ram());
    let ram = ram.map(MemoryRange::range);
    let mut holds_region = ram.clone().filter(|ram| ram.contains(&REGION.start));
    let end = holds_region.next().map_or(0, |ram| ram.end);
    PERSISTENT_END.store(end, Ordering::Relaxed);
    let input = input(info);
    FIRMWARE.call_once(|| Firmware::new(info.rsdp, memory, input));
    paging::init(ram);
    paging::activate();
    Some(Boot {
        command_line: command_line(info.command_line),
        input,
    })
}

/// Values that are needed after the firmware's copy may have been overwritten.
pub struct Firmware {
    /// Address of ACPI's root pointer; 0 if the boot protocol does not pass it.
    pub rsdp: u64,
    /// Range of the input.
    input: Range<u64>,
    reserved: [Range<u64>; Firmware::MOST],
    count: usize,
}

static FIRMWARE: spin::Once<Firmware> = spin::Once::new();

impl Firmware {
    /// Maximum number of kept reserved ranges. Further ranges count as not reserved.
    const MOST: usize = 64;

    /// Returns the values from the boot protocol.
    pub fn get() -> &'static Self {
        FIRMWARE.get().expect("the first CPU has been at `enter`")
    }

    fn new(rsdp: u64, memory: &[MemoryRange], input: &[u8]) -> Self {
        let input = input.as_ptr_range();
        let mut reserved = [const { 0..0 }; Self::MOST];
        let ranges = memory.iter().filter(|range| range.is_reserved());
        let kept = reserved.iter_mut().zip(ranges);
        let count = kept.map(|(kept, range)| *kept = range.range()).count();
        Self {
            rsdp,
            input: input.start.addr() as u64..input.end.addr() as u64,
            reserved,
            count,
        }
    }

    /// Returns the reserved memory ranges, which are not RAM.
    pub fn reserved(&self) -> impl Iterator<Item = Range<u64>> + Clone {
        self.reserved[..self.count].iter().cloned()
    }
}

/// End of the RAM in which [`REGION`] begins; 0 if there is none.
static PERSISTENT_END: AtomicU64 = AtomicU64::new(0);

/// Returns the memory of `region`, in RAM that the machine may preserve when the kernel ends. The
/// addresses in `region` count from the start of RAM.
///
/// Otherwise, returns the reason: no RAM is there, or it is in use.
pub fn persistent_ram(region: Range<u64>) -> Result<(NonNull<u8>, usize), NoRam> {
    let input = Firmware::get().input.clone();
    let in_use = overlap(&region, &input).then_some(input);
    let end = PERSISTENT_END.load(Ordering::Relaxed);
    if region.start < REGION.start || region.end > end || in_use.is_some() {
        return Err(NoRam { region, in_use });
    }
    let start = NonNull::new(region.start as *mut u8).expect("not null");
    Ok((start, (region.end - region.start) as usize))
}

/// Copies the command line. The boot protocol's text is in low memory, which is overwritten when
/// the other CPUs start.
fn command_line(address: u64) -> &'static str {
    static COPY: spin::Once<([u8; 4096], usize)> = spin::Once::new();
    let (copy, len) = COPY.call_once(|| {
        let mut copy = [0; 4096];
        if address == 0 {
            return (copy, 0);
        }
        for (i, byte) in copy.iter_mut().enumerate() {
            // SAFETY: NUL-terminated according to the boot protocol; not read beyond the NUL.
            *byte = unsafe { *((address as usize + i) as *const u8) };
            if *byte == 0 {
                return (copy, i);
            }
        }
        panic!("the command line has more than 4095 bytes");
    });
    core::str::from_utf8(&copy[..*len]).expect("the command line is not UTF-8")
}

/// Returns the first module, or an empty slice if there is none.
fn input(info: &StartInfo) -> &'static [u8] {
    // SAFETY: the boot protocol's list, with its own count.
    let modules: &[Module] = unsafe { array(info.module_list, info.modules as usize) };
    let Some(first) = modules.first() else {
        return &[];
    };
    let input = first.address..first.address + first.size;
    assert!(
        input.is_empty() || paging::SMALL as u64 <= input.start && input.end <= 1 << 32,
        "the input at {input:#x?} overlaps this kernel, or is beyond the mapped 4 GiB"
    );
    // SAFETY: the boot protocol put the module there, in RAM without another user. It is mapped,
    // and outside of the image, as checked above. `persistent_ram` excludes it, too. So it is never
    // written.
    unsafe { array(first.address, first.size as usize) }
}

/// # Safety
///
/// Unless `len` is 0, `len` values of `T` must be at `address`, and stay valid forever.
unsafe fn array<T>(address: u64, len: usize) -> &'static [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { slice::from_raw_parts(address as *const T, len) }
}
