//! The ACPI tables that describe the machine to Linux (ACPI 6.5, section 5).
//!
//! The machine is not hardware-reduced: KVM's interrupt controllers and timer are a PC's, and a
//! kernel would not use them on a reduced machine.

use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, Device, EISAName, IO, Interrupt, Memory32Fixed, Name,
    Package, Path, ResourceTemplate, Scope, Uuid, ZERO,
};
use acpi_tables::facs::FACS;
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::gas::{AccessSize, AddressSpace as Space, GAS};
use acpi_tables::madt::{EnabledStatus, IoApic, ProcessorLocalApic};
use acpi_tables::mcfg::MCFG;
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;
use acpi_tables::xsdt::XSDT;
use acpi_tables::{Aml, AmlSink};

use crate::kvm::pc::acpi::{IO_APIC, LOCAL_APIC, OEM, REVISION, TABLE, Tables};
use crate::kvm::pc::{COM1, IRQ, STRIDE};

/// Number of register pages that Linux's 8250_dw may access: up to a DesignWare's status register
/// (DW_apb_uart databook, USR: 0x7c, four bytes per register).
pub const UART_PAGES: u64 = 0x20;

/// Ports of the power management registers, as in QEMU: status and enable, and control (ACPI 6.5,
/// 4.8.3.1 and 4.8.3.2).
pub const PM_EVENT: u16 = 0x600;
pub const PM_CONTROL: u16 = 0x604;

/// Value that `\_S5` writes to SLP_TYP for "off". The choice is arbitrary.
pub const OFF: u8 = 5;

/// A PC's reset control register, and the value that resets (ICH9 data sheet, 13.7.5).
pub const RESET: u16 = 0xcf9;
pub const RESET_VALUE: u8 = 6;

/// Interrupt of ACPI's own events, as on every PC. It never occurs.
const SCI: u16 = 9;

/// Address space for BARs below 4 GiB: first and last address.
pub const PCI_MEMORY: (u32, u32) = (0xc000_0000, 0xcfff_ffff);
const PCI_MEMORY_64: (u64, u64) = (0x40_0000_0000, 0x4f_ffff_ffff);

/// Length of a table's header (5.2.6).
const HEADER: u32 = 36;

/// Location of the serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialLocation {
    /// A PC's first port: PNP0501, I/O ports, an edge-triggered interrupt.
    Ports,
    /// Memory from this address, one register a page.
    Memory(u32),
}

/// Location of PCI configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// Ports 0xcf8 to 0xcff.
    Ports,
    /// ECAM from this address.
    Ecam(u32),
}

/// Contents of the tables of a machine with one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Location of the serial port.
    pub serial: SerialLocation,
    /// Location of PCI configuration space.
    pub configuration: Configuration,
    /// Last bus number; the first is 0.
    pub last_bus: u8,
    /// I/O APIC input of the timer.
    pub timer: TimerPin,
}

/// I/O APIC input that the timer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerPin {
    /// Input 0, KVM's default: no interrupt override is needed.
    Zero,
    /// Input 2, as on PCs and in QEMU.
    Two,
}

/// Returns the bytes of all tables for the address `start`, and the address of the RSDP, from which
/// all others are found.
pub fn tables(description: &Description, start: u64) -> (Vec<u8>, u64) {
    let mut tables = Tables::at(start);
    let facs = tables.add(&FACS::new());
    let dsdt = tables.add(&dsdt(description));
    let mut all = vec![
        tables.add(&fadt(dsdt, facs)),
        tables.add(&madt(description.timer)),
    ];
    if let Configuration::Ecam(base) = description.configuration {
        let mut mcfg = MCFG::new(OEM, TABLE, REVISION);
        mcfg.add_ecam(base.into(), 0, 0, description.last_bus);
        all.push(tables.add(&mcfg));
    }
    let mut xsdt = XSDT::new(OEM, TABLE, REVISION);
    all.into_iter().for_each(|table| xsdt.add_entry(table));
    let xsdt = tables.add(&xsdt);
    let rsdp = tables.add(&Rsdp::new(OEM, xsdt));
    (tables.into_bytes(), rsdp)
}

fn fadt(dsdt: u64, facs: u64) -> impl Aml {
    /// IA-PC boot architecture (table 5.11): ISA devices exist. There is no keyboard controller
    /// (its bit is clear), VGA or CMOS clock. Message-signalled interrupts and ASPM are not
    /// supported.
    const BOOT: u16 = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;
    let mut fadt = FADTBuilder::new(OEM, TABLE, REVISION)
        .dsdt_64(dsdt)
        .firmware_ctrl_64(facs)
        .flag(Flags::Wbinvd)
        .flag(Flags::ProcC1)
        // No power button, sleep button or clock.
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::FixRtc)
        .flag(Flags::ResetRegSup);
    fadt.sci_int = SCI.into();
    fadt.pm1a_evt_blk = u32::from(PM_EVENT).into();
    fadt.pm1_evt_len = 4;
    fadt.pm1a_cnt_blk = u32::from(PM_CONTROL).into();
    fadt.pm1_cnt_len = 2;
    // A latency above the limit means that the power state does not exist.
    fadt.p_lvl2_lat = 101.into();
    fadt.p_lvl3_lat = 1001.into();
    fadt.iapc_boot_arch = BOOT.into();
    fadt.reset_reg = GAS::new(Space::SystemIo, 8, 0, AccessSize::ByteAccess, RESET.into());
    fadt.reset_value = RESET_VALUE;
    fadt.finalize()
}

fn madt(timer: TimerPin) -> Sdt {
    /// 8259 interrupt controllers also exist.
    const PCAT_COMPAT: u32 = 1 << 0;
    let mut madt = Sdt::new(*b"APIC", HEADER, 1, OEM, TABLE, REVISION);
    madt.append_slice(&LOCAL_APIC.to_le_bytes());
    madt.append_slice(&PCAT_COMPAT.to_le_bytes());
    let mut controllers = Vec::new();
    ProcessorLocalApic::new(0, 0, EnabledStatus::Enabled).to_aml_bytes(&mut controllers);
    IoApic::new(1, IO_APIC, 0).to_aml_bytes(&mut controllers);
    if timer == TimerPin::Two {
        // 5.2.12.5: ISA interrupt 0 is global interrupt 2, with the bus's polarity and trigger
        // mode.
        controllers.extend([2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
    }
    madt.append_slice(&controllers);
    madt
}

fn dsdt(description: &Description) -> Sdt {
    let mut aml = Vec::new();
    let root = pci_root(description);
    let board = board(description);
    let serial = match description.serial {
        SerialLocation::Ports => serial_by_ports(),
        SerialLocation::Memory(base) => serial_in_memory(base),
    };
    let devices = [root, board, serial].map(Raw);
    let children = devices.iter().map(|device| device as &dyn Aml).collect();
    Scope::new(Path::new("\\_SB_"), children).to_aml_bytes(&mut aml);
    // 7.4.2: the values for "off" for both control registers.
    let off = Package::new(vec![&OFF, &OFF, &ZERO, &ZERO]);
    Name::new(Path::new("_S5_"), &off).to_aml_bytes(&mut aml);
    let mut dsdt = Sdt::new(*b"DSDT", HEADER, 2, OEM, TABLE, REVISION);
    dsdt.append_slice(&aml);
    dsdt
}

/// Encoded AML.
struct Raw(Vec<u8>);

impl Aml for Raw {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        sink.vec(&self.0);
    }
}

fn device(name: &str, children: Vec<&dyn Aml>) -> Vec<u8> {
    let mut aml = Vec::new();
    Device::new(Path::new(name), children).to_aml_bytes(&mut aml);
    aml
}

fn named(name: &str, what: &dyn Aml) -> Name {
    Name::new(Path::new(name), what)
}

fn pci_root(description: &Description) -> Vec<u8> {
    let buses = AddressSpace::new_bus_number(0u16, description.last_bus.into());
    // The bridge owns the index and data ports, and does not forward them.
    let index = IO::new(0xcf8, 0xcf8, 1, 8);
    let low_ports = AddressSpace::new_io(0u16, 0xcf7, None);
    let ports = AddressSpace::new_io(0x1000u16, 0xffff, None);
    let uncached = AddressSpaceCacheable::NotCacheable;
    let (min, max) = PCI_MEMORY;
    let memory = AddressSpace::new_memory(uncached, true, min, max, None);
    let (min, max) = PCI_MEMORY_64;
    let more = AddressSpace::new_memory(uncached, true, min, max, None);
    let resources = ResourceTemplate::new(vec![&buses, &index, &low_ports, &ports, &memory, &more]);
    device(
        "PCI0",
        vec![
            &named("_HID", &EISAName::new("PNP0A08")),
            &named("_CID", &EISAName::new("PNP0A03")),
            &named("_SEG", &ZERO),
            &named("_BBN", &ZERO),
            &named("_UID", &ZERO),
            &named("_CRS", &resources),
        ],
    )
}

/// Returns the resources of the board itself. A kernel uses ECAM only where it is reserved (PCI
/// Firmware 3.3, 4.1.2).
fn board(description: &Description) -> Vec<u8> {
    let power = IO::new(PM_EVENT, PM_EVENT, 1, 6);
    let mut resources: Vec<&dyn Aml> = vec![&power];
    let ecam;
    if let Configuration::Ecam(base) = description.configuration {
        let size = (u32::from(description.last_bus) + 1) << 20;
        ecam = Memory32Fixed::new(true, base, size);
        resources.push(&ecam);
    }
    let resources = ResourceTemplate::new(resources);
    device(
        "BORD",
        vec![
            &named("_HID", &EISAName::new("PNP0C02")),
            &named("_UID", &ZERO),
            &named("_CRS", &resources),
        ],
    )
}

fn serial_by_ports() -> Vec<u8> {
    let ports = IO::new(COM1, COM1, 1, 8);
    let interrupt = Interrupt::new(true, true, false, false, IRQ);
    let resources = ResourceTemplate::new(vec![&ports, &interrupt]);
    device(
        "COM1",
        vec![
            &named("_HID", &EISAName::new("PNP0501")),
            &named("_UID", &ZERO),
            &named("_CRS", &resources),
        ],
    )
}

/// Describes the port for Linux's 8250_dw. No other driver reads the register distance of a
/// memory-mapped serial port from ACPI.
fn serial_in_memory(base: u32) -> Vec<u8> {
    let shift = STRIDE.trailing_zeros();
    let registers = Memory32Fixed::new(true, base, (UART_PAGES * STRIDE) as u32);
    let interrupt = Interrupt::new(true, false, false, false, IRQ);
    let resources = ResourceTemplate::new(vec![&registers, &interrupt]);
    // "Device Properties UUID For _DSD", version 2.0.
    let uuid = Uuid::new("daffd814-6eba-4d8c-8a91-bc9bbf4aa301");
    let shift = Package::new(vec![&"reg-shift", &shift]);
    let width = Package::new(vec![&"reg-io-width", &1u8]);
    let clock = Package::new(vec![&"clock-frequency", &1_843_200u32]);
    // The port lacks the DesignWare's own registers.
    let compatible = Package::new(vec![&"snps,uart-16550-compatible", &1u8]);
    let list = Package::new(vec![&shift, &width, &clock, &compatible]);
    let properties = Package::new(vec![&uuid, &list]);
    device(
        "UAR0",
        vec![
            &named("_HID", &"HISI0031"),
            &named("_UID", &ZERO),
            &named("_CRS", &resources),
            &named("_DSD", &properties),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8]) -> usize {
        let digits = bytes.iter().rev();
        digits.fold(0, |n, &byte| n << 8 | usize::from(byte))
    }

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, &byte| sum.wrapping_add(byte))
    }

    const START: u64 = 0xe_0000;

    /// Returns each table that is reachable from the RSDP, with its name.
    fn reached(description: &Description) -> Vec<(String, Vec<u8>)> {
        let (bytes, rsdp) = tables(description, START);
        assert!(bytes.len() < 0x2_0000, "below 1 MiB");
        let at = |address: usize| &bytes[address - START as usize..];
        let table = |address| {
            let table = at(address);
            let table = &table[..number(&table[4..8])];
            let name = String::from_utf8(table[..4].to_vec()).unwrap();
            (name, table.to_vec())
        };
        let rsdp = &at(rsdp as usize)[..36];
        assert_eq!((&rsdp[..8], sum(rsdp)), (&b"RSD PTR "[..], 0));
        let (_, xsdt) = table(number(&rsdp[24..32]));
        let mut all: Vec<_> = xsdt[36..].chunks(8).map(|at| table(number(at))).collect();
        let fadt = all[0].1.clone();
        all.push(table(number(&fadt[132..140])));
        all.push(table(number(&fadt[140..148])));
        all.push(("XSDT".to_owned(), xsdt));
        for (name, table) in all.iter().filter(|(name, _)| name != "FACS") {
            assert_eq!(sum(table), 0, "{name}");
        }
        all
    }

    fn names(description: &Description) -> Vec<String> {
        reached(description)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn every_table_is_reachable_and_sums_to_zero() {
        let by_ports = Description {
            serial: SerialLocation::Ports,
            configuration: Configuration::Ports,
            last_bus: 15,
            timer: TimerPin::Zero,
        };
        assert_eq!(names(&by_ports), ["FACP", "APIC", "FACS", "DSDT", "XSDT"]);
        let in_memory = Description {
            serial: SerialLocation::Memory(0xd000_0000),
            configuration: Configuration::Ecam(0xe000_0000),
            ..by_ports
        };
        assert_eq!(
            names(&in_memory),
            ["FACP", "APIC", "MCFG", "FACS", "DSDT", "XSDT"]
        );
        let mcfg = &reached(&in_memory)[2].1;
        assert_eq!(number(&mcfg[44..52]), 0xe000_0000);
        assert_eq!(mcfg[54..56], [0, 15]);
        // ACPI requires an alignment of 64 bytes.
        let (bytes, _) = tables(&in_memory, START);
        assert_eq!(&bytes[..4], b"FACS");
    }
}
