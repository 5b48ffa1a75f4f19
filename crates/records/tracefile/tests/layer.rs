//! Spans and events of `tracing`, in a recording.

#[path = "../../../drivers/trace/tests/common/mod.rs"]
mod common;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use common::{Chosen, Count, memory};
use nostall_trace::{Options, Recorder, Region, TraceLayer, recover, set_recorder};
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::model::{EventKind, Source};
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

static CPU: Chosen = Chosen(std::sync::atomic::AtomicUsize::new(0));

#[test]
fn spans_are_scopes_with_their_first_integer_and_events_are_marks() {
    let options = Options {
        zones: 1,
        names: 4096,
        ..Options::default()
    };
    let recorder: &'static common::Tested<'static> =
        Box::leak(Box::new(Recorder::new(Count::default(), &CPU)));
    recorder.start(Region::format(memory(1 << 16), &options).unwrap());
    let subscriber = tracing_subscriber::registry().with(TraceLayer::default());
    let event_line = tracing::subscriber::with_default(subscriber, || {
        // Tracing is off.
        tracing::info_span!("before").in_scope(|| ());
        set_recorder(recorder);
        let outer = tracing::info_span!("outer", name = "n", size = 17, more = 18);
        let line = outer.in_scope(|| {
            tracing::info_span!("inner").in_scope(|| {
                tracing::warn!(code = -1, "a message");
                line!() - 1
            })
        });
        // Entered again, and left in another order.
        let other = tracing::info_span!("other");
        let first = outer.enter();
        let second = other.enter();
        drop(first);
        drop(second);
        // A future in a span is pending once.
        let mut waited = false;
        let future = poll_fn(|_| match std::mem::replace(&mut waited, true) {
            false => Poll::Pending,
            true => Poll::Ready(()),
        });
        {
            let mut future = pin!(future.instrument(tracing::info_span!("future")));
            let mut context = Context::from_waker(Waker::noop());
            while future.as_mut().poll(&mut context).is_pending() {}
        }
        line
    });
    let region = recover(recorder.dump().unwrap()).unwrap();
    let mut events = ZoneEvents::new(region, Box::new(|_| None));
    let mut found = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        let catalog = events.catalog();
        found.push(match event.kind {
            EventKind::Enter {
                function, argument, ..
            } => format!("+{} {argument:?}", catalog.text(function)),
            EventKind::Exit { function, .. } => format!("-{}", catalog.text(function.unwrap())),
            EventKind::Mark { text } => catalog.text(text).to_owned(),
            other => panic!("{other:?}"),
        });
    }
    let mark = format!("layer:{event_line}: {}", u64::MAX);
    let expected = [
        "+outer Some(17)",
        "+inner None",
        &mark,
        "-inner",
        "-outer",
        "+outer Some(17)",
        "+other None",
        "-outer",
        "-other",
        // Two polls, and the future's end.
        "+future None",
        "-future",
        "+future None",
        "-future",
        "+future None",
        "-future",
    ];
    assert_eq!(found, expected);
}
