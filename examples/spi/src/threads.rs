//! Threads: a flash and an RFID reader share a bus, each driven by a thread.

use std::{error::Error, sync::LazyLock, thread};

use nostall_spi::{Bus, Threads, Worker};

use crate::{blocking, board};

static BUS: LazyLock<Bus<board::Controller, Threads>> =
    LazyLock::new(|| Bus::new(board::controller(), Threads::new()));

/// Returns the bytes read from the flash, and the number of the card.
pub fn main() -> Result<(String, Vec<u8>), Box<dyn Error>> {
    // Puts the hardware to sleep when the bus has been idle for a second.
    let _worker = Worker::start(&BUS)?;
    let reader = thread::spawn(|| blocking::card(&BUS));
    let mut page = *b"written and read back";
    blocking::store(&BUS, &mut page).map_err(|error| format!("flash: {error:?}"))?;
    let card = reader.join().map_err(|_| "the reader's thread panicked")?;
    let uid = card.map_err(|error| format!("reader: {error:?}"))?;
    Ok((String::from_utf8(page.to_vec())?, uid.as_bytes().to_vec()))
}
