//! The board's memory, for cortex-m-rt's linker script (LM3S6965 data sheet, "Memory Map").

use std::path::PathBuf;

fn main() {
    if std::env::var_os("CARGO_FEATURE_LM3S6965EVB").is_none() {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let memory =
        "MEMORY { FLASH : ORIGIN = 0, LENGTH = 256K RAM : ORIGIN = 0x20000000, LENGTH = 64K }";
    std::fs::write(out.join("memory.x"), memory).expect("the output folder is writable");
    // cortex-m-rt wants this file. It is empty, because the board's vectors have numbers, not
    // names.
    std::fs::write(out.join("device.x"), "").expect("the output folder is writable");
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg-bin=lm3s6965evb=-Tlink.x");
}
