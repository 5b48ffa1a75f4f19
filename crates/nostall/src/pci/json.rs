//! A device for programs: stable words (`nostall pci list --help` has them). The output for people
//! starts from here, too.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::Result;
use nostall_pci::sysfs::Resources;
use nostall_pci::{
    Address, Bar, BarKind, BridgeWindows, Buses, Capabilities, Capability, Class, ConfigAccess,
    Express, ExtendedCapabilities, ExtendedCapability, Function, Header, Names, PortType,
    WrongPort, bars_as_set, registers,
};
use serde::{Serialize, Serializer};

use super::source::Source;
use crate::escape::json_document;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    source: From<'a>,
    devices: &'a [Device],
}

#[derive(Serialize)]
struct From<'a> {
    kind: &'a str,
    name: &'a str,
}

/// One object, with a line's end.
pub fn document(source: &Source, devices: &[Device]) -> Result<String> {
    let name = source.name();
    let document = Document {
        schema: 1,
        source: From {
            kind: source.kind(),
            name: &name,
        },
        devices,
    };
    Ok(json_document(&document)?)
}

/// A function that is there: one of the `devices` in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    #[serde(serialize_with = "as_text")]
    pub address: Address,
    pub vendor: Id,
    pub device: Id,
    pub vendor_name: Option<String>,
    pub device_name: Option<String>,
    #[serde(serialize_with = "class")]
    pub class: Class,
    /// Of the sub-class, or else of the class.
    pub class_name: Option<String>,
    pub interface_name: Option<String>,
    pub revision: Byte,
    pub header: &'static str,
    pub multi_function: bool,
    pub interrupt: Option<Interrupt>,
    pub subsystem: Option<Subsystem>,
    /// Its role in the tree of PCI Express.
    #[serde(serialize_with = "port")]
    pub port: Option<PortType>,
    #[serde(serialize_with = "buses")]
    pub buses: Option<Buses>,
    pub windows: Vec<JsonWindow>,
    pub bars: Vec<BaseAddress>,
    pub capabilities: Vec<Listed>,
    /// Its problems, each in a line for the user.
    pub problems: Vec<String>,
}

/// Four hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub u16);

/// Two hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Byte(pub u8);

/// A register or a bus address: `0xfe200000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// A to D.
    pub pin: char,
    pub line: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subsystem {
    pub vendor: Id,
    pub device: Id,
    pub vendor_name: Option<String>,
    pub name: Option<String>,
}

/// Window of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JsonWindow {
    pub kind: &'static str,
    pub first: At,
    pub last: At,
}

/// A BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BaseAddress {
    pub register: At,
    pub kind: &'static str,
    pub bits: u8,
    pub address: At,
    pub size: Option<u64>,
}

/// A capability, extended or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    pub id: Id,
    pub extended: bool,
    pub name: Option<&'static str>,
    pub register: At,
    pub version: Option<u8>,
}

impl Device {
    /// Reads all of `function` that can be read without writing; sizes of BARs if the system has
    /// them.
    pub fn read<A: ConfigAccess + ?Sized>(
        access: &A,
        function: &Function,
        resources: Option<&Resources>,
        names: &Names,
    ) -> Self {
        let mut device = Self::new(function, names);
        device.add_windows(access, function);
        match bars_as_set(access, function) {
            Ok(bars) => {
                for bar in bars.iter() {
                    let sized = bar.map(|mut bar| {
                        bar.size = bar.size.or_else(|| known_size(&bar, resources?));
                        bar
                    });
                    match sized {
                        Ok(bar) => device.bars.push(BaseAddress::of(&bar)),
                        Err(fault) => device.problems.push(fault.to_string()),
                    }
                }
            }
            Err(error) => device.problems.push(format!("BARs: {error}")),
        }
        device.add_capabilities(access, function, names);
        device
    }

    /// Returns the header's fields, without windows, BARs and capabilities.
    pub fn new(function: &Function, names: &Names) -> Self {
        let Function { vendor, device, .. } = *function;
        let class = function.class;
        let (base, sub, interface) = (class.base(), class.sub(), class.interface());
        let class_name = names.subclass(base, sub).or_else(|| names.class(base));
        let interface_name = names.interface(base, sub, interface);
        let pins = ['A', 'B', 'C', 'D'];
        let pin = function.interrupt.pin.checked_sub(1);
        let pin = pin.and_then(|pin| pins.get(usize::from(pin)));
        Self {
            address: function.address,
            vendor: Id(vendor),
            device: Id(device),
            vendor_name: names.vendor(vendor).map(Into::into),
            device_name: names.device(vendor, device).map(Into::into),
            class,
            class_name: class_name.map(Into::into),
            interface_name: interface_name.map(Into::into),
            revision: Byte(function.revision),
            header: match function.header {
                Header::Endpoint(_) => "endpoint",
                Header::Bridge(_) => "bridge",
                Header::CardBus { .. } => "cardbus",
                _ => "unknown",
            },
            multi_function: function.multi_function,
            interrupt: pin.map(|pin| Interrupt {
                pin: *pin,
                line: function.interrupt.line,
            }),
            subsystem: function
                .subsystem()
                .filter(|it| it.vendor != 0 || it.device != 0)
                .map(|it| Subsystem::of((vendor, device), (it.vendor, it.device), names)),
            port: None,
            buses: function.buses(),
            windows: Vec::new(),
            bars: Vec::new(),
            capabilities: Vec::new(),
            problems: problems(function),
        }
    }

    fn add_windows<A: ConfigAccess + ?Sized>(&mut self, access: &A, function: &Function) {
        match BridgeWindows::read(access, function) {
            Ok(windows) => self.set_windows(windows),
            Err(error) => self.problems.push(format!("windows: {error}")),
        }
    }

    /// Adds the windows of a bridge.
    pub fn set_windows(&mut self, windows: BridgeWindows) {
        let named = [
            ("io", windows.io),
            ("memory", windows.memory),
            ("prefetchable", windows.prefetchable),
        ];
        let open = named.into_iter().filter_map(|(kind, range)| {
            let range: RangeInclusive<u64> = range?;
            Some(JsonWindow {
                kind,
                first: At(*range.start()),
                last: At(*range.end()),
            })
        });
        self.windows.extend(open);
    }

    /// Adds one capability, and the fields that it alone gives.
    pub fn add_capability(&mut self, one: &Capability) {
        self.capabilities.push(Listed {
            id: Id(one.id.into()),
            extended: false,
            name: one.name(),
            register: At(one.register.into()),
            version: None,
        });
        if let Some(express) = Express::of(one) {
            self.port = Some(express.port);
        }
    }

    /// One extended capability.
    pub fn add_extended(&mut self, one: &ExtendedCapability) {
        self.capabilities.push(Listed {
            id: Id(one.id),
            extended: true,
            name: one.name(),
            register: At(one.register.into()),
            version: Some(one.version),
        });
    }

    fn add_capabilities<A: ConfigAccess + ?Sized>(
        &mut self,
        access: &A,
        function: &Function,
        names: &Names,
    ) {
        for one in Capabilities::new(access, function) {
            match one {
                Ok(one) => {
                    self.add_capability(&one);
                    if one.id == BRIDGE_SUBSYSTEM
                        && let Header::Bridge(_) = function.header
                        && let Ok(word) = access.read32(function.address, one.register + 4)
                    {
                        let ids = (word as u16, (word >> 16) as u16);
                        let of = (function.vendor, function.device);
                        self.subsystem = Some(Subsystem::of(of, ids, names));
                    }
                }
                Err(fault) => self.problems.push(format!("capabilities: {fault}")),
            }
        }
        for one in ExtendedCapabilities::new(access, function) {
            match one {
                Ok(one) => self.add_extended(&one),
                Err(fault) => self
                    .problems
                    .push(format!("extended capabilities: {fault}")),
            }
        }
    }
}

/// Gives ports whose types cannot be where they are those that they are taken for, as a scan
/// does. Returns them, with the reason. `devices` are in the order of their addresses.
pub fn correct_ports(devices: &mut [Device]) -> Vec<(Address, WrongPort)> {
    let mut above = BTreeMap::new();
    let mut wrong = Vec::new();
    for device in devices {
        let bus = |number| (device.address.segment(), number);
        let Some(port) = device.port else { continue };
        let found = above.get(&bus(device.address.bus()));
        if let Some(why) = found.and_then(|above| port.wrong_below(*above)) {
            device.port = Some(why.is);
            device.problems.push(format!("port: {why}"));
            wrong.push((device.address, why));
        }
        if let Some(buses) = &device.buses
            && impossible(device.address, buses).is_none()
            && let Some(port) = device.port
        {
            above.insert(bus(buses.secondary), port);
        }
    }
    wrong
}

/// The kinds of PCI Express Base, 7.5.3.2.
pub fn port_name(port: PortType) -> Option<&'static str> {
    Some(match port {
        PortType::Endpoint => "endpoint",
        PortType::LegacyEndpoint => "legacy-endpoint",
        PortType::RootPort => "root-port",
        PortType::UpstreamPort => "upstream-port",
        PortType::DownstreamPort => "downstream-port",
        PortType::ToPci => "pcie-to-pci-bridge",
        PortType::FromPci => "pci-to-pcie-bridge",
        PortType::RootComplexEndpoint => "root-complex-endpoint",
        PortType::EventCollector => "event-collector",
        _ => return None,
    })
}

/// The capability with a bridge's subsystem, in its second word (Bridge Architecture 1.2,
/// 3.2.5.13).
const BRIDGE_SUBSYSTEM: u8 = 0x0d;

impl Subsystem {
    fn of(device: (u16, u16), subsystem: (u16, u16), names: &Names) -> Self {
        let (vendor, id) = subsystem;
        let name = names.subsystem(device, subsystem);
        // A board with the same name as its chip.
        let name = name.or_else(|| {
            let same = subsystem == device;
            same.then(|| names.device(vendor, id)).flatten()
        });
        Self {
            vendor: Id(vendor),
            device: Id(id),
            vendor_name: names.vendor(vendor).map(Into::into),
            name: name.map(Into::into),
        }
    }
}

impl BaseAddress {
    /// A BAR in these words.
    pub fn of(bar: &Bar) -> Self {
        Self {
            register: At(bar.register.into()),
            kind: match bar.kind {
                BarKind::Io => "io",
                BarKind::Memory => "memory",
                BarKind::Prefetchable => "prefetchable",
                BarKind::Rom => "rom",
            },
            bits: bar.bits,
            address: At(bar.address),
            size: bar.size,
        }
    }
}

fn known_size(bar: &Bar, resources: &Resources) -> Option<u64> {
    if bar.kind == BarKind::Rom {
        return resources.rom();
    }
    let index = bar.register.checked_sub(registers::BASE_ADDRESS)? / 4;
    resources.bar(index.try_into().ok()?)
}

/// Returns the problems of a header.
fn problems(function: &Function) -> Vec<String> {
    let unknown = match function.header {
        Header::Endpoint(_) | Header::Bridge(_) | Header::CardBus { .. } => None,
        other => Some(format!("unknown header type {:#04x}", other.number())),
    };
    let buses = function.buses().and_then(|buses| {
        let words = impossible(function.address, &buses)?;
        Some(words.to_owned())
    });
    unknown.into_iter().chain(buses).collect()
}

/// Returns the problem of a bridge's bus numbers: those behind it must be greater than that of the
/// bus that it is on.
pub fn impossible(address: Address, buses: &Buses) -> Option<&'static str> {
    if buses.secondary == 0 {
        Some("bridge: the bus behind it has no number")
    } else if buses.secondary <= address.bus() || buses.subordinate < buses.secondary {
        Some("bridge: impossible bus numbers")
    } else {
        None
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04x}", self.0))
    }
}

impl Serialize for Byte {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:02x}", self.0))
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

fn port<S: Serializer>(port: &Option<PortType>, serializer: S) -> Result<S::Ok, S::Error> {
    port.and_then(port_name).serialize(serializer)
}

fn as_text<S: Serializer>(address: &Address, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(address)
}

fn class<S: Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{class}{:02x}", class.interface()))
}

fn buses<S: Serializer>(buses: &Option<Buses>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Numbers {
        primary: Byte,
        secondary: Byte,
        subordinate: Byte,
    }
    let numbers = buses.map(|buses| Numbers {
        primary: Byte(buses.primary),
        secondary: Byte(buses.secondary),
        subordinate: Byte(buses.subordinate),
    });
    numbers.serialize(serializer)
}
