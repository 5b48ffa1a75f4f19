//! The board's memory, for cortex-m-rt's linker script (LM3S6965 data sheet, "Memory Map").

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let memory =
        "MEMORY { FLASH : ORIGIN = 0, LENGTH = 256K RAM : ORIGIN = 0x20000000, LENGTH = 64K }";
    std::fs::write(out.join("memory.x"), memory).expect("it can be written");
    // Names of interrupts, of which this board's are given by number.
    std::fs::write(out.join("device.x"), "").expect("it can be written");
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg=-Tlink.x");
}
