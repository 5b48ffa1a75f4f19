//! The platform-level interrupt controller (RISC-V PLIC Specification 1.0.0). It delivers all
//! device interrupts to the first CPU.

use core::mem;
use core::ptr::NonNull;

use nostall_io::{Mmio, MmioLayout, Processor, Registers};
use riscv::register::sie;
use spin::{Mutex, Once};

use super::{Cpu, cpus, harts, paging};
use crate::device_tree::Device;

/// Names of the controller in device trees.
const COMPATIBLE: [&str; 2] = ["sifive,plic-1.0.0", "riscv,plic0"];

/// The cause of an external interrupt in supervisor mode, which identifies the context to use.
const SUPERVISOR_EXTERNAL: u64 = 9;

// Register numbers: offset / 4 (section "Memory Map"). All registers have 32 bits.
const PRIORITY: usize = 0;
const ENABLE: usize = 0x2000 / 4;
const ENABLE_STRIDE: usize = 0x80 / 4;
const THRESHOLD: usize = 0x20_0000 / 4;
const CLAIM: usize = THRESHOLD + 1;
const CONTEXT_STRIDE: usize = 0x1000 / 4;

/// Number of supported interrupts. Number 0 means none.
const SOURCES: u32 = 1024;

/// Handler of an interrupt. It must make the device withdraw the interrupt.
type Handler<'a> = &'a (dyn Fn() + Sync);

/// The current handler and its interrupt number. There is one handler at a time.
static HANDLER: Mutex<Option<(u32, Handler<'static>)>> = Mutex::new(None);

static PLIC: Once<Plic> = Once::new();

/// The controller's registers, and the context of the first CPU's supervisor mode.
struct Plic {
    window: Mmio,
    context: usize,
}

/// Returns the controller as the device tree describes it.
fn device() -> Option<Device> {
    COMPATIBLE.into_iter().flat_map(Device::all).next()
}

/// Returns the number of a device's interrupt, if this controller receives it.
pub fn interrupt_of(device: &Device) -> Option<u32> {
    device.interrupt(&self::device()?)
}

/// Runs `body`, and calls `handler` for each interrupt `source` on this CPU meanwhile.
///
/// Panics on any CPU but the first, without a controller, and if the controller has no such
/// number.
pub fn while_handled<T>(source: u32, handler: Handler<'_>, body: impl FnOnce() -> T) -> T {
    assert_eq!(Cpu.id(), 0, "only the first CPU handles device interrupts");
    let plic = PLIC.call_once(Plic::find);
    assert!(
        (1..SOURCES).contains(&source),
        "interrupt {source}: there are 1 to {}",
        SOURCES - 1
    );
    // SAFETY: only the lifetime changes. The handler runs on this CPU alone, and is removed below
    // before this function returns. If `body` panics, the machine ends, and the caller's stack
    // stays intact.
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

/// Handles an interrupt of a device.
pub fn on_interrupt() {
    let Some(plic) = PLIC.get() else {
        return;
    };
    // The value is 0 if the interrupt was withdrawn meanwhile.
    let source = plic.window.read32(CLAIM + plic.context * CONTEXT_STRIDE);
    if source == 0 {
        return;
    }
    let handler = *HANDLER.lock();
    if let Some((_, handler)) = handler.filter(|(handled, _)| *handled == source) {
        handler();
    }
    plic.window
        .write32(CLAIM + plic.context * CONTEXT_STRIDE, source);
}

impl Plic {
    /// Finds the controller and its context for this CPU, and disables all its interrupts.
    ///
    /// Panics if there is none.
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
            let base = NonNull::new(range.start as *mut u8)?;
            let len = (range.end - range.start) as usize;
            // SAFETY: mapped on all CPUs, as checked above; it does no DMA.
            let window = unsafe { Mmio::new(base, len, MmioLayout::WORDS) };
            let window = window.expect("words, aligned");
            Some(Self { window, context })
        });
        let Some(plic) = found else {
            panic!("the device tree has no interrupt controller for the first CPU");
        };
        let window = plic.window;
        // A boot loader may have left interrupts of devices enabled that have no driver here.
        for word in 0..SOURCES as usize / 32 {
            window.write32(ENABLE + plic.context * ENABLE_STRIDE + word, 0);
        }
        window.write32(THRESHOLD + plic.context * CONTEXT_STRIDE, 0);
        // SAFETY: traps.rs handles it.
        unsafe { sie::set_sext() };
        plic
    }

    /// Enables or disables the interrupts of `source`.
    fn enable(&self, source: u32, on: bool) {
        let window = self.window;
        let word = ENABLE + self.context * ENABLE_STRIDE + source as usize / 32;
        let bit = 1 << (source % 32);
        let others = window.read32(word) & !bit;
        window.write32(PRIORITY + source as usize, 1);
        window.write32(word, if on { others | bit } else { others });
    }
}
