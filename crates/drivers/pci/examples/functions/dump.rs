//! Registers of a machine in lspci's output format.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::mem;

use nostall_pci::registers::{SR_IOV_FIRST_VF, SR_IOV_VF_DEVICE, SR_IOV_VF_STRIDE, SR_IOV_VFS};
use nostall_pci::{
    AccessError, Address, ConfigAccess, ExtendedCapabilities, ExtendedCapability, Function,
    REGISTERS, Register,
};
use thiserror::Error;

/// Largest number of bytes to read. A dump of a thousand functions with all registers has 14 MB.
pub const LONGEST: u64 = 64 << 20;

/// Number of registers in a line of lspci's output.
const LINE: u16 = 16;

/// Functions of a machine in the output of `lspci -x`, `-xxx` or `-xxxx`, with or without `-D` and
/// `-v`.
///
/// A line that begins with an address starts a function, and an empty line ends it. Lines of
/// hexadecimal numbers between them are its registers, in any order. All other text is ignored. The
/// dump is read-only. A function that is not in it reads all ones. A register that is missing from
/// a function returns [`AccessError::NotRecorded`].
///
/// A virtual function's own Vendor ID and Device ID read all ones (PCI Express Base, 9.3.4.1.1).
/// They are taken from the numbers in its first line (`lspci -nn`, `-n`), or from its physical
/// function's capability. Without either they stay all ones, and [`Function::read_listed`] still
/// finds the function.
///
/// Memory use is a few times that of the text, of which at most [`LONGEST`] bytes are read.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    functions: Vec<Address>,
    lines: BTreeMap<(Address, u16), Registers>,
    /// Vendor and device from the functions' own lines or from their physical functions.
    told: BTreeMap<Address, [u8; 4]>,
}

/// Sixteen registers, with a bit for each known one.
#[derive(Clone, Copy, Debug, Default)]
struct Registers {
    values: [u8; LINE as usize],
    known: u16,
}

impl Dump {
    /// Reads a dump.
    ///
    /// # Errors
    ///
    /// [`BadDump`] if the text has no registers of any function, if it is longer than [`LONGEST`],
    /// or if the reader fails.
    pub fn read(text: impl BufRead) -> Result<Self, BadDump> {
        let mut text = text.take(LONGEST + 1);
        let mut reader = Reader::default();
        let mut line = Vec::new();
        while text.read_until(b'\n', &mut line)? > 0 {
            reader.line(line.trim_ascii_end());
            line.clear();
        }
        if text.limit() == 0 {
            return Err(BadDump::TooLong);
        }
        reader.finish()
    }

    /// Returns the functions with registers, in order.
    pub fn functions(&self) -> &[Address] {
        &self.functions
    }

    fn byte(&self, address: Address, register: u16) -> Option<u8> {
        let line = self.lines.get(&(address, register / LINE))?;
        let at = register % LINE;
        (line.known & 1 << at != 0).then(|| line.values[usize::from(at)])
    }

    fn has(&self, address: Address) -> bool {
        self.functions.binary_search(&address).is_ok()
    }

    fn is_virtual(&self, address: Address) -> bool {
        (0..4).all(|register| self.byte(address, register) == Some(0xff))
    }

    /// Keeps the known IDs of virtual functions only, and adds those that no line has.
    fn with_virtual_functions(mut self) -> Self {
        let mut told = mem::take(&mut self.told);
        told.retain(|address, _| self.is_virtual(*address));
        let is_nameless = |address: &&Address| self.is_virtual(**address);
        let nameless: Vec<_> = self.functions.iter().filter(is_nameless).copied().collect();
        for physical in &self.functions {
            let segment = physical.segment();
            let first = nameless.partition_point(|address| address.segment() < segment);
            let in_segment = |address: &&Address| address.segment() == segment;
            let mut beside = nameless[first..].iter().take_while(in_segment).peekable();
            if beside.peek().is_none() {
                continue;
            }
            let Ok(Some(function)) = Function::read(self.at(*physical)) else {
                continue;
            };
            let capabilities = ExtendedCapabilities::new(&self, &function);
            let Some(at) = capabilities.find(ExtendedCapability::SR_IOV) else {
                continue;
            };
            let field = |register| {
                self.at(*physical)
                    .read16(at.register + register)
                    .unwrap_or(0)
            };
            let [vendor, device] = [function.vendor, field(SR_IOV_VF_DEVICE)].map(u16::to_le_bytes);
            let ids = [vendor[0], vendor[1], device[0], device[1]];
            let start = routing_id(*physical).wrapping_add(field(SR_IOV_FIRST_VF));
            let (stride, count) = (field(SR_IOV_VF_STRIDE), field(SR_IOV_VFS));
            for address in beside {
                // A capability can claim 65,535 functions, so the dump's functions are checked
                // instead.
                let distance = routing_id(*address).wrapping_sub(start);
                let number = match distance.checked_rem(stride) {
                    Some(0) => distance / stride,
                    None if distance == 0 => 0,
                    _ => continue,
                };
                if number < count {
                    told.entry(*address).or_insert(ids);
                }
            }
        }
        self.told = told;
        self
    }
}

impl ConfigAccess for Dump {
    fn reaches(&self, address: Address, register: u16) -> bool {
        register < REGISTERS && (!self.has(address) || self.byte(address, register).is_some())
    }

    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        let (number, width) = (register.number(), register.width());
        if !self.has(address) {
            return Ok(width.all_ones());
        }
        let mut bytes = [0; 4];
        for (byte, register) in bytes.iter_mut().zip(number..number + width.bytes()) {
            *byte = self
                .byte(address, register)
                .ok_or(AccessError::NotRecorded(register))?;
        }
        let read = &mut bytes[..width.bytes().into()];
        put_virtual_id(number, read, || self.told.get(&address).copied());
        Ok(u32::from_le_bytes(bytes))
    }

    fn write(&self, _: Address, _: Register, _: u32) -> Result<(), AccessError> {
        Err(AccessError::ReadOnly)
    }
}

/// Replaces all ones in `read`, a virtual function's registers from `register`, with its known IDs.
pub fn put_virtual_id(register: u16, read: &mut [u8], known: impl FnOnce() -> Option<[u8; 4]>) {
    let first = usize::from(register);
    if first + read.len() <= 4
        && read.iter().all(|byte| *byte == 0xff)
        && let Some(ids) = known()
    {
        read.copy_from_slice(&ids[first..first + read.len()]);
    }
}

#[derive(Debug, Default)]
struct Reader {
    dump: Dump,
    /// Function of the next registers.
    current: Option<Address>,
    /// Functions that had their line, and whether they have registers.
    named: BTreeMap<Address, bool>,
}

impl Reader {
    fn line(&mut self, line: &[u8]) {
        if line.is_empty() {
            self.current = None;
            return;
        }
        let (word, rest) = match line.iter().position(|byte| *byte == b' ') {
            Some(at) => (&line[..at], &line[at..]),
            None => (line, &line[line.len()..]),
        };
        if let Some(offset) = offset(word) {
            self.registers(offset, rest);
        } else if let Ok(address) = str::from_utf8(word).unwrap_or_default().parse() {
            self.function(address, numbers(rest));
        }
    }

    fn function(&mut self, address: Address, numbers: Option<[u8; 4]>) {
        self.current = Some(address);
        self.dump.told.remove(&address);
        self.dump.told.extend(numbers.map(|ids| (address, ids)));
        if self.named.insert(address, false).is_some() {
            let lines = self.dump.lines.range((address, 0)..=(address, u16::MAX));
            let lines: Vec<_> = lines.map(|(line, _)| *line).collect();
            for line in lines {
                self.dump.lines.remove(&line);
            }
        }
    }

    fn registers(&mut self, offset: u16, numbers: &[u8]) {
        let Some(address) = self.current else {
            return;
        };
        let numbers = numbers.split(|byte| *byte == b' ').skip(1);
        for (register, number) in (offset..).zip(numbers) {
            let Some(value) = byte(number) else {
                return;
            };
            if register >= REGISTERS {
                return;
            }
            let line = self.dump.lines.entry((address, register / LINE));
            let line = line.or_default();
            line.values[usize::from(register % LINE)] = value;
            line.known |= 1 << (register % LINE);
            self.named.insert(address, true);
        }
    }

    fn finish(mut self) -> Result<Dump, BadDump> {
        let with_registers = self.named.iter().filter(|(_, has)| **has);
        self.dump.functions = with_registers.map(|(address, _)| *address).collect();
        match (self.named.len(), self.dump.functions.len()) {
            (0, _) => Err(BadDump::NotOne),
            (_, 0) => Err(BadDump::NoRegisters),
            _ => Ok(self.dump.with_virtual_functions()),
        }
    }
}

/// Returns bus, device and function as one number.
fn routing_id(address: Address) -> u16 {
    u16::from_be_bytes([address.bus(), address.devfn()])
}

/// Parses `00:` to `ff:` and `100:` to `fff:`.
fn offset(word: &[u8]) -> Option<u16> {
    let digits = word.strip_suffix(b":")?;
    matches!(digits.len(), 2 | 3).then(|| hex(digits)).flatten()
}

fn byte(word: &[u8]) -> Option<u8> {
    (word.len() == 2)
        .then(|| hex(word))
        .flatten()?
        .try_into()
        .ok()
}

/// Parses up to four digits.
fn hex(digits: &[u8]) -> Option<u16> {
    let mut digits = digits.iter();
    digits.try_fold(0u16, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | digit as u16)
    })
}

/// Returns vendor and device from a function's first line: the last `[8086:10ca]` or `8086:10ca`.
/// All ones are no vendor (PCI Local Bus 3.0, 6.2.1).
fn numbers(line: &[u8]) -> Option<[u8; 4]> {
    let mut words = line.rsplit(|byte| b" []".contains(byte));
    words
        .find_map(ids)
        .filter(|ids| !ids.starts_with(&[0xff, 0xff]))
}

fn ids(word: &[u8]) -> Option<[u8; 4]> {
    let &[a, b, c, d, b':', e, f, g, h] = word else {
        return None;
    };
    let [vendor, device] = [hex(&[a, b, c, d])?, hex(&[e, f, g, h])?].map(u16::to_le_bytes);
    Some([vendor[0], vendor[1], device[0], device[1]])
}

/// Reason for which a dump cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BadDump {
    /// The text could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The text is longer than [`LONGEST`].
    #[error("longer than {} MiB: no dump of lspci's", LONGEST >> 20)]
    TooLong,
    /// No line begins with a function's address.
    #[error("not a dump of lspci's: no line begins with an address such as 00:1f.2")]
    NotOne,
    /// Functions are listed, but without registers.
    #[error("functions are named, but without registers: use lspci -xxxx")]
    NoRegisters,
}
