//! Parses arbitrary MCFG tables: the resulting windows are consistent.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_pci::mcfg::Mcfg;
use nostall_pci::{Environment, Signature};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// Well-formed entries: base in MiB, segment, first bus, last bus.
    entries: Vec<(u16, u8, u8, u8)>,
    /// Whether the entries stand behind a header with length and checksum. Otherwise only
    /// `bytes` is used.
    framed: bool,
    bytes: &'a [u8],
    address_bits: u8,
    reserved: Vec<(u32, u32)>,
}

/// Returns a table with these entries and other bytes. The sum of its bytes is 0.
fn framed(input: &Input<'_>) -> Vec<u8> {
    let mut table = b"MCFG".to_vec();
    table.resize(44, 0);
    for (base, segment, first, last) in input.entries.iter().take(300) {
        table.extend((u64::from(*base) << 20).to_le_bytes());
        table.extend([*segment, 0, *first, *last, 0, 0, 0, 0]);
    }
    table.extend(input.bytes);
    let len = table.len() as u32;
    table[4..8].copy_from_slice(&len.to_le_bytes());
    let sum = table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    table[9] = sum.wrapping_neg();
    table
}

fuzz_target!(|input: Input<'_>| {
    let table = match input.framed {
        true => framed(&input),
        false => input.bytes.to_vec(),
    };
    let segments: Vec<_> = match Mcfg::parse(&table) {
        Ok(mcfg) => mcfg.segments().collect(),
        Err(error) => return drop(error.to_string()),
    };
    assert!(!segments.is_empty());
    for (n, one) in segments.iter().enumerate() {
        let window = one.window();
        assert!(window.start < window.end && !one.buses.is_empty());
        assert_eq!(window.end - window.start, (one.buses.len() as u64) << 20);
        for other in &segments[..n] {
            let theirs = other.window();
            assert!(window.end <= theirs.start || theirs.end <= window.start);
            let apart =
                one.buses.end() < other.buses.start() || other.buses.end() < one.buses.start();
            assert!(one.number != other.number || apart);
        }
        let reserved = || {
            let ranges = input.reserved.iter();
            ranges.map(|(start, len)| {
                let start = u64::from(*start) << 12;
                start..start + (u64::from(*len) << 12)
            })
        };
        let virtual_machine = Environment::Hypervisor(Signature::NONE);
        let metal = one.validate(Environment::BareMetal, input.address_bits, reserved());
        let guest = one.validate(virtual_machine, input.address_bits, reserved());
        if let Err(error) = metal {
            drop(error.to_string());
        }
        // Bare metal never accepts more windows than a virtual machine.
        assert!(metal.is_err() || guest.is_ok());
    }
});
