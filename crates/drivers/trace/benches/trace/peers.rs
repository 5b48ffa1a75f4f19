//! Other tracers, each with its own call of an entry and an exit.

use std::hint::black_box;

use nostall_bench::{Effort, Lttng, Table, Unit};

use crate::record::{scopes, start};
use crate::rftrace::Rftrace;

/// Number of scopes after which a peer's collected scopes are passed on.
const BATCH: u64 = 1_000;

pub fn tables(effort: Effort) {
    start();
    let mut table = Table::new("An entry and its exit: ns a pair", Unit::Nanoseconds);
    table.row("nostall-trace, trace_scope!", None, scopes);
    let mut missing = Vec::new();
    match Lttng::start() {
        Ok(mut lttng) => table.timed("LTTng-UST, two events", None, move |times| {
            lttng.events(2 * times)
        }),
        Err(reason) => missing.push(("LTTng-UST", reason.to_owned())),
    }
    match Rftrace::start() {
        Ok(mut rftrace) => table.timed("rftrace, -Zinstrument-mcount", None, move |times| {
            rftrace.calls(times)
        }),
        Err(reason) => missing.push(("rftrace", reason)),
    }
    fastrace::set_reporter(Dropped, fastrace::collector::Config::default());
    table.row("fastrace, local spans", None, with_fastrace);
    puffin::set_scopes_on(true);
    table.row("puffin, profile_scope!", None, with_puffin);
    table.row("tracing, a layer that does nothing", None, with_tracing);
    table.print(effort);
    for (name, reason) in missing {
        println!("  {name:56} {reason}");
    }
}

struct Dropped;

impl fastrace::collector::Reporter for Dropped {
    fn report(&mut self, _: Vec<fastrace::collector::SpanRecord>) {}
}

fn batches(times: u64) -> impl Iterator<Item = u64> {
    (0..times.div_ceil(BATCH)).map(move |batch| BATCH.min(times - batch * BATCH))
}

fn with_fastrace(times: u64) {
    for batch in batches(times) {
        let root = fastrace::Span::root("batch", fastrace::collector::SpanContext::random());
        let _parent = root.set_local_parent();
        for n in 0..batch {
            let _span = fastrace::local::LocalSpan::enter_with_local_parent("traced");
            black_box(n);
        }
    }
}

fn with_puffin(times: u64) {
    for batch in batches(times) {
        for n in 0..batch {
            puffin::profile_scope!("traced");
            black_box(n);
        }
        puffin::GlobalProfiler::lock().new_frame();
    }
}

struct Nothing;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Nothing {}

fn with_tracing(times: u64) {
    use tracing_subscriber::layer::SubscriberExt;
    let subscriber = tracing_subscriber::registry().with(Nothing);
    tracing::subscriber::with_default(subscriber, || {
        for n in 0..times {
            let _span = tracing::info_span!("traced").entered();
            black_box(n);
        }
    });
}
