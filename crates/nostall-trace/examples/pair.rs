//! Cost of an entry and an exit, beside a bare loop that reads the time stamp counter twice and
//! stores twice.

use nostall_io::Processor;
use nostall_trace::{Options, Recorder, Region, Ticks, Tsc};
use std::hint::black_box;
use std::time::Instant;

struct One;
impl Processor for One {
    fn id(&self) -> usize {
        0
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

static RECORDER: Recorder<'static, Tsc, One> = Recorder::new(Tsc, One);

#[inline(never)]
fn traced() {
    nostall_trace::trace_scope!("work");
    black_box(());
}

fn main() {
    let memory = Box::leak(vec![Line([0; 64]); 1 << 14].into_boxed_slice());
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), memory.len() * 64)
    };
    let n = 5_000_000u32;
    let time = |name: &str, f: &mut dyn FnMut()| {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let t = Instant::now();
            f();
            best = best.min(t.elapsed().as_nanos() as f64 / n as f64);
        }
        println!("{name} {best:.2} ns");
        best
    };
    let mut ring = vec![0u64; 1 << 17];
    let bare = time("bare", &mut || {
        let mut at = 0usize;
        for _ in 0..n {
            ring[at & 0x1ffff] = Tsc.now();
            ring[(at + 1) & 0x1ffff] = Tsc.now();
            at += 2;
        }
        black_box(&ring);
    });
    time("off enter/exit", &mut || {
        for i in 0..n {
            let e = RECORDER.enter(black_box(u64::from(i)));
            RECORDER.exit(e);
        }
    });
    time("off scope", &mut || {
        for _ in 0..n {
            traced();
        }
    });
    RECORDER.start(
        Region::format(
            bytes,
            &Options {
                zones: 1,
                names: 4096,
                ..Options::default()
            },
        )
        .unwrap(),
    );
    let pair = time("enter/exit", &mut || {
        for i in 0..n {
            let e = RECORDER.enter(black_box(u64::from(i)));
            RECORDER.exit(e);
        }
    });
    nostall_trace::set_recorder(&RECORDER);
    let scope = time("scope", &mut || {
        for _ in 0..n {
            traced();
        }
    });
    println!("{:.2} x, scope {:.2} x", pair / bare, scope / bare);
}
