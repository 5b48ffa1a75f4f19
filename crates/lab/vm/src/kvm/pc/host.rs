//! The host's KVM.

use std::io;

use crate::Error;
use crate::kvm::{Capabilities, Options};

/// Path of KVM's device file.
const PATH: &str = "/dev/kvm";

/// The host's KVM.
#[derive(Debug)]
pub struct Kvm {
    pub(in crate::kvm) system: kvm_ioctls::Kvm,
    capabilities: Capabilities,
    options: Options,
    notes: Vec<String>,
}

impl Kvm {
    /// Opens the host's KVM for machines with `options`, or the closest supported ones.
    /// [`notes`](Self::notes) lists the missing capabilities.
    ///
    /// # Errors
    ///
    /// [`Error::NoKvm`] if KVM does not exist or the user lacks permission. [`Error::Kvm`] if KVM
    /// refuses a query.
    pub fn find(options: Options) -> Result<Self, Error> {
        let no_kvm = |errno: kvm_ioctls::Error| Error::NoKvm {
            path: PATH,
            cause: errno.into(),
        };
        let system = kvm_ioctls::Kvm::new().map_err(no_kvm)?;
        if system.get_api_version() != kvm_bindings::KVM_API_VERSION as i32 {
            let cause = io::Error::other("its interface has an unsupported version");
            return Err(Error::NoKvm { path: PATH, cause });
        }
        let capabilities = Capabilities::of(&system);
        let (options, notes) = capabilities.settle(options);
        Ok(Self {
            system,
            capabilities,
            options,
            notes,
        })
    }

    /// Returns its capabilities.
    pub const fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Returns the options of its machines.
    pub const fn options(&self) -> Options {
        self.options
    }

    /// Returns a note for each option that this KVM does not support, with its replacement.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
