//! Drivers from crates.io share an SPI bus of nostall's.
//!
//! - [`threads`]: a flash and an RFID reader, blocking; its drivers are in [`blocking`];
//! - [`embassy`]: a flash and a display, awaited;
//! - [`interrupt`]: an SD card and a display on bare metal; an interrupt handler submits;
//! - [`card`]: a file of an SD card, on bare metal;
//! - [`firmware`]: two devices on a bus in a local variable.
//!
//! [`board`] is not part of the programs. On a host it has models of the chips. Elsewhere it
//! is the SSI of TI's LM3S6965, whose registers stand for a HAL.
#![cfg_attr(target_os = "none", no_std)]

#[cfg_attr(not(target_os = "none"), path = "board/models.rs")]
#[cfg_attr(target_os = "none", path = "board/lm3s6965.rs")]
pub mod board;

pub mod blocking;
pub mod card;
pub mod embassy;
pub mod firmware;
#[cfg(target_os = "none")]
pub mod interrupt;
#[cfg(not(target_os = "none"))]
pub mod threads;
