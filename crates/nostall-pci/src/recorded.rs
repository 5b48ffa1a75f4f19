//! What records of configuration space ask first.

use crate::access::{AccessError, REGISTERS, Width};

pub(crate) fn check(register: u16, width: Width) -> Result<(), AccessError> {
    if !register.is_multiple_of(width.bytes()) {
        Err(AccessError::Unaligned { register, width })
    } else if register >= REGISTERS {
        Err(AccessError::NoSuchRegister(register))
    } else {
        Ok(())
    }
}
