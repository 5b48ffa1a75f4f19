//! Async functions of a program that records itself.
//!
//!     cargo build -p nostall-trace --features program,tracing --example futures
//!     nostall trace run -- target/debug/examples/futures

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

// ANCHOR: futures
use nostall_trace::{ProgramOptions, ProgramTrace, TraceLayer, traced};
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

async fn answer(request: u32) {
    search(request);
    send()
        .instrument(tracing::info_span!("send", request))
        .await;
}

#[traced(arg = request)] // it has no `await`
fn search(request: u32) {
    std::hint::black_box(request.to_string());
}
// ANCHOR_END: futures

/// Waits once.
async fn send() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        false => Poll::Pending,
        true => Poll::Ready(()),
    })
    .await;
}

fn main() -> Result<(), Box<dyn Error>> {
    ProgramTrace::from_environment(&ProgramOptions::DEFAULT)?;
    let subscriber = tracing_subscriber::registry().with(TraceLayer::default());
    tracing::subscriber::set_global_default(subscriber)?;
    let mut answer = pin!(answer(17));
    let mut context = Context::from_waker(Waker::noop());
    while answer.as_mut().poll(&mut context).is_pending() {}
    Ok(())
}
