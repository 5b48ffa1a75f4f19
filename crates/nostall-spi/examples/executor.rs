//! An async executor (Embassy, RTIC, your own): a device is embedded-hal-async's
//! `SpiDevice`. Whoever polls a message's future runs it, and what others have queued.
//!
//!     cargo run -p nostall-spi --example executor

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use embedded_hal_async::spi::SpiDevice;
use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bare, Bus, Config, Select, Settings};

struct SystemTimer;

impl Clock for SystemTimer {
    fn now(&self) -> Nanos {
        Nanos(0)
    }
}

/// A driver that knows nothing of nostall.
async fn identify<D: SpiDevice>(flash: &mut D) -> Result<[u8; 3], D::Error> {
    let mut id = [0; 4];
    flash.transfer(&mut id, &[0x9f, 1, 2, 3]).await?;
    Ok([id[1], id[2], id[3]])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bus: Bus<_, _, 4, 32> = Bus::new(Loopback, Bare(SystemTimer), Config::DEFAULT);
    let mut flash = bus.device(Settings::new(20_000_000, Select::line(0)))?;
    let id = block_on(identify(&mut flash))?;
    println!("{id:02x?}");
    Ok(())
}

/// In place of an executor's.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return output;
        }
    }
}
