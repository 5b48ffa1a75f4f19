//! The recorder: writes entries, exits and samples of all CPUs into their zones.
//!
//! # Order of each atomic
//!
//! On machines without 64-bit atomics, each half of a zone's word is stored with Release and loaded
//! with Acquire. The models are tests with loom (`writer/loom_tests.rs`) and under Miri with many
//! seeds, and lines of `scripts/barriers`.
//!
//! | atomic | stores and loads | why | model |
//! | --- | --- | --- | --- |
//! | `state` | stores SeqCst, Release; exchange AcqRel; loads Acquire | `start` clears it before it stores `region`. An exit loads `region` first: if that is the new one, it finds the cleared or the new state. | Miri `a_region_may_be_replaced_while_a_cpu_records` |
//! | `state`: `is_recording`, `resume` | loads Relaxed | Hints: nothing is read through them. | - |
//! | `region` | store Release; load Acquire; in `resume` Relaxed | The region's headers are written before. `resume` only compares with null. | Miri `a_region_may_be_replaced_while_a_cpu_records` |
//! | `filter` | store Release; load Acquire; in `start` Relaxed | The filter's contents are written before. `start` only compares with null. | - |
//! | `generation` | store Release; load Acquire | Stored after the region or the filter, and loaded before them. So no site caches an old number or decision with a new generation. | Miri `a_region_may_be_replaced_while_a_cpu_records` |
//! | `LAST`; `COUNTERS` (`stalls.rs`) | addition Relaxed | Value only: a unique number; a sum. | - |
//! | `GLOBAL` (`global.rs`) | stores Release; load Acquire; in `is_on` Relaxed | The recorder's contents are written before. `is_on` only compares with null. | `barriers`: `global clear_recorder` |
//! | `cache` (`site.rs`, `wide.rs`) | store Release; load Acquire | A CPU that takes a cached number stores it in a record. The record's reader must find the name, which another CPU may have added. | Miri `a_reader_of_a_record_finds_the_name_that_another_cpu_added` |
//! | `HEAD` of a zone (`writer.rs`, `cells.rs`) | exchange Release; load Relaxed; a reader's Acquire | Only its own CPU reserves. A reservation comes before the stores to its slots, and a reader loads the head after the slots. So it sees which slots were overwritten. | loom `a_handler_records_while_another_cpu_reads` |
//! | value and meta word of a slot (`writer.rs`) | store Release, then exchange Release; a reader's Acquire | A reader loads the meta word first, so the value is not older. A newer value shows a newer head. | loom `a_handler_records_while_another_cpu_reads`; `barriers`: `Live Image read` |
//! | other words of a zone | Relaxed and Release | Only the zone's CPU and its handlers change them, in program order. A reader takes each one by itself. | loom `an_abandoned_record_is_passed_and_forgotten_while_another_cpu_reads` |
//! | `NAMES_USED` and names (`names.rs`) | exchange AcqRel, stores Release; loads Acquire | A length shows that its text is complete. Comparisons of a text load Relaxed: a record's reader, which acquires the record, finds nothing older than its writer did. | `barriers`: `names Names add` |
//! | `Recent` (`names.rs`) | Relaxed | A hint: the text at the number is compared each time. | - |
//! | `ended` (`program/slots.rs`); `count`, `BEGUN` | store Release; exchange AcqRel, load Acquire | A thread that takes a zone acquires its words from the ended thread. `count` publishes `keep`. | - |
//! | `used`, `returned`, `keep`; `USES_TSC`, `FORKED` (`program`); `is_recording`, `depth` (`functions/calls.rs`) | Relaxed; `used` AcqRel; `calls.rs` with compiler fences | Unique numbers; set before `count`, before `state`, or by the only thread; used by one CPU and its handlers in program order. | - |

use core::marker::PhantomData;
use core::ptr::{self, NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use nostall_io::Processor;

use crate::cells::{Cells, MemoryCells};
use crate::filter::{Action, Filter, Function};
pub(crate) use crate::hooks::Entered;
use crate::hooks::Hooks;
use crate::image::Live;
use crate::layout::{
    DEPTH, FROZEN, Kind, LOST, Meta, REGION_HEADER, REGION_LOST, Role, SLOT, ZONE_HEADER,
};
use crate::names::{Names, Recent};
use crate::region::{Region, set_owner};
use crate::site::{Decision, Site};
use crate::ticks::Ticks;
use crate::writer::{Size, Slot, forget, word, write};

/// Recorder of all CPUs, each with its own zone.
///
/// A kernel stores it in a `static`; [`start`](Self::start) assigns a region. The recorder reads
/// its clock for each record. [`Processor::id`] is the number of the zone: that of the CPU or of a
/// thread.
///
/// Interrupts and NMIs may record at any time. In the middle of a record, a task must not migrate
/// to another CPU, and an interrupt must not switch tasks. A kernel whose interrupts do that
/// records with preemption off, as Linux does.
///
/// On machines without 64-bit atomics, the recorder masks interrupts while it writes a record or
/// adds a name, and NMIs must not record. There, two CPUs must not add names at the same time. A
/// site's first record adds its name.
#[derive(Debug)]
#[repr(C)]
pub struct Recorder<'m, T, P> {
    pub(crate) hooks: Hooks,
    state: AtomicU32,
    /// Start of the region, whose header has its geometry. A call that overlaps with `start` thus
    /// finds a consistent geometry, of the old or the new region.
    region: AtomicPtr<u8>,
    filter: AtomicPtr<Filter<'static>>,
    generation: AtomicU32,
    recent: Recent,
    ticks: T,
    processor: P,
    memory: PhantomData<&'m mut [u8]>,
}

/// Recording is enabled.
const ON: u32 = 1;
/// A filter is set.
const FILTERED: u32 = 2;
/// Recording ends when a zone is full.
const STOP: u32 = 4;
/// A trigger or [`Recorder::pause`] paused the recording; another trigger may start it.
const PAUSED: u32 = 8;
/// Recording is frozen.
const FROZEN_STATE: u32 = 16;
/// Bits that [`Recorder::start`] changes. An exit with others belongs to an earlier recording.
const RECORDING: u32 = !0 << 13;

/// Returns the recording in the bits of a named whole call that are above the name's number.
fn recording_of_call(state: u32) -> u64 {
    u64::from(state & RECORDING) << 16
}

/// Difference between the kinds of an exit and its entry.
const EXIT: u64 = (Kind::Exit as u64 - Kind::Enter as u64) << 52;

impl<T: Ticks, P: Processor> Recorder<'_, T, P> {
    /// Records that the function at `address` was entered.
    #[inline]
    pub fn enter(&self, address: u64) -> Entered {
        let state = self.state.load(Ordering::Acquire);
        if state & ON == 0 {
            return Entered::NOT_RECORDED;
        }
        if state & (FILTERED | PAUSED) != 0 {
            return self.enter_filtered(state, Kind::Enter, address, None, || {
                let filter = self.filter();
                (
                    filter.wants_address(address),
                    filter.action(Function::Address(address)),
                )
            });
        }
        self.enter_now(state, Kind::Enter, address)
    }

    /// Records that the function at `address` was entered with an argument.
    #[inline]
    pub fn enter_with(&self, address: u64, argument: u64) -> Entered {
        let state = self.state.load(Ordering::Acquire);
        if state & ON == 0 {
            return Entered::NOT_RECORDED;
        }
        self.enter_filtered(state, Kind::Enter, address, Some(argument), || {
            let filter = self.filter();
            (
                filter.wants_address(address),
                filter.action(Function::Address(address)),
            )
        })
    }

    /// Records that a function or scope was entered, optionally with an argument.
    #[inline]
    pub fn enter_site(&self, site: &'static Site, argument: Option<u64>) -> Entered {
        let state = self.state.load(Ordering::Acquire);
        if state & ON == 0 {
            return Entered::NOT_RECORDED;
        }
        let decision = self.decision(site);
        if state & (FILTERED | PAUSED) == 0 && argument.is_none() {
            return self.enter_now(state, Kind::EnterName, decision.number.into());
        }
        let number = decision.number.into();
        self.enter_filtered(state, Kind::EnterName, number, argument, || {
            (decision.wanted, decision.action)
        })
    }

    /// Records the exit of an entry.
    #[inline]
    pub fn exit(&self, entered: Entered) {
        if entered.exit == 0 {
            return;
        }
        let Some(zone) = self.zone() else { return };
        let state = self.state.load(Ordering::Acquire);
        let exit = Meta(entered.exit);
        let depth = u64::from(exit.depth());
        // The depth of the exit corrects the counter after entries without exits.
        let depth = if depth < 255 {
            depth
        } else {
            zone.cells.get(word(DEPTH)).saturating_sub(1)
        };
        zone.cells.set(word(DEPTH), depth);
        if state & (ON | PAUSED) != ON {
            return;
        }
        if matches!(exit.kind(), Some(Kind::Call | Kind::CallName)) {
            return self.exit_whole(state, &zone, entered);
        }
        if (entered.time as u32 ^ state) & RECORDING == 0 {
            self.write(state, &zone, |time| [(time, exit)]);
        }
    }

    /// Records a whole call, if it was long enough. Addresses are the same in all recordings.
    #[cold]
    fn exit_whole(&self, state: u32, zone: &Zone<'_>, entered: Entered) {
        let mut exit = Meta(entered.exit);
        if exit.kind() == Some(Kind::CallName) {
            exit.0 ^= recording_of_call(state);
            if exit.0 & recording_of_call(RECORDING) != 0 {
                return;
            }
        }
        let took = self.ticks.now().saturating_sub(entered.time);
        if took >= self.filter().min_ticks {
            self.write(state, zone, |time| {
                [(time, exit), (entered.time, Meta::argument(Role::Entered))]
            });
        }
    }

    #[inline(always)]
    fn enter_now(&self, state: u32, kind: Kind, low: u64) -> Entered {
        let Some(zone) = self.zone() else {
            return self.no_zone();
        };
        let depth = zone.cells.get(word(DEPTH));
        zone.cells.set(word(DEPTH), depth.wrapping_add(1));
        let meta = Meta::new(kind, low, depth);
        self.write(state, &zone, |time| [(time, meta)]);
        Entered {
            time: state.into(),
            exit: meta.0 + EXIT,
        }
    }

    /// Records an entry that has an argument or that a filter may reject. `state` was loaded before
    /// the name's number.
    #[cold]
    fn enter_filtered(
        &self,
        state: u32,
        kind: Kind,
        low: u64,
        argument: Option<u64>,
        decide: impl FnOnce() -> (bool, Option<Action>),
    ) -> Entered {
        let Some(zone) = self.zone() else {
            return self.no_zone();
        };
        let (wanted, action) = decide();
        if action == Some(Action::Start) {
            self.change(0, PAUSED);
        }
        let before = state;
        let state = self.state.load(Ordering::Acquire);
        if (before ^ state) & RECORDING != 0 {
            // The number or the zone may be of the previous recording.
            return Entered::NOT_RECORDED;
        }
        let depth = zone.cells.get(word(DEPTH));
        let filter = self.filter();
        if state & PAUSED != 0 || !wanted || depth >= filter.max_depth {
            self.act(action);
            return Entered::NOT_RECORDED;
        }
        zone.cells.set(word(DEPTH), depth.wrapping_add(1));
        let meta = Meta::new(kind, low, depth);
        let entered = if filter.min_ticks > 0 {
            let call = match kind {
                Kind::EnterName => (Kind::CallName as u64) << 52 | recording_of_call(state),
                _ => (Kind::Call as u64) << 52,
            };
            Entered {
                time: self.ticks.now(),
                exit: meta.0 & !(15 << 52) | call,
            }
        } else {
            match argument {
                None => self.write(state, &zone, |time| [(time, meta)]),
                Some(value) => self.write(state, &zone, |time| {
                    [(time, meta), (value, Meta::argument(Role::Argument))]
                }),
            };
            Entered {
                time: state.into(),
                exit: meta.0 + EXIT,
            }
        };
        self.act(action);
        entered
    }

    /// Applies a trigger after its function's entry.
    fn act(&self, action: Option<Action>) {
        match action {
            Some(Action::Stop) => self.change(PAUSED, 0),
            Some(Action::Freeze) => self.freeze(),
            _ => {}
        }
    }

    /// Records a wait for a condition that ended now and took `duration` ticks.
    pub fn stall(&self, condition: &'static Site, duration: u64, place: &'static Site) {
        let meta = |recorder: &Self| Meta::new(Kind::Stall, recorder.number(condition), 0);
        self.sample(
            |recorder| (meta(recorder), recorder.number(place)),
            |time, (meta, place)| {
                [
                    (time, meta),
                    (duration, Meta::argument(Role::Duration)),
                    (place, Meta::argument(Role::PlaceName)),
                ]
            },
        );
    }

    /// Records a wait, with texts that are not in a [`Site`]. Each record looks them up in the
    /// names area.
    pub fn stall_at(&self, condition: &str, duration: u64, place: &str) {
        self.sample(
            |recorder| {
                let number = |text| u64::from(recorder.name(text));
                (Meta::new(Kind::Stall, number(condition), 0), number(place))
            },
            |time, (meta, place)| {
                [
                    (time, meta),
                    (duration, Meta::argument(Role::Duration)),
                    (place, Meta::argument(Role::PlaceName)),
                ]
            },
        );
    }

    /// Records a sample of a counter.
    pub fn counter(&self, counter: &'static Site, value: i64) {
        self.sample(
            |recorder| Meta::new(Kind::Counter, recorder.number(counter), 0),
            |time, meta| [(time, meta), (value as u64, Meta::argument(Role::Value))],
        );
    }

    /// Records an event, optionally with a value.
    pub fn mark(&self, event: &'static Site, value: Option<u64>) {
        let meta = |recorder: &Self| Meta::new(Kind::Mark, recorder.number(event), 0);
        match value {
            None => self.sample(meta, |time, meta| [(time, meta)]),
            Some(value) => self.sample(meta, |time, meta| {
                [(time, meta), (value, Meta::argument(Role::Argument))]
            }),
        }
    }

    /// Records that a task runs on this CPU from now on. Only the low 48 bits of `id` are kept.
    ///
    /// Each record looks up the name in the names area. The scheduler should also save and restore
    /// the [depth](Self::depth) of calls.
    pub fn task(&self, id: u64, name: &str) {
        let meta = Meta::new(Kind::Task, id, 0);
        if name.is_empty() {
            return self.sample(|_| meta, |time, meta| [(time, meta)]);
        }
        self.sample(
            |recorder| u64::from(recorder.name(name)),
            |time, name| [(time, meta), (name, Meta::argument(Role::TaskName))],
        );
    }

    /// Returns the depth of recorded calls on this CPU; 0 if it has no zone.
    pub fn depth(&self) -> u64 {
        self.zone().map_or(0, |zone| zone.cells.get(word(DEPTH)))
    }

    /// Sets the depth of calls on this CPU, after a switch to another task.
    pub fn set_depth(&self, depth: u64) {
        if let Some(zone) = self.zone() {
            zone.cells.set(word(DEPTH), depth);
        }
    }

    /// Gives the slots of this CPU's interrupted records to later records. Call it after an
    /// interrupt has ended a task, or a signal handler has jumped away. The code that it interrupted
    /// may have been within a record.
    ///
    /// Without it, each such record keeps up to three slots for good. None of the CPU's interrupted
    /// records may continue after the call: it would be written over another one.
    pub fn forget(&self) {
        if let Some(zone) = self.zone() {
            self.uninterrupted(|| forget(&zone.cells));
        }
    }

    /// Records a sample, regardless of the filter.
    fn sample<S, const N: usize>(
        &self,
        prepare: impl FnOnce(&Self) -> S,
        slots: impl FnOnce(u64, S) -> [Slot; N],
    ) {
        let state = self.state.load(Ordering::Acquire);
        if state & (ON | PAUSED) != ON {
            return;
        }
        match self.zone() {
            Some(zone) => {
                let prepared = prepare(self);
                self.write(state, &zone, |time| slots(time, prepared));
            }
            None => _ = self.no_zone(),
        }
    }

    #[inline(always)]
    fn write<const N: usize>(
        &self,
        state: u32,
        zone: &Zone<'_>,
        record: impl FnOnce(u64) -> [Slot; N],
    ) {
        let cells = &zone.cells;
        let size = Size {
            bits: zone.bits,
            stop_when_full: state & STOP != 0,
        };
        self.uninterrupted(|| write(cells, size, || self.ticks.now(), record));
    }

    /// Runs `critical`, with interrupts masked on machines without 64-bit atomics.
    #[inline(always)]
    fn uninterrupted<R>(&self, critical: impl FnOnce() -> R) -> R {
        if cfg!(target_has_atomic = "64") {
            critical()
        } else {
            self.processor.without_interrupts(critical)
        }
    }

    /// Returns this CPU's zone.
    #[inline(always)]
    fn zone(&self) -> Option<Zone<'_>> {
        self.geometry()?.zone(self.processor.id())
    }

    /// Counts a record of a CPU without a zone.
    #[cold]
    fn no_zone(&self) -> Entered {
        if let Some(region) = self.region_cells() {
            let lost = region.get(word(REGION_LOST));
            // Tried only once: the count is informative, and another CPU may be counting too.
            let more = lost.wrapping_add(1);
            self.uninterrupted(|| region.replace_shared(word(REGION_LOST), lost, more));
        }
        Entered::NOT_RECORDED
    }

    /// Returns the number of a name in the region, and adds the name if it is new. Returns 0
    /// without room or without a region.
    pub fn name(&self, text: &str) -> u32 {
        self.names().map_or(0, |names| {
            names.number(text, &self.recent, |reserve| self.uninterrupted(reserve))
        })
    }

    /// Returns the number of a site's name.
    fn number(&self, site: &'static Site) -> u64 {
        self.decision(site).number.into()
    }

    #[inline]
    fn decision(&self, site: &'static Site) -> Decision {
        let generation = self.generation.load(Ordering::Acquire);
        site.decision(generation, || self.decide(site))
    }

    #[cold]
    fn decide(&self, site: &'static Site) -> Decision {
        let filter = self.filter();
        Decision {
            number: self.name(site.name()),
            wanted: filter.wants_site(site.name(), site.module()),
            action: filter.action(Function::Name(site.name())),
        }
    }

    fn filter(&self) -> &Filter<'static> {
        let filter = self.filter.load(Ordering::Acquire);
        // SAFETY: `set_filter` stored it, and it has a `'static` lifetime.
        unsafe { filter.as_ref() }.unwrap_or(&Filter::ALL)
    }
}

impl<'m, T, P> Recorder<'m, T, P> {
    /// Returns the records of all zones, read from live memory. Records that are overwritten
    /// meanwhile are omitted.
    pub fn dump(&self) -> Option<Live<'_>> {
        let geometry = self.geometry()?;
        Some(Live {
            base: geometry.base,
            len: geometry.first() + geometry.zones() * geometry.zone_len(),
            memory: PhantomData,
        })
    }

    /// Starts recording into a region, and ends a pause or freeze. The records in a previous region
    /// stay there.
    ///
    /// The exits of calls and scopes that are open are not recorded. An exception are functions with
    /// an address while a filter has a [minimum duration](Filter::min_ticks): their calls are recorded
    /// in the new region. A record in progress, of another CPU or of interrupted code, goes into either
    /// region. It may have a name's number in the other.
    pub fn start(&self, region: Region<'m>) {
        self.state.store(0, Ordering::SeqCst);
        self.region.store(region.base.as_ptr(), Ordering::Release);
        let recording = self.renew() << RECORDING.trailing_zeros();
        let stop = match region.size().stop_when_full {
            true => STOP,
            false => 0,
        };
        let filter = self.filter.load(Ordering::Relaxed).is_null();
        let filtered = if filter { 0 } else { FILTERED };
        self.state
            .store(recording | ON | stop | filtered, Ordering::Release);
    }

    /// Stops recording, until [`resume`](Self::resume) or [`start`](Self::start).
    pub fn stop(&self) {
        self.change(0, ON);
    }

    /// Resumes recording into the same region, and ends a pause. Does nothing while recording is
    /// frozen.
    pub fn resume(&self) {
        if self.state.load(Ordering::Relaxed) & FROZEN_STATE == 0
            && !self.region.load(Ordering::Relaxed).is_null()
        {
            self.change(ON, PAUSED);
        }
    }

    /// Stops recording until [`unfreeze`](Self::unfreeze) or [`start`](Self::start), so that the
    /// last records stay: after a crash, or after a detected fault. Records in progress are
    /// completed. Before a reset, [clean](Region#memory-type) the region's cache lines after this.
    pub fn freeze(&self) {
        self.change(FROZEN_STATE, ON);
        if let Some(region) = self.region_cells() {
            region.publish(word(FROZEN), 1);
        }
    }

    /// Ends a freeze, a stop or a pause, and resumes recording.
    pub fn unfreeze(&self) {
        if let Some(region) = self.region_cells() {
            region.publish(word(FROZEN), 0);
            self.change(ON, FROZEN_STATE | PAUSED);
        }
    }

    /// Returns whether entries are recorded now.
    pub fn is_recording(&self) -> bool {
        self.state.load(Ordering::Relaxed) & (ON | PAUSED) == ON
    }

    /// Sets the filter, which applies to later entries. `None` records everything, and ends a
    /// pause.
    pub fn set_filter(&self, filter: Option<&'static Filter<'static>>) {
        let pointer = filter.map_or(null_mut(), |filter| ptr::from_ref(filter).cast_mut());
        self.filter.store(pointer, Ordering::Release);
        self.renew();
        match filter {
            Some(_) => self.change(FILTERED, 0),
            None => self.change(0, FILTERED | PAUSED),
        }
    }

    /// Pauses recording until the entry of a function with the action [`Start`](Action::Start), or
    /// until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.change(PAUSED, 0);
    }

    /// Returns the number of records that all zones lost. Causes are a full zone, a zone
    /// full of interrupted records, and CPUs without a zone. Overwritten records do not count.
    pub fn lost(&self) -> u64 {
        let Some(geometry) = self.geometry() else {
            return 0;
        };
        let zones = (0..geometry.zones()).filter_map(|zone| geometry.zone(zone));
        let of_zones = zones.map(|zone| zone.cells.get(word(LOST)));
        let without = geometry.cells(0).get(word(REGION_LOST));
        of_zones.fold(without, u64::wrapping_add)
    }

    /// Sets the identifier and name of a zone's owner: a thread that starts to use the zone. Does
    /// nothing for a zone that the region lacks.
    pub fn set_owner(&self, zone: usize, id: u64, name: &str) {
        if let Some(zone) = self.geometry().and_then(|it| it.zone(zone)) {
            set_owner(&zone.cells, id, name);
        }
    }

    #[inline(always)]
    fn geometry(&self) -> Option<Geometry<'_>> {
        let base = NonNull::new(self.region.load(Ordering::Acquire))?;
        let memory = PhantomData;
        Some(Geometry { base, memory })
    }

    fn region_cells(&self) -> Option<MemoryCells<'_>> {
        Some(self.geometry()?.cells(0))
    }

    fn names(&self) -> Option<Names<'_>> {
        let geometry = self.geometry()?;
        let words = (geometry.first() - REGION_HEADER) / 8;
        Some(Names::new(geometry.cells(0), word(REGION_HEADER), words))
    }

    /// Invalidates the names and filter decisions that sites have cached. Returns the new
    /// generation.
    fn renew(&self) -> u32 {
        let generation = next_generation();
        self.generation.store(generation, Ordering::Release);
        generation
    }

    /// Sets and clears bits of the state.
    #[cfg(target_has_atomic = "32")]
    fn change(&self, set: u32, clear: u32) {
        let update = |state: u32| Some(state & !clear | set);
        _ = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, update);
    }

    /// Sets and clears bits of the state. A handler's change between the two accesses is lost.
    #[cfg(not(target_has_atomic = "32"))]
    fn change(&self, set: u32, clear: u32) {
        let state = self.state.load(Ordering::Acquire);
        self.state.store(state & !clear | set, Ordering::Release);
    }
}

/// Region that was passed to [`Recorder::start`], for the recorder's lifetime. Its geometry is in
/// its header, which does not change.
#[derive(Clone, Copy)]
struct Geometry<'m> {
    base: NonNull<u8>,
    memory: PhantomData<&'m [u8]>,
}

/// Zone of a CPU.
struct Zone<'m> {
    cells: MemoryCells<'m>,
    /// log2 of the number of slots.
    bits: u32,
}

impl<'m> Geometry<'m> {
    /// Returns the words from an offset on, which must be inside the region.
    #[inline(always)]
    fn cells(self, at: usize) -> MemoryCells<'m> {
        // SAFETY: the region's memory is valid, aligned, and only accessed atomically. Offsets are
        // 0 or those of zones.
        unsafe { MemoryCells::new(self.base.add(at)) }
    }

    /// Returns one of the two 32-bit words at an offset.
    #[inline(always)]
    fn half(self, at: usize, half: usize) -> u32 {
        let bytes = self.cells(0).get(word(at)).to_ne_bytes();
        let (halves, _) = bytes.as_chunks();
        u32::from_ne_bytes(halves[half])
    }

    #[inline(always)]
    fn zones(self) -> usize {
        self.half(0x18, 0) as usize
    }

    #[inline(always)]
    fn zone_len(self) -> usize {
        self.cells(0).get(word(0x20)) as usize
    }

    /// Returns the offset of the first zone.
    #[inline(always)]
    fn first(self) -> usize {
        REGION_HEADER + self.half(0x58, 1) as usize
    }

    #[inline(always)]
    fn zone(self, zone: usize) -> Option<Zone<'m>> {
        if zone >= self.zones() {
            return None;
        }
        let len = self.zone_len();
        Some(Zone {
            cells: self.cells(self.first() + zone * len),
            bits: ((len - ZONE_HEADER) / SLOT).trailing_zeros(),
        })
    }
}

/// Returns a number that no recorder has used.
fn next_generation() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    #[cfg(target_has_atomic = "32")]
    return LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    #[cfg(not(target_has_atomic = "32"))]
    {
        let next = LAST.load(Ordering::Relaxed).wrapping_add(1);
        LAST.store(next, Ordering::Relaxed);
        next
    }
}

impl<T: Ticks, P: Processor> Recorder<'_, T, P> {
    /// Creates a recorder without a region: it records nothing until [`start`](Self::start).
    pub const fn new(ticks: T, processor: P) -> Self {
        Self {
            hooks: Hooks {
                enter: Self::hook_enter,
                exit: Self::hook_exit,
                mark: Self::hook_mark,
                counter: Self::hook_counter,
                stall: Self::hook_stall,
            },
            state: AtomicU32::new(0),
            region: AtomicPtr::new(null_mut()),
            filter: AtomicPtr::new(null_mut()),
            generation: AtomicU32::new(0),
            recent: Recent::new(),
            ticks,
            processor,
            memory: PhantomData,
        }
    }

    /// Returns the clock.
    pub const fn ticks(&self) -> &T {
        &self.ticks
    }
}

/// Entry points of the global recorder, for [`Hooks`].
impl<T: Ticks, P: Processor> Recorder<'_, T, P> {
    /// # Safety
    ///
    /// The pointer must refer to a live recorder of this type.
    unsafe fn of<'a>(hooks: *const Hooks) -> &'a Self {
        // SAFETY: guaranteed by the caller; `hooks` is the first field.
        unsafe { &*hooks.cast() }
    }
    unsafe fn hook_enter(
        hooks: *const Hooks,
        site: &'static Site,
        argument: Option<u64>,
    ) -> Entered {
        // SAFETY: the caller's promise.
        unsafe { Self::of(hooks) }.enter_site(site, argument)
    }
    unsafe fn hook_exit(hooks: *const Hooks, entered: Entered) {
        // SAFETY: the caller's promise.
        unsafe { Self::of(hooks) }.exit(entered);
    }
    unsafe fn hook_mark(hooks: *const Hooks, site: &'static Site, value: Option<u64>) {
        // SAFETY: the caller's promise.
        unsafe { Self::of(hooks) }.mark(site, value);
    }
    unsafe fn hook_counter(hooks: *const Hooks, site: &'static Site, value: i64) {
        // SAFETY: the caller's promise.
        unsafe { Self::of(hooks) }.counter(site, value);
    }
    unsafe fn hook_stall(hooks: *const Hooks, condition: &str, duration: u64, place: &str) {
        // SAFETY: the caller's promise.
        unsafe { Self::of(hooks) }.stall_at(condition, duration, place);
    }
}
