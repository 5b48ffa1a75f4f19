//! Run without a guest: the drivers on the host, with the model of the port in virtual time.

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Uart, VirtualPort};
use nostall_io::{Counting, Processor};
use nostall_trace::layout::LINE;
use nostall_trace::{Nanoseconds, Recorder, Region};
use nostall_uart::{Console, LineSettings, OpenError};
use nostall_work::trace::{Job, PROFILE, Traced, options, send};

use super::run::{Recorded, Sending};
use crate::experiments::uart::model::PlannedFault;

/// The only CPU.
struct OneCpu;

impl Processor for OneCpu {
    fn id(&self) -> usize {
        0
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

/// Size of a trace's memory in bytes. The longest sending fits.
const LEN: usize = 32 << 20;

/// Runs every sending on a new port, which may fail.
///
/// # Errors
///
/// [`OpenError`] if the fault occurs before the console is open.
pub fn run(planned: Option<PlannedFault>) -> Result<Recorded, OpenError> {
    let mut recorded = Recorded {
        sendings: Vec::new(),
        arrived: 0,
        crash: None,
    };
    for job in Job::sendings() {
        let Job::Send { strategy, bytes } = job else {
            continue;
        };
        let (mut port, clock): (VirtualPort<Vec<u8>>, VirtualClock) =
            Uart::in_virtual_time(PROFILE, Vec::new());
        if let Some(PlannedFault { fault, after }) = planned {
            port = port.with_fault(after, fault);
        }
        let mut memory = vec![0; LEN + LINE];
        let first = memory.as_ptr().align_offset(LINE);
        let memory = &mut memory[first..first + LEN];
        let sent = {
            let recorder = Recorder::new(Nanoseconds(&clock), OneCpu);
            let traced = Counting::new(Traced::new(&port, &recorder));
            let mut console = Console::open(traced, &clock, LineSettings::baud(115_200))?;
            let options = options(1, 1_000_000_000, 1);
            let region = Region::format(memory, &options).expect("aligned, and large enough");
            recorder.start(region);
            send(&mut console, (strategy, bytes), &recorder, || clock.slept())
        };
        recorded.sendings.push(Sending {
            strategy,
            bytes,
            sent,
            functions: 0,
            refused: 0,
            trace: memory.to_vec(),
        });
        recorded.arrived += port.into_sink().len() as u64;
    }
    Ok(recorded)
}

#[cfg(test)]
mod tests {
    use nostall_io::{Clock, Nanos};
    use nostall_uart::Strategy;

    use super::*;

    #[test]
    fn a_line_whose_rate_is_known_sends_its_last_byte_no_sooner() {
        let (port, clock): (VirtualPort<Vec<u8>>, VirtualClock) =
            Uart::in_virtual_time(PROFILE, Vec::new());
        let mut console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
        console.set_strategy(Strategy::FifoPaced);
        let one_byte = |console: &mut Console<_, _>| {
            let start = clock.now();
            assert!(console.write(b"a").is_complete());
            let written = clock.now();
            console.flush().unwrap();
            (written - start, clock.now() - written)
        };
        let cold = one_byte(&mut console);
        for _ in 0..20 {
            assert!(console.write(&[b'a'; 16]).is_complete());
        }
        console.flush().unwrap();
        clock.sleep_until(clock.now() + PROFILE.settling_time());
        let warm = one_byte(&mut console);
        assert_eq!(cold.0, Nanos(3_400));
        assert_eq!(warm, cold);
    }
}
