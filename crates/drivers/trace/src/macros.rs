//! Macros for scopes, counters and marks.

/// Records the entry of a scope here, and its exit at the end of the block.
///
/// The name is a constant expression of type `&'static str`. The argument is an expression that
/// `as` converts to `u64`. It is only evaluated while tracing is enabled.
///
/// ```
/// use nostall_trace::trace_scope;
///
/// fn send(bytes: &[u8]) {
///     trace_scope!("send", bytes.len());
///     for _ in bytes {
///         trace_scope!("byte");
///     }
/// }
/// # send(b"ab");
/// ```
#[macro_export]
macro_rules! trace_scope {
    ($name:expr $(,)?) => {
        let _traced_scope = {
            static SITE: $crate::Site = $crate::Site::new($name, ::core::module_path!());
            $crate::Scope::enter(&SITE)
        };
    };
    ($name:expr, $argument:expr $(,)?) => {
        let _traced_scope = {
            static SITE: $crate::Site = $crate::Site::new($name, ::core::module_path!());
            let argument = match $crate::is_on() {
                true => ::core::option::Option::Some(($argument) as u64),
                false => ::core::option::Option::None,
            };
            $crate::Scope::enter_with(&SITE, argument)
        };
    };
}

/// Records a sample of a counter. `as` converts the value to `i64`. It is only evaluated while
/// tracing is enabled.
///
/// ```
/// nostall_trace::trace_counter!("bytes", 17);
/// ```
#[macro_export]
macro_rules! trace_counter {
    ($name:expr, $value:expr $(,)?) => {
        if $crate::is_on() {
            static SITE: $crate::Site = $crate::Site::new($name, ::core::module_path!());
            $crate::counter(&SITE, ($value) as i64);
        }
    };
}

/// Records an event, optionally with a value that `as` converts to `u64`.
///
/// ```
/// nostall_trace::trace_mark!("reset");
/// nostall_trace::trace_mark!("overrun", 3);
/// ```
#[macro_export]
macro_rules! trace_mark {
    ($name:expr $(,)?) => {
        if $crate::is_on() {
            static SITE: $crate::Site = $crate::Site::new($name, ::core::module_path!());
            $crate::mark(&SITE, ::core::option::Option::None);
        }
    };
    ($name:expr, $value:expr $(,)?) => {
        if $crate::is_on() {
            static SITE: $crate::Site = $crate::Site::new($name, ::core::module_path!());
            $crate::mark(&SITE, ::core::option::Option::Some(($value) as u64));
        }
    };
}
