//! Layers for `tracing`.

use core::fmt;

use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::{Kernel, Level, Meta, Priority, Ring};

/// Layer that stores events in a ring: the message, then the other fields as ` name=value`. For any
/// context, as the ring. The target [`EMERGENCY`](crate::EMERGENCY) marks an emergency.
#[derive(Debug)]
pub struct RingLayer<'r, K> {
    ring: &'r Ring,
    kernel: K,
}

impl<'r, K: Kernel> RingLayer<'r, K> {
    /// Creates a layer for a subscriber.
    pub const fn new(ring: &'r Ring, kernel: K) -> Self {
        Self { ring, kernel }
    }
}

impl<S: Subscriber, K: Kernel + 'static> Layer<S> for RingLayer<'static, K> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let target = event.metadata().target();
        let meta = Meta {
            time: self.kernel.now(),
            cpu: self.kernel.cpu(),
            level: (*event.metadata().level()).into(),
            priority: Priority::of_target(target),
            target,
        };
        self.ring.format(&meta, format_args!("{}", Text(event)));
    }
}

/// Makes the console itself a layer: `registry().with(&CONSOLE)`.
#[cfg(feature = "uart")]
impl<S, U, K> Layer<S> for &'static crate::SystemConsole<U, K>
where
    S: Subscriber,
    U: nostall_uart::UartHardware,
    K: Kernel,
{
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let target = event.metadata().target();
        let level = (*event.metadata().level()).into();
        let priority = Priority::of_target(target);
        self.record(level, priority, target, format_args!("{}", Text(event)));
    }
}

/// An event's message and fields.
struct Text<'a>(&'a Event<'a>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .record(&mut Fields(|field: &Field, value: &dyn fmt::Debug| {
                if field.name() == "message" {
                    let _ = write!(f, "{value:?}");
                }
            }));
        self.0
            .record(&mut Fields(|field: &Field, value: &dyn fmt::Debug| {
                if field.name() != "message" {
                    let _ = write!(f, " {}={value:?}", field.name());
                }
            }));
        Ok(())
    }
}

struct Fields<F>(F);

impl<F: FnMut(&Field, &dyn fmt::Debug)> Visit for Fields<F> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        (self.0)(field, value);
    }
}

impl From<tracing_core::Level> for Level {
    /// Maps both `DEBUG` and `TRACE` to `Debug`.
    fn from(level: tracing_core::Level) -> Self {
        match level {
            tracing_core::Level::ERROR => Self::Error,
            tracing_core::Level::WARN => Self::Warning,
            tracing_core::Level::INFO => Self::Info,
            _ => Self::Debug,
        }
    }
}
