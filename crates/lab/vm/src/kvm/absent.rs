//! KVM on a host that has none: it is never found.

use std::io;

use super::{Capabilities, Options, Speed};
use crate::guest::{Ending, Guest, GuestRun, Limits};
use crate::{Error, Machine, Need};

/// The host's KVM, which x86-64 Linux alone has here.
#[derive(Debug)]
pub enum Kvm {}

impl Kvm {
    /// Returns an error, on this host.
    ///
    /// # Errors
    ///
    /// [`Error::NoKvm`].
    pub fn find(_: Options) -> Result<Self, Error> {
        Err(Error::NoKvm {
            path: "/dev/kvm",
            cause: io::ErrorKind::NotFound.into(),
        })
    }

    /// Returns its capabilities.
    pub const fn capabilities(&self) -> Capabilities {
        match *self {}
    }

    /// Returns the options of its machines.
    pub const fn options(&self) -> Options {
        match *self {}
    }

    /// Returns a note for each option that this KVM does not support, with its replacement.
    pub const fn notes(&self) -> &[String] {
        match *self {}
    }

    /// Measures the speed of guest code.
    ///
    /// # Errors
    ///
    /// None, because this KVM does not exist.
    pub const fn speed(&self) -> Result<Speed, Error> {
        match *self {}
    }
}

impl Machine for Kvm {
    fn describe(&self) -> String {
        match *self {}
    }

    fn offers(&self, _: &Need<'_>) -> Result<(), Error> {
        match *self {}
    }

    fn run(
        &self,
        _: &Guest<'_>,
        _: &Limits,
        _: Ending,
        _: &mut dyn FnMut(u64),
    ) -> Result<GuestRun, Error> {
        match *self {}
    }
}
