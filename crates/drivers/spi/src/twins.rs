//! Macros `$wait!` for a body that is written once and used twice: blocking and asynchronous.

macro_rules! blocked {
    ($result:expr) => {
        $result
    };
}

macro_rules! awaited {
    ($future:expr) => {
        $future.await
    };
}

pub(crate) use {awaited, blocked};
