//! Names and offsets, compared with Linux's output.
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use nostall_postmortem::symbols::{Error, Symbols, kernel_offset};
use proptest::prelude::*;

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../drivers/pstore/tests/fixtures")
        .join(path)
}

/// A line of Linux's `ftrace-ramoops-0`: `CPU:0 ts:1 c02e58c8  c02e5e10  name <-
/// name+0x30/0xdc`.
struct Line {
    ip: u64,
    parent: u64,
    ip_name: String,
    parent_name: String,
}

fn lines(folder: &str) -> Vec<Line> {
    let text = fs::read(fixture(folder).join("pstore/ftrace-ramoops-0")).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let ["CPU", _] = words.first()?.split(':').collect::<Vec<_>>()[..] else {
            return None;
        };
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        Some(Line {
            ip: hex(words.get(2)?)?,
            parent: hex(words.get(3)?)?,
            ip_name: words.get(4)?.to_string(),
            parent_name: words.get(6)?.to_string(),
        })
    };
    text.lines().filter_map(line).collect()
}

fn ips(folder: &str) -> Vec<u64> {
    lines(folder).iter().map(|line| line.ip).collect()
}

/// Checks every line. Returns the number of distinct addresses with a name.
fn names_are_linuxs(folder: &str) -> usize {
    let symbols = Symbols::load(fixture("System.map-armv7.gz")).unwrap();
    let mut named = BTreeSet::new();
    for line in lines(folder) {
        let ip = symbols.lookup(line.ip);
        let parent = symbols.lookup(line.parent);
        let ip_name = ip.map_or(format!("0x{:x}", line.ip), |symbol| symbol.name.to_owned());
        let parent_name =
            parent.map_or(format!("0x{:x}", line.parent), |symbol| symbol.to_string());
        assert_eq!(
            (ip_name, parent_name),
            (line.ip_name, line.parent_name),
            "{:x} {:x}",
            line.ip,
            line.parent
        );
        named.extend(
            ip.map(|_| line.ip)
                .into_iter()
                .chain(parent.map(|_| line.parent)),
        );
    }
    named.len()
}

#[test]
fn every_address_has_the_name_offset_and_size_that_linux_printed() {
    assert_eq!(lines("armv7").len(), 2046);
    assert_eq!(names_are_linuxs("armv7"), 808);
}

#[test]
fn an_address_that_linux_could_not_name_has_no_name() {
    assert_eq!(lines("armv7-ecc").len(), 1815);
    assert_eq!(names_are_linuxs("armv7-ecc"), 0);
}

#[test]
fn a_trace_reveals_the_kernels_offset() {
    let symbols = Symbols::load(fixture("System.map.gz")).unwrap();
    let dmesg = fs::read(fixture("plain/pstore/dmesg-ramoops-0")).unwrap();
    let said = kernel_offset(&dmesg).unwrap();
    let solved = symbols.solve_offset(ips("plain")).unwrap();
    assert_eq!(
        (said, solved.offset, solved.score),
        (0x1e80_0000, said, solved.addresses)
    );
    assert_eq!(solved.candidates, 512);

    let solved = symbols.solve_offset(ips("wrap")).unwrap();
    assert_eq!(
        (solved.offset, solved.score, solved.runner_up),
        (0x2780_0000, 73, 6)
    );
    let found = symbols.with_offset(solved.offset);
    assert!(lines("wrap").iter().all(|line| {
        found
            .lookup(line.ip)
            .is_some_and(|symbol| symbol.offset == 0)
    }));
}

#[test]
fn the_table_of_another_kernel_yields_no_offset() {
    let other = shuffled_map();
    let symbols = Symbols::parse(other.as_bytes()).unwrap();
    assert_eq!(symbols.solve_offset(ips("plain")), None);
    assert_eq!(symbols.solve_offset([]), None);
    let symbols = Symbols::load(fixture("System.map.gz")).unwrap();
    assert_eq!(symbols.solve_offset(ips("armv7")), None);
    let elsewhere = ips("plain").into_iter().map(|ip| ip + 16);
    assert_eq!(symbols.solve_offset(elsewhere), None);
}

/// Returns a map with as many functions and as much code as the real one, at other addresses.
fn shuffled_map() -> String {
    let mut map = String::from("ffffffff81000000 T _stext\nffffffff81800bd0 T _etext\n");
    let mut at = 0xffff_ffff_8100_0000u64;
    for number in 0..16_000u64 {
        at += 16 + (number * 7919 % 63) * 16;
        map += &format!("{at:x} t f{number}\n");
    }
    map
}

#[test]
fn kallsyms_of_a_running_kernel_names_modules() {
    let text = b"c0100000 T _stext\nc0100010 T f\nc0100100 T _etext\nc0100200 d data\n\
        bf000000 t init\t[one]\nbf000040 t exit\t[one]\nbf001000 t other\t[two]\n";
    let symbols = Symbols::parse(text).unwrap();
    let name = |address| symbols.lookup(address).map(|symbol| symbol.to_string());
    assert_eq!(name(0xbf00_0004).as_deref(), Some("init+0x4/0x40 [one]"));
    // The end of a module's last function is unknown, so the end of its page is used.
    assert_eq!(name(0xbf00_0048).as_deref(), Some("exit+0x8/0xfc0 [one]"));
    assert_eq!(name(0xbf00_2000), None);
    assert_eq!(name(0xc010_00ff).as_deref(), Some("f+0xef/0xf0"));
    assert_eq!(name(0xc010_0100), None);
    assert_eq!(name(0xc010_0200), None);
}

#[test]
fn the_name_that_kallsyms_prefers_wins() {
    let name = |names: &str| {
        let text = format!(
            "10 T _stext\n20 {}\n30 T _etext\n",
            names.replace(',', "\n20 ")
        );
        Symbols::parse(text.as_bytes())
            .unwrap()
            .lookup(0x24)
            .unwrap()
            .name
            .to_owned()
    };
    assert_eq!(name("W weak,T __strong"), "__strong");
    assert_eq!(name("T __x_start,T ____x"), "____x");
    assert_eq!(name("T __do_x,T do_x,T x"), "do_x");
    assert_eq!(name("t a,T b"), "a");
    assert_eq!(name("A absolute,T x"), "x");
    assert_eq!(name("t $a,t x"), "x");
}

#[test]
fn a_file_that_is_no_table_is_refused_with_an_alternative() {
    assert!(matches!(Symbols::parse(b""), Err(Error::NoTable)));
    assert!(matches!(
        Symbols::parse(b"hello\nworld\n"),
        Err(Error::NoTable)
    ));
    assert!(matches!(
        Symbols::parse(b"0 T a\n0 t b\n"),
        Err(Error::Hidden)
    ));
    assert!(matches!(
        Symbols::parse(b"\x1f\x8b\x08"),
        Err(Error::Damaged(_))
    ));
    assert!(matches!(Symbols::parse(b"\x7fELF"), Err(Error::Damaged(_))));
    assert!(matches!(Symbols::parse(b"\xfd7zXZ\0"), Err(Error::File(_))));
    assert!(Symbols::load(fixture("no such file")).is_err());
}

/// Returns a 32-bit ARM executable: 0x100 bytes of code at 0x8000, and these symbols (name,
/// value, info, section).
fn arm_elf(symbols: &[(&str, u32, u8, u16)]) -> Vec<u8> {
    let mut names = vec![0];
    let mut symtab = vec![0; 16];
    for (name, value, info, section) in symbols {
        for word in [names.len() as u32, *value, 0] {
            symtab.extend(word.to_le_bytes());
        }
        symtab.extend([*info, 0]);
        symtab.extend(section.to_le_bytes());
        names.extend(name.bytes().chain([0]));
    }
    let (symtab_at, names_at) = (52, 52 + symtab.len() as u32);
    let sections_at = names_at + names.len() as u32;
    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x28\0".to_vec();
    for word in [1, 0, 0, sections_at, 0, 52, 0x0028_0000, 0x0002_0004] {
        elf.extend(u32::to_le_bytes(word));
    }
    assert_eq!(elf.len(), 52);
    elf.extend(&symtab);
    elf.extend(&names);
    let sections: [[u32; 10]; 4] = [
        [0; 10],
        // NOBITS is enough, because the code is never read.
        [0, 8, 6, 0x8000, 0, 0x100, 0, 0, 4, 0],
        [0, 3, 0, 0, names_at, names.len() as u32, 0, 0, 1, 0],
        [0, 2, 0, 0, symtab_at, symtab.len() as u32, 2, 1, 4, 16],
    ];
    elf.extend(
        sections
            .as_flattened()
            .iter()
            .flat_map(|word| word.to_le_bytes()),
    );
    elf
}

#[test]
fn an_elf_file_names_its_functions_and_thumb_code_has_even_addresses() {
    const FUNC: u8 = 0x12;
    const WEAK: u8 = 0x22;
    let elf = arm_elf(&[
        ("$t", 0x8000, 0, 1),
        ("last", 0x8081, FUNC, 1),
        ("weak", 0x8001, WEAK, 1),
        ("__first", 0x8001, FUNC, 1),
        ("undefined", 0x8010, FUNC, 0),
        ("absolute", 0x8020, 0x10, 0xfff1),
    ]);
    let symbols = Symbols::parse(&elf).unwrap();
    let name = |address| symbols.lookup(address).map(|symbol| symbol.to_string());
    assert_eq!(name(0x8024).as_deref(), Some("__first+0x24/0x80"));
    // The function ends with its section.
    assert_eq!(name(0x80ff).as_deref(), Some("last+0x7f/0x80"));
    assert_eq!(name(0x8100), None);
    assert_eq!(name(0x7fff), None);
    assert!(matches!(
        Symbols::parse(&arm_elf(&[])),
        Err(Error::Stripped)
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_handled(
        head in prop::sample::select(vec![&b""[..], b"\x7fELF\x02\x01\x01", b"\x7fELF\x01\x02\x01", b"\x1f\x8b\x08"]),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        address: u64,
    ) {
        if let Ok(symbols) = Symbols::parse(&[head, &bytes].concat()) {
            symbols.lookup(address);
        }
    }

    #[test]
    fn any_table_is_handled(lines in prop::collection::vec("[0-9a-f]{1,3} [TtWwAdU] (_{0,3}[a-c]{1,2}|_stext|_etext|_sinittext|_einittext)( \\[[mn]\\])?", 0..30), address in 0..0x1100u64) {
        if let Ok(symbols) = Symbols::parse(lines.join("\n").as_bytes()) {
            if let Some(symbol) = symbols.lookup(address) {
                prop_assert!(symbol.offset < symbol.size);
            }
            symbols.solve_offset([address]);
        }
    }
}
