//! A layer for the `tracing` crate.

use std::cell::RefCell;

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::global::{Scope, is_on, mark};
use crate::site::Site;

/// Records `tracing`'s spans as scopes, and its events as marks.
///
/// A span is recorded each time that a thread enters it. Its argument is the span's first integer
/// field. The mark of an event has the event's target and line, and its first integer field. Other
/// fields and message texts are not recorded, because the recorder does not format.
///
/// The layer uses the global recorder: that of a [`ProgramTrace`](crate::ProgramTrace), or the one
/// set with [`set_recorder`](crate::set_recorder).
///
/// ```
/// use nostall_trace::TraceLayer;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let subscriber = tracing_subscriber::registry().with(TraceLayer::default());
/// # let _ = subscriber;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceLayer(());

/// Site and argument of a span, stored in its extensions.
struct Spanned {
    site: &'static Site,
    argument: Option<u64>,
}

thread_local! {
    /// Spans that this thread has entered.
    static ENTERED: RefCell<Vec<(Id, Scope)>> = const { RefCell::new(Vec::new()) };
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut argument = First::default();
        attributes.record(&mut argument);
        let site = sites::of(attributes.metadata());
        span.extensions_mut().insert(Spanned {
            site,
            argument: argument.0,
        });
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !is_on() {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let extensions = span.extensions();
        if let Some(spanned) = extensions.get::<Spanned>() {
            let scope = Scope::enter_with(spanned.site, spanned.argument);
            // A thread that is ending drops the scope here, which records its end.
            _ = ENTERED.try_with(|entered| entered.borrow_mut().push((id.clone(), scope)));
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        _ = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            // The innermost entry of the span: guards may be dropped in another order.
            if let Some(at) = entered.iter().rposition(|(span, _)| span == id) {
                drop(entered.remove(at));
            }
        });
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !is_on() {
            return;
        }
        let mut value = First::default();
        event.record(&mut value);
        mark(sites::of(event.metadata()), value.0);
    }
}

/// The first integer among the fields.
#[derive(Default)]
struct First(Option<u64>);

impl Visit for First {
    fn record_u64(&mut self, _: &Field, value: u64) {
        self.0.get_or_insert(value);
    }
    fn record_i64(&mut self, _: &Field, value: i64) {
        self.0.get_or_insert(value as u64);
    }
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Sites for `tracing`'s callsites. Each is created once and never freed.
mod sites {
    use std::collections::HashMap;
    use std::sync::{LazyLock, PoisonError, RwLock};

    use tracing_core::callsite::Identifier;

    use super::{Metadata, Site};

    static SITES: LazyLock<RwLock<HashMap<Identifier, &'static Site>>> =
        LazyLock::new(RwLock::default);

    pub(super) fn of(metadata: &'static Metadata<'static>) -> &'static Site {
        let callsite = metadata.callsite();
        let sites = SITES.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = sites.get(&callsite) {
            return site;
        }
        drop(sites);
        let mut sites = SITES.write().unwrap_or_else(PoisonError::into_inner);
        sites.entry(callsite).or_insert_with(|| {
            let name = match (metadata.is_event(), metadata.line()) {
                (true, Some(line)) => format!("{}:{line}", metadata.target()).leak(),
                _ => metadata.name(),
            };
            Box::leak(Box::new(Site::new(name, metadata.target())))
        })
    }
}
