//! The local APIC, memory-mapped (Intel SDM volume 3, chapter "APIC").

use core::ptr::NonNull;

use nostall_io::{Clock, Mmio, MmioLayout, Nanos, Ports, Registers};

/// Vector of the timer, after the 32 exceptions.
pub const TIMER_VECTOR: u8 = 32;
/// Vector of wake-ups from other CPUs.
pub const WAKE_VECTOR: u8 = 33;
/// Vector of an interrupt that was withdrawn meanwhile.
pub const SPURIOUS_VECTOR: u8 = 47;

/// Address after reset. At this address, every CPU accesses its own local APIC.
const BASE: usize = 0xfee0_0000;

// Register numbers: offset / 16, since registers are 16 bytes apart (SDM, table "Local APIC
// Register Address Map").
const ID: usize = 0x02;
const END_OF_INTERRUPT: usize = 0x0b;
const SPURIOUS: usize = 0x0f;
const COMMAND_LOW: usize = 0x30;
const COMMAND_HIGH: usize = 0x31;
const TIMER: usize = 0x32;
const TIMER_INITIAL: usize = 0x38;
const TIMER_CURRENT: usize = 0x39;
const TIMER_DIVIDE: usize = 0x3e;

// Fields of the interrupt command (SDM, figure "Interrupt Command Register").
const ALL_BUT_ME: u32 = 0b11 << 18;
const ASSERT: u32 = 1 << 14;
const SEND_PENDING: u32 = 1 << 12;

/// The local APIC of one CPU.
pub struct LocalApic(Mmio);

impl LocalApic {
    /// Returns the current CPU's local APIC.
    pub fn of_this_cpu() -> Self {
        let layout = MmioLayout {
            stride: 16,
            ..MmioLayout::WORDS
        };
        let base = NonNull::new(BASE as *mut u8).expect("not null");
        // SAFETY: paging.rs identity-maps it as device memory on all CPUs. Each CPU accesses its
        // own registers there, which do no DMA.
        Self(unsafe { Mmio::new(base, 0x400, layout) }.expect("a fixed layout"))
    }

    /// Returns the APIC's id, for commands.
    pub fn id(&self) -> u8 {
        (self.0.read32(ID) >> 24) as u8
    }

    /// Enables interrupts to this CPU, and sets its timer's divider.
    pub fn enable(&self) {
        self.0
            .write32(SPURIOUS, 1 << 8 | u32::from(SPURIOUS_VECTOR));
        self.0.write32(TIMER_DIVIDE, 0b0011); // by 16
    }

    /// Signals the end of an interrupt.
    pub fn end_of_interrupt(&self) {
        self.0.write32(END_OF_INTERRUPT, 0);
    }

    /// Measures the timer's rate in hertz. The result is too low by at most the time of the
    /// register accesses. It is never too high, so an interrupt is never late. An early interrupt
    /// sets the timer again.
    ///
    /// On a shared machine, a pause can hit the start or the end of an interval. One interval with
    /// exact ends is enough; otherwise the best one counts.
    pub fn measure_timer(&self, clock: &impl Clock) -> u64 {
        const SURE: u64 = 1_000;
        const TRIES: usize = 10;
        self.0.write32(TIMER, 1 << 16); // masked, one shot
        let mut best = 0;
        for _ in 0..TRIES {
            // The timer has counted for at most `took`, and for at least `took - doubt`.
            let before = clock.now();
            self.0.write32(TIMER_INITIAL, u32::MAX);
            let start = clock.now();
            clock.wait_until(start + Nanos::from_millis(5));
            let asked = clock.now();
            let counted = u32::MAX - self.0.read32(TIMER_CURRENT);
            let looked = clock.now();
            let took = looked - before;
            let doubt = (start - before) + (looked - asked);
            best = best.max(u64::from(counted) * 1_000_000_000 / took.0.max(1));
            if doubt.0 < took.0 / SURE {
                break;
            }
        }
        best
    }

    /// Interrupts this CPU once, after `span`. Earlier if `span` exceeds half an hour, or 2^32 - 1
    /// steps of the timer.
    pub fn set_timer(&self, timer_hz: u64, span: Nanos) {
        let span = span.0.min(1_800_000_000_000);
        let count = u128::from(span) * u128::from(timer_hz) / 1_000_000_000;
        let count = count.clamp(1, u32::MAX.into());
        self.0.write32(TIMER, u32::from(TIMER_VECTOR)); // one shot
        self.0.write32(TIMER_INITIAL, count as u32);
    }

    /// Sends an NMI to all other CPUs.
    pub fn send_nmi_to_others(&self) {
        const NMI: u32 = 0b100 << 8;
        self.0.write32(COMMAND_HIGH, 0);
        self.0.write32(COMMAND_LOW, ALL_BUT_ME | ASSERT | NMI);
    }

    /// Wakes the CPU with this local APIC. Interrupts must be masked, because a handler may
    /// also write commands.
    pub fn wake(&self, id: u8) {
        /// Maximum number of polls until the previous command is accepted, which takes
        /// microseconds.
        const LOOKS: u32 = 1_000;
        let _ = (0..LOOKS).find(|_| self.0.read32(COMMAND_LOW) & SEND_PENDING == 0);
        self.0.write32(COMMAND_HIGH, u32::from(id) << 24);
        self.0.write32(COMMAND_LOW, ASSERT | u32::from(WAKE_VECTOR));
    }

    /// Starts all other CPUs at `page`, below 1 MiB: INIT, then a start-up message (SDM, "MP
    /// Initialization Protocol Algorithm").
    pub fn start_others(&self, page: usize, clock: &impl Clock) {
        const INIT: u32 = 0b101 << 8;
        const START_UP: u32 = 0b110 << 8;
        let wait = |span| clock.wait_until(clock.now() + span);
        self.0.write32(COMMAND_HIGH, 0);
        self.0.write32(COMMAND_LOW, ALL_BUT_ME | ASSERT | INIT);
        wait(Nanos::from_millis(10));
        let vector = (page >> 12) as u32;
        for _ in 0..2 {
            self.0
                .write32(COMMAND_LOW, ALL_BUT_ME | ASSERT | START_UP | vector);
            wait(Nanos::from_micros(200));
        }
    }
}

/// Masks the two 8259 interrupt controllers, which the firmware may have left enabled.
pub fn mask_legacy_interrupts() {
    for base in [0x20, 0xa0] {
        // SAFETY: ring 0; an interrupt controller does no DMA.
        unsafe { Ports::new(base, 2) }.write8(1, 0xff);
    }
}
