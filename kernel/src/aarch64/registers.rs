//! System registers.

/// Reads a system register as a `u64`.
macro_rules! read {
    ($register:literal) => {{
        let value: u64;
        // SAFETY: reading this register has no effect that Rust code depends on.
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $register), out(reg) value,
                options(nostack, preserves_flags));
        }
        value
    }};
}

/// Writes a system register. The caller must know what the write does.
macro_rules! write {
    ($register:literal, $value:expr) => {{
        let value: u64 = $value;
        core::arch::asm!(concat!("msr ", $register, ", {}"), in(reg) value,
            options(nostack, preserves_flags));
    }};
}

pub(super) use {read, write};
