//! Sending over the machine's serial port.

use nostall_io::{Clock, Counting, Nanos};
use nostall_uart::{Console, OpenError};
use nostall_work::uart::{Job, Sent, send};

use crate::arch::{self, SerialPort};
#[cfg(target_arch = "aarch64")]
use crate::device_tree::pl011;

/// The machine's 16550, or its own kind of port.
pub enum UartUnderTest<C> {
    Ns16550(Console<Counting<SerialPort>, C>),
    #[cfg(target_arch = "aarch64")]
    Pl011(Console<pl011::CountedPl011, C>),
}

impl<C: Clock> UartUnderTest<C> {
    /// Opens the port. Panics if there is none.
    pub fn open(clock: C) -> Self {
        let line = arch::line_settings();
        #[cfg(target_arch = "aarch64")]
        if let Some(port) = pl011::find() {
            return Self::Pl011(opened(Console::open(port, clock, line)));
        }
        let port = Counting::new(arch::serial_port());
        Self::Ns16550(opened(Console::open(port, clock, line)))
    }

    /// Sends `text` as `job` specifies.
    pub fn send(&mut self, job: Job, text: &[u8], granted: impl Fn() -> Nanos) -> Sent {
        match self {
            Self::Ns16550(console) => send(console, job, text, granted),
            #[cfg(target_arch = "aarch64")]
            Self::Pl011(console) => send(console, job, text, granted),
        }
    }
}

fn opened<T>(console: Result<T, OpenError>) -> T {
    match console {
        Ok(console) => console,
        Err(error) => panic!("serial port: {error}"),
    }
}
