//! What records of configuration space ask first.

use crate::access::{AccessError, REGISTERS, Width};

/// Puts the numbers that are known of a virtual function in place of the all ones that `read`,
/// its registers from `register` on, holds of them.
pub(crate) fn put_virtual_id(
    register: u16,
    read: &mut [u8],
    known: impl FnOnce() -> Option<[u8; 4]>,
) {
    let first = usize::from(register);
    if first + read.len() <= 4
        && read.iter().all(|byte| *byte == 0xff)
        && let Some(ids) = known()
    {
        read.copy_from_slice(&ids[first..first + read.len()]);
    }
}

pub(crate) fn check(register: u16, width: Width) -> Result<(), AccessError> {
    if !register.is_multiple_of(width.bytes()) {
        Err(AccessError::Unaligned { register, width })
    } else if register >= REGISTERS {
        Err(AccessError::NoSuchRegister(register))
    } else {
        Ok(())
    }
}
