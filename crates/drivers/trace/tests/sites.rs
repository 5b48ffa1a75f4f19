//! `#[traced]`, `trace_scope!` and the global recorder. One test, because the recorder is global.

#![cfg(feature = "macros")]

mod common;

use common::{memory, recorder, snapshot, told};
use nostall_trace::{
    Filter, Options, Region, clear_recorder, is_on, set_recorder, stall, trace_counter, trace_mark,
    trace_scope, traced,
};

struct Port<T>(T);

impl<T: Copy> Port<T> {
    #[traced]
    fn send(&self, bytes: &[u8]) -> Result<usize, T> {
        for byte in bytes {
            self.byte(*byte)?;
        }
        Ok(bytes.len())
    }

    #[traced(name = "byte", arg = byte)]
    fn byte(&self, byte: u8) -> Result<(), T> {
        if byte == 0 {
            return Err(self.0);
        }
        Ok(())
    }
}

trait Reset {
    #[traced]
    fn reset(&mut self) {
        trace_mark!("reset", 1);
    }
}

impl Reset for Port<u8> {}

#[traced]
fn largest<'a, T: Ord + ?Sized>(a: &'a T, b: &'a T) -> &'a T {
    trace_scope!("compare");
    a.max(b)
}

#[traced]
fn panics() {
    panic!("on purpose");
}

fn everything() {
    _ = Port(7).send(&[1, 0, 2]);
    Port(7u8).reset();
    assert_eq!(largest("a", "b"), "b");
    trace_counter!("bytes", 2u8);
    stall("transmitter empty", 86, "uart::send");
}

#[test]
fn functions_and_scopes_record_while_a_recorder_is_set() {
    static NARROW: Filter<'static> = Filter {
        names: &["largest", "byte"],
        ..Filter::ALL
    };
    let (recorder, _) = recorder();
    let options = Options {
        zones: 1,
        names: 1024,
        ..Options::default()
    };
    recorder.start(Region::format(memory(16384), &options).unwrap());
    everything();
    assert!(!is_on() && told(&snapshot(recorder)).is_empty());

    set_recorder(recorder);
    everything();
    let expected = "+sites::send +byte(1) -byte +byte(0) -byte -sites::send \
        +sites::reset mark reset Some(1) -sites::reset \
        +sites::largest +compare -compare -sites::largest bytes=2 \
        stall transmitter empty uart::send 86";
    assert_eq!(told(&snapshot(recorder)).join(" "), expected);

    // An argument is only evaluated while tracing is on.
    recorder.set_filter(Some(&NARROW));
    let before = told(&snapshot(recorder)).len();
    everything();
    let narrow = told(&snapshot(recorder)).split_off(before).join(" ");
    assert_eq!(
        narrow,
        "+byte(1) -byte +byte(0) -byte mark reset Some(1) +sites::largest -sites::largest bytes=2 \
        stall transmitter empty uart::send 86"
    );

    recorder.set_filter(None);
    assert!(std::panic::catch_unwind(panics).is_err());
    let last = told(&snapshot(recorder));
    assert_eq!(last[last.len() - 2..], ["+sites::panics", "-sites::panics"]);

    clear_recorder();
    let mut evaluated = false;
    {
        trace_scope!("off", {
            evaluated = true;
            1
        });
    }
    assert!(!evaluated);
    assert_eq!(told(&snapshot(recorder)).len(), last.len());

    // Another region has its own names.
    recorder.stop();
    recorder.start(Region::format(memory(16384), &options).unwrap());
    set_recorder(recorder);
    assert_eq!(largest("b", "a"), "b");
    clear_recorder();
    assert_eq!(
        told(&snapshot(recorder)).join(" "),
        "+sites::largest +compare -compare -sites::largest"
    );

    // The exit of a scope that another recorder recorded is not recorded.
    let (other, _) = common::recorder();
    other.start(Region::format(memory(16384), &options).unwrap());
    set_recorder(recorder);
    {
        trace_scope!("outer");
        set_recorder(other);
        trace_scope!("inner");
    }
    clear_recorder();
    assert_eq!(told(&snapshot(other)), ["+inner", "-inner"]);
}
