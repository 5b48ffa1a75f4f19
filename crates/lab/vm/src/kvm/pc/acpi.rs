//! ACPI tables that describe this machine's devices to a kernel (ACPI 6.5, section 5).

use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::madt::{
    EnabledStatus, IoApic, LocalInterruptController, MADT, ProcessorLocalApic,
};
use acpi_tables::mcfg::MCFG;
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;
use acpi_tables::xsdt::XSDT;
use acpi_tables::{Aml, AmlSink};

use super::pci::{BUSES, ECAM};

const OEM: [u8; 6] = *b"NOSTAL";
const TABLE: [u8; 8] = *b"NOSTALLK";
const REVISION: u32 = 1;

/// Addresses of KVM's interrupt controllers.
const LOCAL_APIC: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;

/// Consecutive tables.
struct Tables {
    start: u64,
    bytes: Vec<u8>,
}

impl AmlSink for Tables {
    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }
}

impl Tables {
    /// Adds a table and returns its address.
    fn add(&mut self, table: &dyn Aml) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        let address = self.start + self.bytes.len() as u64;
        table.to_aml_bytes(self);
        address
    }
}

/// Returns the bytes of all tables of a machine with one CPU, for the address `start`, and the
/// address of the RSDP. A kernel searches for the RSDP first.
pub fn tables(start: u64) -> (Vec<u8>, u64) {
    let mut tables = Tables {
        start,
        bytes: Vec::new(),
    };
    // The DSDT is only a header, because AML describes no device.
    let dsdt = tables.add(&Sdt::new(*b"DSDT", 36, 2, OEM, TABLE, REVISION));
    let fadt = FADTBuilder::new(OEM, TABLE, REVISION)
        .dsdt_64(dsdt)
        .flag(Flags::HwReducedAcpi)
        .finalize();
    let mut madt = MADT::new(
        OEM,
        TABLE,
        REVISION,
        LocalInterruptController::Address(LOCAL_APIC),
    );
    madt.add_structure(ProcessorLocalApic::new(0, 0, EnabledStatus::Enabled));
    madt.add_structure(IoApic::new(1, IO_APIC, 0));
    let mut mcfg = MCFG::new(OEM, TABLE, REVISION);
    mcfg.add_ecam(ECAM, 0, *BUSES.start(), *BUSES.end());
    let mut xsdt = XSDT::new(OEM, TABLE, REVISION);
    for table in [&fadt as &dyn Aml, &madt, &mcfg] {
        let address = tables.add(table);
        xsdt.add_entry(address);
    }
    let xsdt = tables.add(&xsdt);
    let rsdp = tables.add(&Rsdp::new(OEM, xsdt));
    (tables.bytes, rsdp)
}

#[cfg(test)]
mod tests {
    use nostall_pci::mcfg::Mcfg;

    use super::*;

    fn number(bytes: &[u8]) -> usize {
        bytes
            .iter()
            .rev()
            .fold(0, |n, &byte| n << 8 | usize::from(byte))
    }

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, &byte| sum.wrapping_add(byte))
    }

    #[test]
    fn every_table_is_reachable_and_sums_to_zero() {
        let start = 0xe_0000;
        let (bytes, rsdp) = tables(start);
        let at = |address: usize| &bytes[address - start as usize..];
        let table = |address| {
            let table = at(address);
            &table[..number(&table[4..8])]
        };
        let rsdp = &at(rsdp as usize)[..36];
        assert_eq!(&rsdp[..8], b"RSD PTR ");
        assert_eq!((sum(&rsdp[..20]), sum(rsdp)), (0, 0));
        let xsdt = table(number(&rsdp[24..32]));
        assert_eq!((&xsdt[..4], sum(xsdt)), (&b"XSDT"[..], 0));
        let mut names = Vec::new();
        for entry in xsdt[36..].chunks(8) {
            let table = table(number(entry));
            assert_eq!(sum(table), 0);
            names.push(table[..4].to_vec());
            if table[..4] == *b"MCFG" {
                let mcfg = Mcfg::parse(table).unwrap();
                let segments: Vec<_> = mcfg.segments().collect();
                let [segment] = &segments[..] else {
                    panic!("{segments:?}");
                };
                assert_eq!((segment.number, segment.start), (0, ECAM));
                assert_eq!(segment.buses, BUSES);
            }
            if table[..4] == *b"FACP" {
                let dsdt = at(number(&table[140..148]));
                assert_eq!(&dsdt[..4], b"DSDT");
            }
        }
        assert_eq!(names, [b"FACP", b"APIC", b"MCFG"]);
    }
}
