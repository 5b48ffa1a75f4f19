//! The global recorder of `#[traced]` and `trace_scope!`.

use core::marker::PhantomData;
use core::ptr::{self, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use nostall_io::Processor;

use crate::hooks::{Entered, Hooks};
use crate::recorder::Recorder;
use crate::site::Site;
use crate::ticks::Ticks;

/// First field of the global recorder; null while tracing is off.
static GLOBAL: AtomicPtr<Hooks> = AtomicPtr::new(null_mut());

/// Enables tracing with this recorder, which replaces any other. The exits of scopes that another
/// recorder recorded are not recorded, but may change the depth of calls. After a replacement within
/// such scopes, call [`Recorder::set_depth`] with 0 when they have ended.
pub fn set_recorder<T: Ticks, P: Processor>(recorder: &'static Recorder<'static, T, P>)
where
    Recorder<'static, T, P>: Sync,
{
    let hooks = ptr::from_ref(recorder).cast::<Hooks>().cast_mut();
    GLOBAL.store(hooks, Ordering::Release);
}

/// Disables tracing. Each site then costs one branch.
pub fn clear_recorder() {
    GLOBAL.store(null_mut(), Ordering::Release);
}

/// Returns whether a global recorder is set. It may be stopped, paused or frozen.
#[inline(always)]
pub fn is_on() -> bool {
    !GLOBAL.load(Ordering::Relaxed).is_null()
}

/// Runs `with` if tracing is enabled.
#[inline(always)]
fn with_hooks<R>(with: impl FnOnce(*const Hooks, &Hooks) -> R) -> Option<R> {
    let hooks = GLOBAL.load(Ordering::Acquire).cast_const();
    // SAFETY: `set_recorder` stored a `'static` recorder, whose first field this is.
    let table = unsafe { hooks.as_ref() }?;
    Some(with(hooks, table))
}

/// Records a sample of a counter.
#[inline]
pub fn counter(counter: &'static Site, value: i64) {
    // SAFETY: the pointer refers to a live recorder of the table's type.
    with_hooks(|hooks, table| unsafe { (table.counter)(hooks, counter, value) });
}

/// Records an event, optionally with a value.
#[inline]
pub fn mark(event: &'static Site, value: Option<u64>) {
    // SAFETY: as above.
    with_hooks(|hooks, table| unsafe { (table.mark)(hooks, event, value) });
}

/// Records a wait that ended now and took `duration` ticks.
#[inline]
pub fn stall(condition: &str, duration: u64, place: &str) {
    // SAFETY: as above.
    with_hooks(|hooks, table| unsafe { (table.stall)(hooks, condition, duration, place) });
}

/// A function or scope in progress. Dropping it records the exit.
///
/// It ends on the thread that began it, so a future that holds it across an `await` cannot be sent.
/// The layer for the crate `tracing` records such spans.
///
/// ```compile_fail,E0277
/// fn send(_: impl Send) {}
/// send(async {
///     nostall_trace::trace_scope!("request");
///     std::future::ready(()).await;
/// });
/// ```
#[derive(Debug)]
#[must_use = "the scope ends where this is dropped"]
pub struct Scope(Entered, PhantomData<UseTheTracingLayerAcrossAwaits>);

/// Marks a type that another thread must not end.
#[derive(Debug)]
struct UseTheTracingLayerAcrossAwaits(#[expect(dead_code, reason = "prevents sending")] *const ());

impl Scope {
    /// Records an entry, if tracing is enabled.
    #[inline(always)]
    pub fn enter(site: &'static Site) -> Self {
        Self::enter_with(site, None)
    }

    /// Records an entry with an argument, if tracing is enabled.
    #[inline(always)]
    pub fn enter_with(site: &'static Site, argument: Option<u64>) -> Self {
        // SAFETY: as above.
        let entered = with_hooks(|hooks, _| unsafe { enter(hooks, site, argument) });
        Self(entered.unwrap_or(Entered::NOT_RECORDED), PhantomData)
    }
}

impl Drop for Scope {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.exit != 0 {
            exit(self.0);
        }
    }
}

/// Records an entry. It is cold, so that a scope needs no registers for it while tracing is off.
///
/// # Safety
///
/// The pointer must refer to a live recorder of the table's type.
#[cold]
#[inline(never)]
unsafe fn enter(hooks: *const Hooks, site: &'static Site, argument: Option<u64>) -> Entered {
    // SAFETY: guaranteed by the caller.
    unsafe { ((*hooks).enter)(hooks, site, argument) }
}

/// Records the exit of a recorded entry, and is cold likewise.
#[cold]
#[inline(never)]
fn exit(entered: Entered) {
    // SAFETY: as above.
    with_hooks(|hooks, table| unsafe { (table.exit)(hooks, entered) });
}
