//! Records that survive a crash, in the memory format of Linux's ramoops.

#![cfg_attr(not(feature = "std"), no_std)]
