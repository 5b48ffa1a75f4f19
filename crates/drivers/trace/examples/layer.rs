//! A program whose spans and events of `tracing` are recorded.
//!
//!     cargo build -p nostall-trace --features program,tracing --example layer
//!     nostall trace run -- target/debug/examples/layer

use std::error::Error;

use nostall_trace::{ProgramOptions, ProgramTrace};

// ANCHOR: layer
use tracing_subscriber::layer::SubscriberExt;

fn main() -> Result<(), Box<dyn Error>> {
    ProgramTrace::from_environment(&ProgramOptions::DEFAULT)?;
    let subscriber = tracing_subscriber::registry().with(nostall_trace::TraceLayer::default());
    tracing::subscriber::set_global_default(subscriber)?;
    answer(17);
    Ok(())
}

fn answer(request: u32) {
    let _span = tracing::info_span!("answer", request).entered();
    tracing::info!("sent");
}
// ANCHOR_END: layer
