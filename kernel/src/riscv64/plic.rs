//! The platform-level interrupt controller (RISC-V PLIC Specification 1.0.0): interrupts
//! of devices, all of them for the first CPU.

use core::mem;
use core::ptr::NonNull;

use nostall_io::{Mmio, MmioLayout, Processor, Registers};
use riscv::register::sie;
use spin::{Mutex, Once};

use super::{Cpu, cpus, harts, paging};
use crate::device_tree::Device;

/// Names by which a device tree may know it.
const COMPATIBLE: [&str; 2] = ["sifive,plic-1.0.0", "riscv,plic0"];

/// The cause of an external interrupt in supervisor mode, by which a context of the
/// controller is told from the machine mode's.
const SUPERVISOR_EXTERNAL: u64 = 9;

// Registers of 32 bits ("Memory Map"), as numbers of words.
const PRIORITY: usize = 0;
const ENABLE: usize = 0x2000 / 4;
const ENABLE_STRIDE: usize = 0x80 / 4;
const THRESHOLD: usize = 0x20_0000 / 4;
const CLAIM: usize = THRESHOLD + 1;
const CONTEXT_STRIDE: usize = 0x1000 / 4;

/// Interrupts that there is room for; number 0 means that there is none.
const SOURCES: u32 = 1024;

/// What is done about an interrupt. It must have the device take it back.
type Handler<'a> = &'a (dyn Fn() + Sync);

/// There is one device at a time whose interrupt is wanted.
static HANDLER: Mutex<Option<(u32, Handler<'static>)>> = Mutex::new(None);

static PLIC: Once<Plic> = Once::new();

/// Where it is, and which of its contexts is the first CPU's supervisor mode.
struct Plic {
    base: NonNull<u8>,
    len: usize,
    context: usize,
}

// SAFETY: registers that stay where they are; see `window` for who uses them.
unsafe impl Send for Plic {}
// SAFETY: as above.
unsafe impl Sync for Plic {}

/// Returns the controller as the device tree describes it.
fn device() -> Option<Device> {
    COMPATIBLE.into_iter().flat_map(Device::all).next()
}

/// Returns the number of a device's interrupt, if it arrives here.
pub fn interrupt_of(device: &Device) -> Option<u32> {
    device.interrupt(&self::device()?)
}

/// Has `handler` called for each interrupt of the device whose number this is, on this
/// CPU, until `body` returns.
///
/// Panics on any CPU but the first, if this machine has no controller for it, and if that
/// knows no such number.
pub fn while_handled<T>(source: u32, handler: Handler<'_>, body: impl FnOnce() -> T) -> T {
    assert_eq!(Cpu.id(), 0, "interrupts of devices are the first CPU's");
    let plic = PLIC.call_once(Plic::find);
    assert!(
        (1..SOURCES).contains(&source),
        "interrupt {source}: there are 1 to {}",
        SOURCES - 1
    );
    // SAFETY: only the lifetime is changed. The handler is called on this CPU alone, and
    // below it is taken away before this returns. If `body` does not return, because it
    // panics, the machine ends, and our caller's stack stays as it is.
    let handler = unsafe { mem::transmute::<Handler<'_>, Handler<'static>>(handler) };
    Cpu.without_interrupts(|| {
        *HANDLER.lock() = Some((source, handler));
        plic.enable(source, true);
    });
    let result = body();
    Cpu.without_interrupts(|| {
        plic.enable(source, false);
        *HANDLER.lock() = None;
    });
    result
}

/// Some device has interrupted this CPU.
pub fn on_interrupt() {
    let Some(plic) = PLIC.get() else {
        return;
    };
    // 0: it has gone away in between.
    let source = plic.window().read32(CLAIM + plic.context * CONTEXT_STRIDE);
    if source == 0 {
        return;
    }
    let handler = *HANDLER.lock();
    if let Some((_, handler)) = handler.filter(|(handled, _)| *handled == source) {
        handler();
    }
    plic.window()
        .write32(CLAIM + plic.context * CONTEXT_STRIDE, source);
}

impl Plic {
    /// Panics if there is none for this CPU.
    fn find() -> Self {
        let found = device().and_then(|device| {
            let hart = harts::interrupts_of(cpus::first_hart())?;
            let mut contexts = device.cells("interrupts-extended");
            let pairs = core::iter::from_fn(|| Some((contexts.next()?, contexts.next()?)));
            let context = pairs
                .map(|(parent, cause)| (u64::from(parent), u64::from(cause)))
                .position(|pair| pair == (hart, SUPERVISOR_EXTERNAL))?;
            let range = device.registers;
            paging::is_device_memory(&range).then_some(())?;
            Some(Self {
                base: NonNull::new(range.start as *mut u8)?,
                len: (range.end - range.start) as usize,
                context,
            })
        });
        let Some(plic) = found else {
            panic!("the device tree has no interrupt controller for the first CPU");
        };
        let window = plic.window();
        // A boot loader may have left some on, of devices that nobody here would calm.
        for word in 0..SOURCES as usize / 32 {
            window.write32(ENABLE + plic.context * ENABLE_STRIDE + word, 0);
        }
        window.write32(THRESHOLD + plic.context * CONTEXT_STRIDE, 0);
        // SAFETY: traps.rs deals with it.
        unsafe { sie::set_sext() };
        plic
    }

    /// Whether interrupts of `source` arrive.
    fn enable(&self, source: u32, on: bool) {
        let window = self.window();
        let word = ENABLE + self.context * ENABLE_STRIDE + source as usize / 32;
        let bit = 1 << (source % 32);
        let others = window.read32(word) & !bit;
        window.write32(PRIORITY + source as usize, 1);
        window.write32(word, if on { others | bit } else { others });
    }

    fn window(&self) -> Mmio {
        // SAFETY: mapped, as was looked at; it does no DMA. The first CPU alone uses it,
        // with interrupts masked, and each window is gone before there is another.
        unsafe { Mmio::new(self.base, self.len, MmioLayout::WORDS) }.expect("words, aligned")
    }
}
