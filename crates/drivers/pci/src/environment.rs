//! Environment of the kernel: bare metal, or a hypervisor.

use core::fmt;

/// Name of a hypervisor: the twelve bytes in EBX, ECX and EDX of CPUID leaf 0x4000_0000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(pub [u8; 12]);

impl Signature {
    /// VMware, for which a patch of Linux preferred ECAM.
    pub const VMWARE: Self = Self(*b"VMwareVMware");
    /// Linux's KVM, with any VMM: QEMU, Firecracker, crosvm, Cloud Hypervisor.
    pub const KVM: Self = Self(*b"KVMKVMKVM\0\0\0");
    /// QEMU's software emulation.
    pub const TCG: Self = Self(*b"TCGTCGTCGTCG");
    /// Microsoft's Hyper-V.
    pub const HYPER_V: Self = Self(*b"Microsoft Hv");
    /// Xen.
    pub const XEN: Self = Self(*b"XenVMMXenVMM");
    /// A hypervisor without a name: a device tree only states that one exists.
    pub const NONE: Self = Self([0; 12]);
}

impl fmt::Display for Signature {
    /// Writes the name as text, without trailing zeros. Escapes bytes that are not ASCII.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.iter().rposition(|byte| *byte != 0);
        let text = &self.0[..len.map_or(0, |at| at + 1)];
        write!(f, "{}", text.escape_ascii())
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({self})")
    }
}

/// Machine that the kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// Bare metal, or an unknown hypervisor.
    BareMetal,
    /// A hypervisor of this name.
    Hypervisor(Signature),
}

impl Environment {
    /// Detects the environment of this CPU. Processors leave bit 31 of ECX in CPUID leaf 1 clear,
    /// and hypervisors set it. Their name is in leaf 0x4000_0000.
    ///
    /// Hypervisors that imitate Hyper-V for Windows (KVM, Xen) have Hyper-V's name there, and their
    /// own name 0x100 leaves later. That second name is used if it is a known one.
    #[cfg(target_arch = "x86_64")]
    pub fn detect() -> Self {
        Self::of_cpuid(raw_cpuid::CpuIdReaderNative)
    }

    #[cfg(target_arch = "x86_64")]
    fn of_cpuid(cpuid: impl raw_cpuid::CpuIdReader) -> Self {
        const HYPERVISOR: u32 = 1 << 31;
        if cpuid.cpuid1(1).ecx & HYPERVISOR == 0 {
            return Self::BareMetal;
        }
        let (name, _) = signature(&cpuid, FIRST_NAME);
        if name != Signature::HYPER_V {
            return Self::Hypervisor(name);
        }
        let (own, last) = signature(&cpuid, SECOND_NAME);
        // A hypervisor also reports its last leaf there; old KVMs report 0.
        let true_to_form = last == 0 || (SECOND_NAME..SECOND_NAME + 0x100).contains(&last);
        match own {
            Signature::KVM | Signature::XEN if true_to_form => Self::Hypervisor(own),
            _ => Self::Hypervisor(name),
        }
    }
}

/// First leaves of CPUID that hold a hypervisor's name.
#[cfg(target_arch = "x86_64")]
const FIRST_NAME: u32 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const SECOND_NAME: u32 = 0x4000_0100;

/// Returns the name at `leaf`, and the last leaf of that hypervisor.
#[cfg(target_arch = "x86_64")]
fn signature(cpuid: &impl raw_cpuid::CpuIdReader, leaf: u32) -> (Signature, u32) {
    let name = cpuid.cpuid1(leaf);
    let mut signature = [0; 12];
    for (bytes, register) in signature
        .chunks_exact_mut(4)
        .zip([name.ebx, name.ecx, name.edx])
    {
        bytes.copy_from_slice(&register.to_le_bytes());
    }
    (Signature(signature), name.eax)
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BareMetal => f.write_str("bare metal"),
            Self::Hypervisor(Signature::NONE) => f.write_str("a hypervisor without a name"),
            Self::Hypervisor(name) => write!(f, "hypervisor {name}"),
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    extern crate std;
    use super::*;
    use raw_cpuid::{CpuIdResult, native_cpuid};
    use std::string::ToString;

    fn cpuid(ecx: u32, name: &[u8; 12]) -> Environment {
        two_names(ecx, name, None)
    }

    /// Adds the values of the leaf 0x100 later: a name, and the last leaf.
    fn two_names(ecx: u32, name: &[u8; 12], other: Option<(&[u8; 12], u32)>) -> Environment {
        let of = |name: &[u8; 12], eax| {
            let word = |at: usize| u32::from_le_bytes(name[at..at + 4].try_into().unwrap());
            CpuIdResult {
                eax,
                ebx: word(0),
                ecx: word(4),
                edx: word(8),
            }
        };
        let reader = |leaf, _| match (leaf, other) {
            (1, _) => CpuIdResult {
                ecx,
                ..native_cpuid::cpuid_count(1, 0)
            },
            (0x4000_0000, _) => of(name, 0),
            (0x4000_0100, Some((other, last))) => of(other, last),
            _ => panic!("leaf {leaf:#x}"),
        };
        Environment::of_cpuid(reader)
    }

    #[test]
    fn a_hypervisor_is_known_by_its_bit_and_its_name() {
        assert_eq!(
            cpuid(!(1 << 31), b"KVMKVMKVM\0\0\0"),
            Environment::BareMetal
        );
        let kvm = cpuid(1 << 31, b"KVMKVMKVM\0\0\0");
        assert_eq!(kvm, Environment::Hypervisor(Signature::KVM));
        assert_eq!(kvm.to_string(), "hypervisor KVMKVMKVM");
        assert_eq!(
            cpuid(!0, &[0; 12]).to_string(),
            "a hypervisor without a name"
        );
        assert_eq!(
            cpuid(!0, b"a\x1b\0bcdefghi\0").to_string(),
            "hypervisor a\\x1b\\x00bcdefghi"
        );
    }

    #[test]
    fn a_hypervisor_that_imitates_hyper_v_is_known_by_its_own_name() {
        let hyper_v = Environment::Hypervisor(Signature::HYPER_V);
        let kvm = b"KVMKVMKVM\0\0\0";
        let second = |name, last| two_names(!0, b"Microsoft Hv", Some((name, last)));
        for last in [0, 0x4000_0101] {
            assert_eq!(second(kvm, last), Environment::Hypervisor(Signature::KVM));
        }
        let xen = second(b"XenVMMXenVMM", 0x4000_0105);
        assert_eq!(xen, Environment::Hypervisor(Signature::XEN));
        // Hyper-V itself, with any value there.
        assert_eq!(second(&[0; 12], 0), hyper_v);
        assert_eq!(second(b"not a name ?", 0x4000_0101), hyper_v);
        assert_eq!(second(kvm, 7), hyper_v);
    }

    #[test]
    fn the_environment_of_this_machine_has_a_text() {
        let _ = Environment::detect().to_string();
    }
}
