//! Runs the program under Embassy, and checks what its drivers read and drew.
//!
//!     cargo run --manifest-path examples/spi/Cargo.toml --bin embassy

use embassy_executor::Spawner;
use embassy_time as _; // its driver
use spi_examples::{board, embassy};

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let mut page = *b"awaited";
    let stored = embassy::main(spawner, &mut page).await;
    stored.expect("the flash is connected");
    assert_eq!(page, *b"awaited");
    while board::shown() != [0xa5; 1024] {
        embassy_time::Timer::after_millis(1).await;
    }
    println!("flash: {:?}, the display is drawn", str::from_utf8(&page));
    std::process::exit(0);
}
