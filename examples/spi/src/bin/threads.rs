//! Runs the program on threads, and checks what its drivers read.
//!
//!     cargo run --manifest-path examples/spi/Cargo.toml --bin threads

fn main() {
    let (page, uid) = spi_examples::threads::main().expect("both drivers work");
    assert_eq!(page, "written and read back");
    assert_eq!(uid, spi_examples::board::CARD);
    println!("flash: {page:?}, card: {uid:02x?}");
}
