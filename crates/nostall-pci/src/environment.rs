//! What we run on: a machine, or a hypervisor.

use core::fmt;

/// The twelve bytes by which a hypervisor tells its name: EBX, ECX and EDX of CPUID leaf
/// 0x4000_0000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(pub [u8; 12]);

impl Signature {
    /// VMware, on whose hypervisor all of this began.
    pub const VMWARE: Self = Self(*b"VMwareVMware");
    /// Linux's KVM, whatever runs on it: QEMU, Firecracker, crosvm, Cloud Hypervisor.
    pub const KVM: Self = Self(*b"KVMKVMKVM\0\0\0");
    /// QEMU's software emulation.
    pub const TCG: Self = Self(*b"TCGTCGTCGTCG");
    /// Microsoft's Hyper-V.
    pub const HYPER_V: Self = Self(*b"Microsoft Hv");
    /// Xen.
    pub const XEN: Self = Self(*b"XenVMMXenVMM");
    /// A hypervisor without a name: a device tree tells no more than that there is one.
    pub const NONE: Self = Self([0; 12]);
}

impl fmt::Display for Signature {
    /// As text, up to the zeros at its end; what is not ASCII is escaped.
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

/// What we run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// Nobody that we know of is below us.
    BareMetal,
    /// A hypervisor of this name.
    Hypervisor(Signature),
}

impl Environment {
    /// As this CPU tells: CPUID leaf 1, bit 31 of ECX, which processors leave clear and
    /// hypervisors set; then leaf 0x4000_0000.
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
        let name = cpuid.cpuid1(0x4000_0000);
        let mut signature = [0; 12];
        for (bytes, register) in signature
            .chunks_exact_mut(4)
            .zip([name.ebx, name.ecx, name.edx])
        {
            bytes.copy_from_slice(&register.to_le_bytes());
        }
        Self::Hypervisor(Signature(signature))
    }
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
        let word = |at: usize| u32::from_le_bytes(name[at..at + 4].try_into().unwrap());
        let reader = |leaf, _| match leaf {
            1 => CpuIdResult {
                ecx,
                ..native_cpuid::cpuid_count(1, 0)
            },
            0x4000_0000 => CpuIdResult {
                eax: 0,
                ebx: word(0),
                ecx: word(4),
                edx: word(8),
            },
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
    fn this_machine_is_one_or_the_other() {
        let _ = Environment::detect().to_string();
    }
}
