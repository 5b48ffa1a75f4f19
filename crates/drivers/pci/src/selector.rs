//! Selection of the access method if both exist.

use core::fmt;

use crate::{AccessError, Address, ConfigAccess, Environment, Function, Register, Signature};

/// Preferred access method for reads and writes. The other method serves the registers that it
/// cannot reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Ports for the first 256 registers of segment 0, as in kernels before ECAM.
    PortsFirst,
    /// ECAM for all registers that it reaches.
    EcamFirst,
}

/// A hypervisor and its best policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Name of the hypervisor.
    pub signature: Signature,
    /// Preferred method.
    pub policy: Policy,
}

impl Known {
    /// Hypervisors whose ECAM is known to work, at no more than half the cost of ports.
    ///
    /// The entry for VMware is from a patch of Linux, which was not merged ("x86/PCI: Prefer MMIO over
    /// PIO on VMware hypervisor", 2022). There, 100,000 reads take 8.5 s instead of 12.8 s, and 0.01 s
    /// if the registers are mapped. This project's tests cover KVM's and QEMU's.
    pub const TABLE: &'static [Self] = &[
        Self {
            signature: Signature::VMWARE,
            policy: Policy::EcamFirst,
        },
        Self {
            signature: Signature::KVM,
            policy: Policy::EcamFirst,
        },
        Self {
            signature: Signature::TCG,
            policy: Policy::EcamFirst,
        },
    ];
}

impl Policy {
    /// Returns the policy for `environment`. Ports come first on bare metal, because the ECAM of
    /// some old hardware has bugs, and under a hypervisor that is not in `table`. Pass
    /// [`Known::TABLE`] or a longer table; the first row of a name is used.
    pub fn of(environment: Environment, table: &[Known]) -> Self {
        let Environment::Hypervisor(signature) = environment else {
            return Self::PortsFirst;
        };
        table
            .iter()
            .find(|known| known.signature == signature)
            .map_or(Self::PortsFirst, |known| known.policy)
    }
}

/// Reason for a [`Selector`]'s choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// Configuration space is not accessible.
    Nothing,
    /// Only ports exist.
    OnlyPorts,
    /// Only ECAM exists.
    OnlyEcam,
    /// Both methods exist and agree about this function. The policy states the preferred one.
    Agreed(Policy, Address),
    /// The methods disagree about this function: ports are used, ECAM is not.
    Disagree(Address),
    /// Neither method found a function that both reach, so they could not be compared: ports are
    /// used.
    NothingToCompare,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no way to configuration space"),
            Self::OnlyPorts => f.write_str("ports: there is no ECAM"),
            Self::OnlyEcam => f.write_str("ECAM: there are no ports"),
            Self::Agreed(Policy::PortsFirst, at) => {
                write!(f, "ports first, ECAM for the rest; they agree about {at}")
            }
            Self::Agreed(Policy::EcamFirst, at) => {
                write!(f, "ECAM first, ports for the rest; they agree about {at}")
            }
            Self::Disagree(at) => write!(f, "ports: ECAM disagrees about {at}"),
            Self::NothingToCompare => {
                f.write_str("ports: no function was found to compare with ECAM")
            }
        }
    }
}

/// Both methods combined: each access uses the first method that reaches its register.
#[derive(Clone, Copy, Debug)]
pub struct Selector<P, E> {
    ports: Option<P>,
    ecam: Option<E>,
    policy: Policy,
}

impl<P: ConfigAccess, E: ConfigAccess> Selector<P, E> {
    /// Selects from the existing methods, and returns the reason. If both exist, ECAM is used only
    /// if it reads the same as ports from a function of segment 0 that both reach. Firmware tables
    /// have been wrong.
    ///
    /// Do not pass ports that do not [`exist`](crate::ConfigPorts::exist): they would show no
    /// function where ECAM shows one, and would be preferred.
    pub fn choose(ports: Option<P>, ecam: Option<E>, policy: Policy) -> (Self, Choice) {
        let choice = match (&ports, &ecam) {
            (None, None) => Choice::Nothing,
            (Some(_), None) => Choice::OnlyPorts,
            (None, Some(_)) => Choice::OnlyEcam,
            (Some(ports), Some(ecam)) => compare(ports, ecam, policy),
        };
        let ecam = ecam.filter(|_| matches!(choice, Choice::OnlyEcam | Choice::Agreed(..)));
        let selector = Self {
            ports,
            ecam,
            policy,
        };
        (selector, choice)
    }

    /// Returns the methods in use: ports, ECAM.
    pub const fn methods(&self) -> (Option<&P>, Option<&E>) {
        (self.ports.as_ref(), self.ecam.as_ref())
    }

    const fn other(&self) -> Policy {
        match self.policy {
            Policy::PortsFirst => Policy::EcamFirst,
            Policy::EcamFirst => Policy::PortsFirst,
        }
    }

    /// Reads with one method, which checks the access once.
    #[inline(always)]
    fn read_by(
        &self,
        first: Policy,
        address: Address,
        register: Register,
    ) -> Result<u32, AccessError> {
        match (first, &self.ports, &self.ecam) {
            (Policy::EcamFirst, _, Some(ecam)) => ecam.read(address, register),
            (Policy::PortsFirst, Some(ports), _) => ports.read(address, register),
            _ => Err(register.out_of_reach(address)),
        }
    }

    #[inline(always)]
    fn write_by(
        &self,
        first: Policy,
        address: Address,
        register: Register,
        value: u32,
    ) -> Result<(), AccessError> {
        match (first, &self.ports, &self.ecam) {
            (Policy::EcamFirst, _, Some(ecam)) => ecam.write(address, register, value),
            (Policy::PortsFirst, Some(ports), _) => ports.write(address, register, value),
            _ => Err(register.out_of_reach(address)),
        }
    }

    /// Reads with the other method. Cold, to keep the fast path of the first method short.
    #[cold]
    #[inline(never)]
    fn read_by_other(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        self.read_by(self.other(), address, register)
    }

    #[cold]
    #[inline(never)]
    fn write_by_other(
        &self,
        address: Address,
        register: Register,
        value: u32,
    ) -> Result<(), AccessError> {
        self.write_by(self.other(), address, register, value)
    }
}

impl<P: ConfigAccess, E: ConfigAccess> ConfigAccess for Selector<P, E> {
    fn reaches(&self, address: Address, register: u16) -> bool {
        let ports = self.ports.as_ref();
        let ecam = self.ecam.as_ref();
        ports.is_some_and(|ports| ports.reaches(address, register))
            || ecam.is_some_and(|ecam| ecam.reaches(address, register))
    }

    #[inline(always)]
    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        match self.read_by(self.policy, address, register) {
            Err(AccessError::OutOfReach { .. }) => self.read_by_other(address, register),
            done => done,
        }
    }

    #[inline(always)]
    fn write(&self, address: Address, register: Register, value: u32) -> Result<(), AccessError> {
        match self.write_by(self.policy, address, register, value) {
            Err(AccessError::OutOfReach { .. }) => self.write_by_other(address, register, value),
            done => done,
        }
    }
}

/// Registers that never change: vendor and device, class and revision (PCI 3.0, 6.1).
const IDENTITY: [u16; 2] = [0x00, 0x08];

/// Compares the first function of segment 0, bus by bus, that either method shows among those that
/// both reach.
fn compare<P: ConfigAccess, E: ConfigAccess>(ports: &P, ecam: &E, policy: Policy) -> Choice {
    let everywhere =
        (0..=255).flat_map(|bus| (0..32).filter_map(move |device| Address::new(bus, device, 0)));
    for address in everywhere.filter(|at| ports.reaches(*at, 0) && ecam.reaches(*at, 0)) {
        let by_ports = IDENTITY.map(|register| ports.at(address).read32(register));
        let by_ecam = IDENTITY.map(|register| ecam.at(address).read32(register));
        if by_ports != by_ecam {
            return Choice::Disagree(address);
        }
        // If neither method could read the function, or both found none, nothing is proven.
        if by_ports[0].is_ok_and(Function::is_there) {
            return Choice::Agreed(policy, address);
        }
    }
    Choice::NothingToCompare
}
