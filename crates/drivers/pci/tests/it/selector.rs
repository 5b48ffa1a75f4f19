//! The access method that the selector chooses for reads and writes.

use std::cell::Cell;

use nostall_pci::{
    AccessError, Address, Choice, ConfigAccess, Environment, Known, Policy, Register, Selector,
    Signature,
};

/// A method that reaches one function, and counts its uses.
struct Way {
    function: Address,
    identity: u32,
    registers: u16,
    segments: u32,
    uses: Cell<u32>,
}

impl Way {
    fn ports(identity: u32) -> Self {
        Self {
            function: Address::new(0, 3, 0).unwrap(),
            identity,
            registers: 256,
            segments: 1,
            uses: Cell::new(0),
        }
    }

    fn ecam(identity: u32) -> Self {
        Self {
            registers: 4096,
            segments: 2,
            ..Self::ports(identity)
        }
    }
}

impl ConfigAccess for Way {
    fn reaches(&self, address: Address, register: u16) -> bool {
        address.segment() < self.segments && register < self.registers
    }

    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        if !self.reaches(address, register.number()) {
            return Err(register.out_of_reach(address));
        }
        self.uses.set(self.uses.get() + 1);
        let there = address == self.function;
        Ok(if there { self.identity } else { !0 })
    }

    fn write(&self, address: Address, register: Register, _: u32) -> Result<(), AccessError> {
        self.read(address, register).map(drop)
    }
}

fn at() -> Address {
    Address::new(0, 3, 0).unwrap()
}

/// Returns the method that was used for a read and for a write: ports, ECAM, neither.
fn used(
    selector: &Selector<&Way, &Way>,
    address: Address,
    register: u16,
) -> [Option<&'static str>; 2] {
    let (ports, ecam) = selector.methods();
    let uses = || [ports, ecam].map(|way| way.map_or(0, |way| way.uses.get()));
    let method = |before: [u32; 2]| match uses() {
        [ports, _] if ports > before[0] => Some("ports"),
        [_, ecam] if ecam > before[1] => Some("ecam"),
        _ => None,
    };
    let before = uses();
    let read = selector.at(address).read32(register);
    let reader = method(before);
    assert_eq!(read.is_ok(), reader.is_some());
    assert_eq!(read.is_ok(), selector.reaches(address, register));
    let before = uses();
    let _ = selector.at(address).write16(register, 0);
    [reader, method(before)]
}

#[test]
fn the_policy_applies_to_reads_and_writes() {
    let (ports, ecam) = (Way::ports(0x1234_8086), Way::ecam(0x1234_8086));
    let other_segment = at().in_segment(1);
    for (policy, first) in [(Policy::PortsFirst, "ports"), (Policy::EcamFirst, "ecam")] {
        let (selector, choice) = Selector::choose(Some(&ports), Some(&ecam), policy);
        assert_eq!(choice, Choice::Agreed(policy, at()));
        assert_eq!(used(&selector, at(), 0xfc), [Some(first); 2]);
        assert_eq!(used(&selector, at(), 0x100), [Some("ecam"); 2]);
        assert_eq!(used(&selector, other_segment, 0), [Some("ecam"); 2]);
        assert_eq!(used(&selector, at().in_segment(2), 0), [None; 2]);
    }
}

#[test]
fn the_only_available_method_is_used() {
    let (ports, ecam) = (Way::ports(1), Way::ecam(2));
    let (selector, choice) = Selector::choose(Some(&ports), None::<&Way>, Policy::EcamFirst);
    assert_eq!(choice, Choice::OnlyPorts);
    assert_eq!(used(&selector, at(), 0), [Some("ports"); 2]);
    assert_eq!(used(&selector, at(), 0x100), [None; 2]);
    let (selector, choice) = Selector::choose(None::<&Way>, Some(&ecam), Policy::PortsFirst);
    assert_eq!(choice, Choice::OnlyEcam);
    assert_eq!(used(&selector, at(), 0), [Some("ecam"); 2]);
    let (selector, choice) = Selector::choose(None::<&Way>, None, Policy::PortsFirst);
    assert_eq!(choice, Choice::Nothing);
    assert_eq!(used(&selector, at(), 0), [None; 2]);
}

#[test]
fn ecam_that_disagrees_is_not_used() {
    for ecam in [Way::ecam(0x5678_8086), Way::ecam(!0), Way::ecam(0)] {
        let ports = Way::ports(0x1234_8086);
        let (selector, choice) = Selector::choose(Some(&ports), Some(&ecam), Policy::EcamFirst);
        assert_eq!(choice, Choice::Disagree(at()));
        assert_eq!(used(&selector, at(), 0), [Some("ports"); 2]);
        assert_eq!(used(&selector, at(), 0x100), [None; 2]);
    }
    let ghost = Way::ecam(0x1234_8086);
    let (_, choice) = Selector::choose(Some(&Way::ports(!0)), Some(&ghost), Policy::EcamFirst);
    assert_eq!(
        choice,
        Choice::Disagree(at()),
        "ECAM alone shows a function"
    );
}

#[test]
fn without_a_function_to_compare_ecam_is_not_used() {
    // All ones, and the values that broken boards return for an absent function.
    for identity in [!0, 0, 0xffff_0000] {
        let (ports, ecam) = (Way::ports(identity), Way::ecam(identity));
        let (selector, choice) = Selector::choose(Some(&ports), Some(&ecam), Policy::EcamFirst);
        assert_eq!(choice, Choice::NothingToCompare, "{identity:#x}");
        assert_eq!(used(&selector, at(), 0), [Some("ports"); 2]);
    }
}

#[test]
fn equal_failures_are_not_an_agreement() {
    struct Failing;
    impl ConfigAccess for Failing {
        fn reaches(&self, _: Address, _: u16) -> bool {
            true
        }
        fn read(&self, _: Address, _: Register) -> Result<u32, AccessError> {
            Err(AccessError::Failed)
        }
        fn write(&self, _: Address, _: Register, _: u32) -> Result<(), AccessError> {
            Err(AccessError::Failed)
        }
    }
    let (_, choice) = Selector::choose(Some(Failing), Some(Failing), Policy::EcamFirst);
    assert_eq!(choice, Choice::NothingToCompare);
}

#[test]
fn only_a_hypervisor_in_the_table_selects_ecam_first() {
    let of = |signature, table: &[Known]| Policy::of(Environment::Hypervisor(signature), table);
    assert_eq!(
        Policy::of(Environment::BareMetal, Known::TABLE),
        Policy::PortsFirst
    );
    for signature in [Signature::VMWARE, Signature::KVM, Signature::TCG] {
        assert_eq!(
            of(signature, Known::TABLE),
            Policy::EcamFirst,
            "{signature}"
        );
    }
    for signature in [Signature::XEN, Signature::HYPER_V, Signature::NONE] {
        assert_eq!(
            of(signature, Known::TABLE),
            Policy::PortsFirst,
            "{signature}"
        );
    }
    let row = |signature, policy| Known { signature, policy };
    let mine = [
        row(Signature::XEN, Policy::EcamFirst),
        row(Signature::KVM, Policy::PortsFirst),
    ];
    let amended = [&mine[..], Known::TABLE].concat();
    assert_eq!(of(Signature::XEN, &amended), Policy::EcamFirst);
    assert_eq!(of(Signature::KVM, &amended), Policy::PortsFirst);
    assert_eq!(of(Signature::TCG, &amended), Policy::EcamFirst);
}
