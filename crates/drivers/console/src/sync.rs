//! Synchronization primitives of the ring and its owners. The model-checked tests replace them with
//! loom's, and the tests that kill producers replace them with their own.
//!
//! # Order of each atomic
//!
//! The models are tests in `tests/loom.rs` and `tests/loom_port.rs`, and lines of `scripts/barriers`.
//!
//! A *seizure* is a panic's exchange of `word` while another owner holds it. It acquires nothing
//! from that owner. An owner on the same CPU has stopped, and its accesses are in program order. For
//! another CPU's owner, the panic has waited for `FlushLimits::owner`, or for 100 ms without a
//! beat. By then, that CPU's stores are visible, so the panic finds `offering`. A fence between
//! `offering` and `panic` would not help: an owner behind its check of `panic` still makes its offer.
//! If that owner is slow and not dead, its offer may end between two loads of the panic. The panic
//! then sends the lines of that offer twice.
//!
//! | atomic | stores and loads | why | model |
//! | --- | --- | --- | --- |
//! | `state` (`slot.rs`): claim | exchange Acquire; first load Relaxed | The stores of the old record precede those of the new one. The first load only proposes a value. | `producers_that_overtake_each_other_mix_no_records_and_count_each_loss`; `barriers`: `ldaxr` |
//! | `state` (`slot.rs`): fences | Release after the claim; Acquire before the last load, which is Relaxed | A reader that has loaded any newer word of the body then loads a newer state. | `a_reader_sees_whole_records_in_order_while_they_are_overwritten`; `barriers`: `dmb ish`, `dmb ishld` |
//! | `state` and `body` (`slot.rs`): the end of a record | `state`: store Release; load Acquire, in `is_behind` Relaxed; `body`: Relaxed | A reader that finds the record complete finds its body. `is_behind` reads nothing else. | the same; `barriers`: `stlr`, `ldar` |
//! | `newest` (`ring.rs`) | exchanges Relaxed; loads Acquire or Relaxed | Exchanges give each sequence to one producer. `state` publishes its record. The Acquire pairs with no store. | both of the above |
//! | `holes` (`ring.rs`) | store Release; load Acquire | Value only: nothing is read through it, so Relaxed would suffice. | the first; `barriers`: `mark_hole` |
//! | `urgent` (`ring.rs`) | exchange Release; load Acquire | A drain that finds the mark finds `newest` and the record too. | - (`barriers`: `mark_urgent`) |
//! | `constant`, `cut`, `sent` (`ring.rs`) | Relaxed | Each word is complete by itself. Without its constant, a slot is found by a division. | - |
//! | `word` (`owner.rs`) | exchange Acquire to take, Release to drop; loads Relaxed | An owner acquires what the last one stored with Relaxed. A load only proposes a value, or compares with the own name. | `a_sink_has_one_owner_and_a_panic_waits_for_it`; `barriers`: `Owner take`, `Owner enter` |
//! | `panic` (`owner.rs`) | Relaxed | A panic finds `word` taken and waits, or its release of `word` publishes `panic` to the next owner. Between two offers, an owner may find it late. | `a_sink_has_one_owner_and_a_panic_waits_for_it` |
//! | `beats` (`owner.rs`) | addition and load Relaxed | Counter only, compared over 100 ms. | - |
//! | `offering`, `renders` (`drain.rs`) | Relaxed | `word` publishes them; for a seizure see above. | - (`tests/steps`: in program order) |
//! | `inside`, `has_left_out`, `at_once` (`drain.rs`); `pending`, `given_up` (`feed.rs`, `lane.rs`) | Relaxed | Only the owner uses them, and `word` publishes them. | - |
//! | `next`, `line` (`lane.rs`) | exchanges AcqRel; loads Acquire, in `is_unused` Relaxed | They publish the kept text to a seizure too. Each line names its record, so a reader detects parts of two positions. `is_unused` only compares with 0. | - (`barriers`: `Lane`) |
//! | `gap`, `gap_at` (`lane.rs`) | stores Relaxed, Release, Release; loads Acquire, Relaxed | A number of lost records belongs to the record in `gap_at`. It is only shown. | - |
//! | `state`, `shape`, `words` (`kept.rs`) | like a slot's | The reasons of a slot: an owner that has lost the sink may write too. | - (`barriers`: `Kept`) |
//! | `since`, `wait`, `responsible_cpu`, `backoff` (`next_offer.rs`) | Relaxed; the last store of `wait` Release | A reader of parts of two entries returns within one second. The Release pairs with no load. | `of_three_cpus_that_log_each_one_with_unsent_records_retries` |
//! | fences at the start of a slice and in `left` (`drain.rs`) | SeqCst | A producer adds to `newest`, then loads `word` and `responsible_cpu`. An owner clears these, then loads `newest`. One of the two fences comes second, so one CPU finds the other's store. | `of_two_cpus_that_log_and_send_one_sends_all_or_must_retry`, `a_responsible_cpu_that_finds_nothing_to_do_leaves_no_record_of_another` |
//! | fence after a turn (`drain.rs`) | SeqCst | The CPU finds a late record while it is still responsible. Without it, the fence in `left` finds the record. | - |
//! | `level`, `lost` (`feed.rs`); `bytes` (`drain.rs`); `offers` (`uart.rs`) | Relaxed | Values and counters only. | - |
//! | `bytes`, `stored`, `taken`, `lost` (`input.rs`) | `stored` Release and Acquire; `taken` AcqRel and Acquire; others Relaxed | A reader finds the byte that `stored` counts. It reads the byte before it counts it as taken, so the owner overwrites no unread byte. | `two_readers_take_each_byte_once_and_in_order`, for `stored` |
//! | `news` (`input.rs`) | store Release; exchange Acquire; first load Relaxed | A reader that is woken finds the byte. The first load only saves an exchange. | `a_reader_that_was_woken_finds_the_byte` |
//! | `pending` (`shared.rs`) | Relaxed, and a fence SeqCst before each load | A handler stores it, then tries the lock. A user releases the lock, then loads it. One of the two fences comes second, so no interrupt is left. | `two_handlers_and_a_slice_leave_no_byte_in_the_port` |
//! | `pending` (`shared.rs`): cleared | Relaxed, then a fence SeqCst | The port is read after the store. A byte that this read misses causes an interrupt, whose store is later. | - |
//! | `late` (`shared.rs`) | Relaxed | `pending` stays set beside it, and the fences of `pending` order it. | `a_byte_that_a_user_leaves_after_its_rounds_is_kept_for_a_later_one` |
//! | `load` (`uart.rs`) | store Release; loads Acquire and Relaxed | Value only: the lock publishes the port. | - |
//! | `marks` and the other words of a CPU (`per_cpu.rs`) | exchanges AcqRel, load Acquire; others Relaxed | One CPU and its handlers use them, in program order. CPUs that share a state exchange single bits. | - |
//! | `credits`, `is_fresh`, `left_out`, `untold` (`per_cpu.rs`); `awaits_timer` (`system`) | Relaxed | Counters and values only. | - |
//! | `panics`, `stops` (`system`) | `panics` Relaxed; `stops` AcqRel | Values only. A CPU that finds `panics` late uses the port once more, and the panic takes a spare. | - |
//! | `last`, `reported` (`watchdog.rs`) | Relaxed | A CPU touches and checks its own. `waiting` publishes those of a grace period. | - |
//! | `waiting` (`watchdog.rs`) | exchanges Release and AcqRel; loads Acquire, in `quiescent` Relaxed | A check that finds a grace period finds its start. A CPU that finds it late clears its bit at the next call. | - |

pub(crate) use core::hint::spin_loop;
#[cfg(feature = "uart")]
pub(crate) use portable_atomic::AtomicU8;
pub(crate) use portable_atomic::{AtomicUsize, Ordering, fence};
/// A lock that is tried and never waited for.
#[cfg(feature = "uart")]
pub(crate) use spin::mutex::{SpinMutex as TryLock, SpinMutexGuard as Guard};

use nostall_io::Nanos;

/// Assumed duration of one poll while the clock is stopped; close to the real one.
pub(crate) const STILL: Nanos = Nanos(50);
