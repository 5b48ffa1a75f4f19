//! Records of machines: lspci's dumps, and the files of Linux's sysfs.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use nostall_pci::{
    AccessError, AccessWidth, Address, BridgeWindows, Capabilities, CapabilityFault, ConfigAccess,
    Function, Register, Scan,
};
use proptest::prelude::*;

use crate::lspci::functions::dump::{BadDump, Dump, LONGEST};
use crate::lspci::functions::sysfs::{NoDevices, Sysfs};

pub const MACHINES: [&str; 3] = ["nested", "pc", "roots"];

pub fn fixture(machine: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let path = path.join(machine).join(file);
    let bytes = fs::read(&path).unwrap();
    let mut text = String::new();
    match file.strip_suffix(".gz") {
        Some(_) => GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap(),
        None => (&*bytes).read_to_string(&mut text).unwrap(),
    };
    text
}

pub fn lspci(machine: &str) -> String {
    fixture(machine, "lspci-xxxx.txt.gz")
}

fn dump(text: &str) -> Dump {
    Dump::read(text.as_bytes()).unwrap()
}

fn at(text: &str) -> Address {
    text.parse().unwrap()
}

/// Returns all registers of a function.
fn registers(access: &impl ConfigAccess, address: Address) -> Vec<u8> {
    let bytes = (0..4096).map_while(|register| access.at(address).read8(register).ok());
    bytes.collect()
}

/// Writes the functions as files, in the layout of sysfs.
fn sysfs(functions: &BTreeMap<Address, Vec<u8>>) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (address, registers) in functions {
        let folder = root.path().join(address.to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("config"), registers).unwrap();
    }
    root
}

fn functions(dump: &Dump) -> BTreeMap<Address, Vec<u8>> {
    let one = |at: &Address| (*at, registers(dump, *at));
    dump.functions().iter().map(one).collect()
}

#[test]
fn a_dump_has_the_functions_that_lspci_finds_in_it() {
    for machine in MACHINES {
        let dump = dump(&lspci(machine));
        let truth = fixture(machine, "lspci-nn.txt");
        assert_eq!(dump.functions().len(), truth.lines().count());
        for (address, line) in dump.functions().iter().zip(truth.lines()) {
            assert_eq!(&address.to_string()[5..], &line[..7]);
            let function = Function::read(dump.at(*address)).unwrap().unwrap();
            let ids = format!("[{:04x}:{:04x}]", function.vendor, function.device);
            assert!(line.contains(&ids), "{line}: {ids}");
            assert!(line.contains(&format!(" [{}]: ", function.class)), "{line}");
        }
    }
}

/// Scans find buses behind bridges. They do not find another root bus.
#[test]
fn a_dump_can_be_scanned_like_a_machine() {
    for machine in MACHINES {
        let dump = dump(&lspci(machine));
        let found: Vec<_> = Scan::new(&dump, 0, 0..=255)
            .map(|function| function.unwrap().address)
            .collect();
        let from_bus_0 = dump.functions().iter().filter(|at| at.bus() < 0x40);
        assert!(from_bus_0.eq(&found), "{machine}: {found:?}");
    }
}

#[test]
fn a_copy_of_sysfs_reads_like_its_dump() {
    for machine in MACHINES {
        let dump = dump(&lspci(machine));
        let functions = functions(&dump);
        let root = sysfs(&functions);
        let files = Sysfs::open(root.path()).unwrap();
        assert_eq!(files.functions(), dump.functions());
        for (address, registers) in functions {
            assert!(matches!(registers.len(), 256 | 4096));
            for register in (0..4096).step_by(4) {
                let (a, b) = (
                    files.at(address).read32(register),
                    dump.at(address).read32(register),
                );
                assert_eq!(a, b, "{address} {register:#x}");
                let there = usize::from(register) < registers.len();
                assert_eq!(a.is_ok(), there);
                assert_eq!(files.reaches(address, register), there);
                assert_eq!(dump.reaches(address, register), there);
            }
            assert_eq!(files.at(address).read16(2), dump.at(address).read16(2));
            assert_eq!(files.at(address).read8(11), dump.at(address).read8(11));
        }
    }
}

fn refuses_invalid_accesses(access: &impl ConfigAccess, there: Address) {
    let absent = at("00:1e.7");
    assert!(access.reaches(absent, 0xffc));
    for (width, ones) in [
        (AccessWidth::Byte, 0xff),
        (AccessWidth::Word, 0xffff),
        (AccessWidth::Dword, 0xffff_ffff),
    ] {
        assert_eq!(
            access.read(absent, Register::new(0xffc, width).unwrap()),
            Ok(ones)
        );
    }
    for address in [absent, there] {
        let unaligned = AccessError::Unaligned {
            register: 2,
            width: AccessWidth::Dword,
        };
        assert_eq!(access.at(address).read32(2), Err(unaligned));
        assert_eq!(
            access.at(address).read8(4096),
            Err(AccessError::NoSuchRegister(4096))
        );
        assert!(!access.reaches(address, 4096));
        assert_eq!(access.at(address).write8(4, 0), Err(AccessError::ReadOnly));
        assert_eq!(access.at(address).write32(2, 0), Err(unaligned));
    }
}

#[test]
fn nothing_is_written_and_absent_functions_read_all_ones() {
    let dump = dump(&lspci("pc"));
    refuses_invalid_accesses(&dump, at("00:04.0"));
    let root = sysfs(&functions(&dump));
    refuses_invalid_accesses(&Sysfs::open(root.path()).unwrap(), at("00:04.0"));
}

#[test]
fn registers_that_lspci_did_not_print_are_not_recorded() {
    // The output of `lspci -x`.
    let text = lspci("nested");
    let digits = |line: &str| line.split(':').next().unwrap().len() == 2;
    let short: Vec<_> = text
        .lines()
        .filter(|line| line.contains('.') || line.is_empty() || digits(line) && *line < "40")
        .collect();
    let dump = dump(&short.join("\n"));
    let bridge = at("00:02.0");
    assert_eq!(registers(&dump, bridge).len(), 64);
    let error = dump.at(bridge).read32(0x40).unwrap_err();
    assert_eq!(error, AccessError::NotRecorded(0x40));
    assert_eq!(error.to_string(), "register 0x40 is not in this record");
    let function = Function::read(dump.at(bridge)).unwrap().unwrap();
    let mut capabilities = Capabilities::new(&dump, &function);
    let fault = CapabilityFault::Access(AccessError::NotRecorded(0x54));
    assert_eq!(capabilities.next(), Some(Err(fault)));
    assert_eq!(capabilities.next(), None);
}

const TWO: &str = "\
00:00.0 Host bridge: A vendor's
00: 86 80 c0 29 07 01 00 00 00 00 00 06 00 00 00 00
10: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f

01:02.3 Class ff00: Device 1234:5678
00: 34 12 78 56
";

fn assert_is_two(dump: &Dump) {
    let addresses = [at("00:00.0"), at("01:02.3")];
    assert_eq!(dump.functions(), addresses);
    assert_eq!(registers(dump, addresses[0]).len(), 32);
    assert_eq!(dump.at(addresses[0]).read32(0x18), Ok(0x0b0a_0908));
    assert_eq!(registers(dump, addresses[1]), [0x34, 0x12, 0x78, 0x56]);
}

#[test]
fn text_around_the_registers_does_not_matter() {
    let verbose = TWO.replace(
        "A vendor's\n",
        "A vendor's\n\tSubsystem: 10: 20\n\tCapabilities: [40] Vendor\n\t\t00: ff\n",
    );
    let indented = format!("$ lspci -xxxx\npcilib: 00: nothing\n{TWO}$ \n");
    let with_segment = TWO.replace("01:02.3", "0000:01:02.3");
    let long_segment = TWO.replace("01:02.3", "00000000:01:02.3");
    for text in [
        TWO.to_owned(),
        verbose,
        with_segment,
        long_segment,
        TWO.replace('\n', "\r\n"),
        TWO.trim_end().to_owned(),
    ] {
        assert_is_two(&dump(&text));
    }
    assert_is_two(&dump(&indented));
}

#[test]
fn registers_may_come_in_any_order() {
    let lines: Vec<_> = TWO.lines().collect();
    let text = [lines[0], lines[2], lines[1], "", lines[4], lines[5]].join("\n");
    assert_is_two(&dump(&text));
}

#[test]
fn what_a_damaged_dump_still_has_is_read() {
    let cut = TWO.replace("0e 0f\n", "0e 0f 1\n20: 0g\n");
    // The last of repeated functions counts.
    let again = TWO.replace("01:02.3", "00:00.0 first\n00: ff\n30: 01\n\n01:02.3");
    let again = format!("{again}\n{}", &TWO[..TWO.find("01:02.3").unwrap()]);
    let empty = format!("00:01.0 nothing known\n\n{TWO}\n00:01.1 nor of this one\n");
    for text in [&cut, &again, &empty] {
        assert_is_two(&dump(text));
    }
    // Registers without a function, and registers beyond the last.
    let stray = format!("20: 01\n\n{TWO}ff8: 01 02 03 04 05 06 07 08 09\n");
    let dump = dump(&stray);
    assert_eq!(dump.at(at("01:02.3")).read32(0xffc), Ok(0x0807_0605));
}

#[test]
fn a_text_that_is_not_a_dump_is_refused_with_the_reason() {
    let why = |text: &str| Dump::read(text.as_bytes()).unwrap_err().to_string();
    for text in ["", "\n", "{\"a\": 1}", "00: 01 02\n", "hello 00:00.0\n"] {
        assert!(why(text).starts_with("not a dump"), "{text}");
    }
    let named = "00:00.0 Host bridge\n00:01.0 Another\n";
    assert!(why(named).contains("use lspci -xxxx"));
    assert!(matches!(
        Dump::read(BufReader::new(Failing)),
        Err(BadDump::Io(_))
    ));
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("no"))
    }
}

#[test]
fn an_endless_text_is_refused() {
    let text = TWO.as_bytes().chain(io::repeat(b'x'));
    let refused = Dump::read(BufReader::new(text)).unwrap_err();
    assert!(matches!(refused, BadDump::TooLong));
    let just = TWO.as_bytes().chain(io::repeat(b'x'));
    assert_is_two(&Dump::read(BufReader::new(just.take(LONGEST))).unwrap());
}

#[test]
fn a_list_that_loops_ends() {
    let mut functions = functions(&dump(&lspci("nested")));
    let bridge = functions.get_mut(&at("00:02.0")).unwrap();
    // The list is 0x54, 0x48, 0x40; the extended one is 0x100, 0x148.
    bridge[0x41] = 0x54;
    bridge[0x14b] = 0x10;
    let dump = dump(&write(&functions, false));
    let function = Function::read(dump.at(at("00:02.0"))).unwrap().unwrap();
    let list: Vec<_> = Capabilities::new(&dump, &function).collect();
    assert_eq!(list.len(), 4);
    assert_eq!(list[3], Err(CapabilityFault::Loop(0x54)));
    let list = nostall_pci::ExtendedCapabilities::new(&dump, &function);
    assert_eq!(list.last(), Some(Err(CapabilityFault::Loop(0x100))));
}

/// Prints the functions as `lspci -xxxx` does.
fn write(functions: &BTreeMap<Address, Vec<u8>>, backwards: bool) -> String {
    let mut text = String::new();
    for (address, registers) in functions {
        writeln!(text, "{address} Device").unwrap();
        let mut lines: Vec<_> = registers.chunks(16).zip((0..).step_by(16)).collect();
        if backwards {
            lines.reverse();
        }
        for (line, offset) in lines {
            write!(text, "{offset:02x}:").unwrap();
            for byte in line {
                write!(text, " {byte:02x}").unwrap();
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

proptest! {
    #[test]
    fn registers_are_read_as_they_were_written(
        functions in prop::collection::btree_map(
            (any::<u32>(), any::<u8>(), any::<u8>()),
            prop::collection::vec(any::<u8>(), 1..300),
            1..6,
        ),
        backwards: bool,
    ) {
        let functions = functions.into_iter().map(|((segment, bus, devfn), registers)| {
            (Address::from_devfn(segment, bus, devfn), registers)
        });
        let functions: BTreeMap<_, _> = functions.collect();
        let dump = dump(&write(&functions, backwards));
        prop_assert!(functions.keys().eq(dump.functions()));
        for (address, expected) in functions {
            prop_assert_eq!(registers(&dump, address), expected);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "([0-9a-f]{1,6}:?[ .\r\n]|00:00.0 a\n|[0-9a-f]{2}:( [0-9a-fx]{1,3}){1,20}\n)*") {
        if let Ok(dump) = Dump::read(text.as_bytes()) {
            for address in dump.functions() {
                let _ = Function::read(dump.at(*address));
            }
        }
    }
}

#[test]
fn a_bridges_windows_equal_those_of_linux() {
    let mut bridges = 0;
    for machine in MACHINES {
        let dump = dump(&lspci(machine));
        let root = with_resources(machine, &dump);
        for function in dump.functions() {
            let function = Function::read(dump.at(*function)).unwrap().unwrap();
            let windows = BridgeWindows::read(&dump, &function).unwrap();
            // The windows are in line 14 and later, if Linux lists them.
            let file = root.path().join(function.address.to_string());
            let text = fs::read_to_string(file.join("resource")).unwrap();
            let linux: Vec<_> = text.lines().skip(13).map(range).collect();
            let ours = [windows.io, windows.memory, windows.prefetchable];
            for (ours, linux) in ours.into_iter().zip(linux) {
                assert_eq!(ours.map(std::ops::RangeInclusive::into_inner), linux);
                bridges += 1;
            }
        }
    }
    assert_eq!(bridges, 3 * 12);
}

fn range(line: &str) -> Option<(u64, u64)> {
    let number = |text: &str| u64::from_str_radix(&text[2..], 16).unwrap();
    let mut numbers = line.split(' ').map(number);
    let range = (numbers.next()?, numbers.next()?);
    (numbers.next()? != 0).then_some(range)
}

fn with_resources(machine: &str, dump: &Dump) -> tempfile::TempDir {
    let root = sysfs(&functions(dump));
    for one in fixture(machine, "resource.txt.gz").split_terminator("\n\n") {
        let (name, lines) = one.split_once('\n').unwrap();
        let file = root.path().join(name).join("resource");
        fs::write(file, format!("{lines}\n")).unwrap();
    }
    root
}

#[test]
fn entries_without_an_address_are_left_out() {
    let root = sysfs(&functions(&dump(TWO)));
    fs::create_dir(root.path().join("100000000:e1:00.0")).unwrap();
    // Possible names in a copy.
    let (long, short) = ("0000:01:02.3", "01:02.3");
    fs::rename(root.path().join(long), root.path().join(short)).unwrap();
    let sysfs = Sysfs::open(root.path()).unwrap();
    assert_eq!(sysfs.functions(), [at("00:00.0"), at(short)]);
    assert_eq!(sysfs.at(at(short)).read32(0), Ok(0x5678_1234));
}

#[test]
fn folders_without_devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let opened = Sysfs::open(folder.path());
    assert!(matches!(opened, Err(NoDevices::Empty(_))));
    let missing: PathBuf = folder.path().join("missing");
    let opened = Sysfs::open(&missing);
    assert!(matches!(opened, Err(NoDevices::Io(path, _)) if path == missing));
}

#[test]
fn a_function_that_vanishes_reads_all_ones_and_an_unreadable_file_fails() {
    let root = sysfs(&functions(&dump(TWO)));
    let sysfs = Sysfs::open(root.path()).unwrap();
    let (one, other) = (at("00:00.0"), at("01:02.3"));
    let config = |at: Address| root.path().join(at.to_string()).join("config");
    fs::remove_file(config(one)).unwrap();
    assert_eq!(sysfs.at(one).read32(0), Ok(!0));
    assert_eq!(Function::read(sysfs.at(one)), Ok(None));
    fs::remove_file(config(other)).unwrap();
    fs::create_dir(config(other)).unwrap();
    assert_eq!(sysfs.at(other).read32(0), Err(AccessError::Failed));
    assert!(!sysfs.reaches(other, 0));
}

#[test]
fn a_virtual_function_has_the_name_that_linux_gives_it() {
    let vf = at("00:10.0");
    let mut registers = vec![0; 256];
    registers[..4].fill(0xff);
    registers[0x0b] = 0x02;
    let root = sysfs(&BTreeMap::from([(vf, registers)]));
    let folder = root.path().join(vf.to_string());
    for (name, text) in [("vendor", "0x8086\n"), ("device", "0x10ca\n")] {
        fs::write(folder.join(name), text).unwrap();
    }
    let sysfs = Sysfs::open(root.path()).unwrap();
    // In a scan, a virtual function appears absent.
    assert_eq!(Function::read(sysfs.at(vf)), Ok(None));
    // An entry of a list is found.
    let listed = Function::read_listed(sysfs.at(vf)).unwrap().unwrap();
    assert_eq!((listed.vendor, listed.class.base()), (0xffff, 0x02));
    std::os::unix::fs::symlink("../0000:00:01.0", folder.join("physfn")).unwrap();
    assert_eq!(sysfs.at(vf).read32(0), Ok(0x10ca_8086));
    assert_eq!(sysfs.at(vf).read16(2), Ok(0x10ca));
    assert_eq!(sysfs.at(vf).read8(1), Ok(0x80));
    let function = Function::read(sysfs.at(vf)).unwrap().unwrap();
    assert_eq!((function.vendor, function.device), (0x8086, 0x10ca));
}

/// Some listings give all ones as the numbers of a virtual function, as its registers read.
#[test]
fn all_ones_in_the_line_of_a_virtual_function_are_not_its_numbers() {
    let device = "\
00: 34 12 78 56 06 01 10 00 02 00 00 02 00 00 00 00
10: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
30: 00 00 00 00 40 00 00 00 00 00 00 00 00 00 00 00
";
    let sriov = "\
40: 10 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00
100: 10 00 01 00 00 00 00 00 01 00 00 00 08 00 08 00
110: 01 00 00 00 80 00 01 00 00 00 ca 10 00 00 00 00
";
    let registers = device.replace("34 12 78 56", "ff ff ff ff");
    for name in [
        "Ethernet controller [0200]: Illegal Vendor ID Device [ffff:ffff] (rev 01)",
        "0200: ffff:ffff (rev 01)",
        "0200: ffff:10ed",
        "virtual",
    ] {
        let text = format!("01:00.0 physical\n{device}{sriov}\n01:10.0 {name}\n{registers}\n");
        assert_eq!(
            dump(&text).at(at("01:10.0")).read32(0),
            Ok(0x10ca_1234),
            "{name}"
        );
    }
}
