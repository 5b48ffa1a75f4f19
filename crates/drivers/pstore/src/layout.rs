//! Layout of the zones in the region, with Linux's arithmetic, errors and rounding
//! (`fs/pstore/ram.c`, `ramoops_probe`, Linux 6.1 and 6.12).

use core::fmt;

use crate::format::{Division, LinuxVersion, MAX_PARITY, ZoneKind};
use crate::memory::{Load, Ram};

/// Bit 0 of the flags: one trace zone for each CPU instead of one for all.
pub const FTRACE_PER_CPU: u32 = 1;

/// Order of the zones after the console's, named after the first Linux version that has it. The
/// rest of the layout is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ZoneOrder {
    /// Traces, then user space's messages: Linux 6.1 and older.
    Linux4_0,
    /// User space's messages, then traces: Linux 6.2 and newer.
    #[default]
    Linux6_2,
}

impl ZoneOrder {
    /// Both orders, the older one first.
    pub const ALL: [Self; 2] = [Self::Linux4_0, Self::Linux6_2];

    /// Returns the order of this Linux version.
    pub const fn of(linux: LinuxVersion) -> Self {
        if linux.0 < Self::Linux6_2.since().0 {
            Self::Linux4_0
        } else {
            Self::Linux6_2
        }
    }

    /// Returns the first Linux version with this order.
    pub const fn since(self) -> LinuxVersion {
        match self {
            Self::Linux4_0 => LinuxVersion::new(4, 0, 0),
            Self::Linux6_2 => LinuxVersion::new(6, 2, 0),
        }
    }
}

/// Parameters of a region, as passed to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Size of the region in bytes.
    pub mem_size: usize,
    /// Smallest size of a dmesg zone in bytes. The space left after the other zones is divided
    /// evenly. 0: none.
    pub record_size: usize,
    /// Size of the console zone in bytes. 0: none.
    pub console_size: usize,
    /// Total size of all trace zones in bytes. 0: none.
    pub ftrace_size: usize,
    /// Size of the zone for user space's messages in bytes. 0: none.
    pub pmsg_size: usize,
    /// Number of parity bytes for each 128 bytes of data. 0: no error correction.
    pub ecc: usize,
    /// Number of possible CPUs (Linux's `nr_cpu_ids`), not of running ones.
    pub cpus: usize,
    /// Flags; [`FTRACE_PER_CPU`] is the only one.
    pub flags: u32,
    /// Order of the trace zones and user space's. It matters only if there are both.
    pub zone_order: ZoneOrder,
}

impl Params {
    /// Linux's defaults if only the region's size is a module parameter or on the command line.
    /// These are 4096 bytes for each kind, no error correction, and a trace zone for each CPU. The
    /// order is that of current kernels.
    pub const fn command_line(mem_size: usize, cpus: usize) -> Self {
        Self {
            mem_size,
            record_size: 4096,
            console_size: 4096,
            ftrace_size: 4096,
            pmsg_size: 4096,
            ecc: 0,
            cpus,
            flags: FTRACE_PER_CPU,
            zone_order: ZoneOrder::Linux6_2,
        }
    }

    /// Linux's defaults if a device tree has only the region's size: no zone. Linux refuses that
    /// unless at least one size is set. The order is that of current kernels.
    pub const fn device_tree(mem_size: usize, cpus: usize) -> Self {
        Self {
            mem_size,
            record_size: 0,
            console_size: 0,
            ftrace_size: 0,
            pmsg_size: 0,
            ecc: 0,
            cpus,
            flags: 0,
            zone_order: ZoneOrder::Linux6_2,
        }
    }

    /// Returns the number of parity bytes for `ramoops.ecc=value`: 1 means 16.
    pub const fn command_line_ecc(value: usize) -> usize {
        if value == 1 { 16 } else { value }
    }
}

/// Place of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Kind of the contents.
    pub kind: ZoneKind,
    /// Index among zones of its kind: number of a dmesg record, or CPU of a trace zone.
    pub index: usize,
    /// Offset in the region. It is always even, but not otherwise aligned.
    pub offset: usize,
    /// Division of the zone.
    pub division: Division,
}

/// Adjacent zones of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    kind: ZoneKind,
    offset: usize,
    count: usize,
    division: Option<Division>,
}

/// A region divided into zones: dmesg, then the console's, then those of [`ZoneOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    given: Params,
    rounded: Params,
    rows: [Row; 4],
    used: usize,
}

impl Layout {
    /// Divides a region as Linux does.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if Linux refuses the parameters, or would fail with them.
    pub fn new(given: &Params) -> Result<Self, LayoutError> {
        let rounded = Params {
            record_size: round_down(given.record_size),
            console_size: round_down(given.console_size),
            ftrace_size: round_down(given.ftrace_size),
            pmsg_size: round_down(given.pmsg_size),
            ..*given
        };
        let sizes = [
            rounded.record_size,
            rounded.console_size,
            rounded.ftrace_size,
            rounded.pmsg_size,
        ];
        if rounded.mem_size == 0 || sizes == [0; 4] {
            return Err(LayoutError::Nothing);
        }
        // The size of a region has 31 bits in a device tree, and an offset in a zone has 32.
        if rounded.mem_size > i32::MAX as usize {
            return Err(LayoutError::TooLarge);
        }
        if rounded.ecc > MAX_PARITY {
            return Err(LayoutError::Ecc(rounded.ecc));
        }
        let per_cpu = rounded.flags & FTRACE_PER_CPU != 0;
        if rounded.ftrace_size > 0 && per_cpu && rounded.cpus == 0 {
            return Err(LayoutError::NoCpus);
        }

        let others = sizes[1..]
            .iter()
            .try_fold(0usize, |sum, &n| sum.checked_add(n));
        let dmesg = others.and_then(|others| rounded.mem_size.checked_sub(others));
        let dmesg = match (dmesg, rounded.record_size) {
            (_, 0) | (Some(0), _) => (0, 0),
            (None, _) => return Err(LayoutError::NoRoom(ZoneKind::Dmesg)),
            (Some(room), size) if size > room => return Err(LayoutError::NoRecord { room, size }),
            (Some(room), size) => (room, room / size),
        };
        let traces = if per_cpu { rounded.cpus } else { 1 };

        let mut at = 0;
        let mut row = |kind, (bytes, count)| -> Result<Row, LayoutError> {
            let mut row = Row {
                kind,
                offset: at,
                count,
                division: None,
            };
            if bytes == 0 {
                row.count = 0;
                return Ok(row);
            }
            if bytes > rounded.mem_size - at {
                return Err(LayoutError::NoRoom(kind));
            }
            // Linux makes only the sizes of several zones even. A single zone's size is a power of
            // two. So this changes only a size of 1, which is too small anyway.
            let zone = (bytes / count) & !1;
            let division = Division::new(zone, rounded.ecc).ok_or(LayoutError::TooSmall {
                kind,
                zone,
                ecc: rounded.ecc,
            })?;
            row.division = Some(division);
            at += zone * count;
            Ok(row)
        };
        let ftrace = (ZoneKind::Ftrace, (rounded.ftrace_size, traces));
        let pmsg = (ZoneKind::Pmsg, (rounded.pmsg_size, 1));
        let [third, fourth] = match rounded.zone_order {
            ZoneOrder::Linux4_0 => [ftrace, pmsg],
            ZoneOrder::Linux6_2 => [pmsg, ftrace],
        };
        let rows = [
            row(ZoneKind::Dmesg, dmesg)?,
            row(ZoneKind::Console, (rounded.console_size, 1))?,
            row(third.0, third.1)?,
            row(fourth.0, fourth.1)?,
        ];
        Ok(Self {
            given: *given,
            rounded,
            rows,
            used: at,
        })
    }

    /// Returns the parameters, with every size as Linux rounds it.
    pub const fn params(&self) -> &Params {
        &self.rounded
    }

    /// Returns the zones in the order of their addresses.
    pub fn zones(&self) -> impl Iterator<Item = Place> + Clone + use<> {
        self.rows.into_iter().flat_map(Row::places)
    }

    /// Returns the zones of one kind.
    pub fn zones_of(&self, kind: ZoneKind) -> impl Iterator<Item = Place> + Clone + use<> {
        let row = self.rows.into_iter().filter(move |row| row.kind == kind);
        row.flat_map(Row::places)
    }

    /// Returns the first zone of one kind, and the number of such zones, which are adjacent and of
    /// equal size.
    pub fn row_of(&self, kind: ZoneKind) -> Option<(Place, usize)> {
        let row = self.rows.into_iter().find(|row| row.kind == kind)?;
        Some((row.places().next()?, row.count))
    }

    /// Returns the zones, each with its part of `memory`, the region. Zones beyond its end are left
    /// out.
    pub fn split<'a>(&self, memory: Ram<'a>) -> impl Iterator<Item = (Place, Ram<'a>)> + use<'a> {
        // The zones are adjacent, from the start.
        let mut rest = Some(memory);
        self.zones().map_while(move |place| {
            let (zone, others) = rest.take()?.split_at(place.division.zone());
            rest = Some(others);
            (zone.len() == place.division.zone()).then_some((place, zone))
        })
    }

    /// Returns whether each CPU has its own trace zone.
    pub const fn traces_per_cpu(&self) -> bool {
        self.rounded.flags & FTRACE_PER_CPU != 0
    }

    /// Returns the differences between the request and the layout.
    pub fn notes(&self) -> impl Iterator<Item = Note> + use<> {
        let (given, rounded) = (self.given, self.rounded);
        let sizes = [
            ("record_size", given.record_size, rounded.record_size),
            ("console_size", given.console_size, rounded.console_size),
            ("ftrace_size", given.ftrace_size, rounded.ftrace_size),
            ("pmsg_size", given.pmsg_size, rounded.pmsg_size),
        ];
        let rounded_sizes = sizes
            .into_iter()
            .filter(|(_, from, to)| from != to)
            .map(|(name, from, to)| Note::Rounded { name, from, to });
        let unused = rounded.mem_size - self.used;
        let one_zone = rounded.ftrace_size > 0 && !self.traces_per_cpu() && rounded.cpus > 1;
        rounded_sizes
            .chain((unused > 0).then_some(Note::Unused { bytes: unused }))
            .chain(one_zone.then_some(Note::OneTraceZone))
    }
}

impl Row {
    fn places(self) -> impl Iterator<Item = Place> + Clone {
        let zones = self.division.into_iter();
        zones.flat_map(move |division| {
            (0..self.count).map(move |index| Place {
                kind: self.kind,
                index,
                offset: self.offset + index * division.zone(),
                division,
            })
        })
    }
}

/// Returns the largest power of two that is at most `size`; 0 for 0.
const fn round_down(size: usize) -> usize {
    match size.checked_ilog2() {
        Some(log) => 1 << log,
        None => 0,
    }
}

/// Difference between the request and Linux's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A size is not a power of two.
    Rounded {
        /// Name of the parameter in Linux.
        name: &'static str,
        /// Requested size.
        from: usize,
        /// Actual size.
        to: usize,
    },
    /// Bytes at the region's end are in no zone.
    Unused {
        /// Number of bytes.
        bytes: usize,
    },
    /// All CPUs share one trace zone and its lock.
    OneTraceZone,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rounded { name, from, to } => write!(
                f,
                "{name}: {from} is not a power of two, Linux takes {to} ({to:#x})"
            ),
            Self::Unused { bytes } => write!(f, "{bytes} bytes at the region's end are in no zone"),
            Self::OneTraceZone => {
                f.write_str("all CPUs share one trace zone and its lock: set flags=1 for one each")
            }
        }
    }
}

/// Error: the parameters give no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// The region is empty, or has no zone.
    Nothing,
    /// The region is 2 GiB or larger.
    TooLarge,
    /// The zones of this kind and those before it exceed the region.
    NoRoom(ZoneKind),
    /// The space left after the other zones is too small for a dmesg record.
    NoRecord {
        /// Number of bytes left.
        room: usize,
        /// Size of a record in bytes.
        size: usize,
    },
    /// A zone has no room for any data.
    TooSmall {
        /// Kind of the zone.
        kind: ZoneKind,
        /// Size of the zone in bytes.
        zone: usize,
        /// Parity bytes for each block.
        ecc: usize,
    },
    /// The number of parity bytes exceeds [`MAX_PARITY`].
    Ecc(usize),
    /// A trace zone for each CPU was requested, but there are no CPUs.
    NoCpus,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("the region's size and at least one zone's must not be 0"),
            Self::TooLarge => f.write_str("the region must be smaller than 2 GiB"),
            Self::NoRoom(kind) => write!(
                f,
                "the region has no room for the {kind} zones: make it larger, or another zone smaller"
            ),
            Self::NoRecord { room, size } => write!(
                f,
                "the other zones leave {room} bytes, too few for one dmesg record of {size}"
            ),
            Self::TooSmall { kind, zone, ecc } => write!(
                f,
                "a {kind} zone of {zone} bytes with {ecc} parity bytes a block has no room for data"
            ),
            Self::Ecc(ecc) => write!(
                f,
                "{ecc} parity bytes a block: at most {MAX_PARITY} can be read back"
            ),
            Self::NoCpus => f.write_str("a trace zone for each CPU, but no CPUs"),
        }
    }
}

impl core::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const PLAIN: Params = Params {
        record_size: 0x8000,
        console_size: 0x8000,
        ftrace_size: 0x8000,
        pmsg_size: 0x2000,
        zone_order: ZoneOrder::Linux4_0,
        ..Params::command_line(0x40000, 2)
    };

    #[test]
    fn the_recorded_region_is_divided_as_in_linux() {
        let layout = Layout::new(&PLAIN).unwrap();
        let offsets: Vec<_> = layout
            .zones()
            .map(|zone| (zone.kind, zone.offset))
            .collect();
        assert_eq!(offsets.len(), 5 + 1 + 2 + 1);
        assert_eq!(offsets[1], (ZoneKind::Dmesg, 0x9332));
        assert_eq!(
            offsets[5..],
            [
                (ZoneKind::Console, 0x2dffa),
                (ZoneKind::Ftrace, 0x35ffa),
                (ZoneKind::Ftrace, 0x39ffa),
                (ZoneKind::Pmsg, 0x3dffa),
            ]
        );
    }

    #[test]
    fn since_linux_6_2_user_space_messages_are_before_the_traces() {
        // The fixture `linux-6.12`.
        let params = Params {
            record_size: 0x4000,
            console_size: 0x4000,
            ftrace_size: 0x8000,
            pmsg_size: 0x2000,
            zone_order: ZoneOrder::of(LinuxVersion::new(6, 12, 117)),
            ..Params::command_line(0x20000, 2)
        };
        let behind_dmesg = |params| -> Vec<_> {
            let layout = Layout::new(&params).unwrap();
            let zones = layout.zones().skip(4);
            zones.map(|zone| (zone.kind, zone.offset)).collect()
        };
        assert_eq!(
            behind_dmesg(params),
            [
                (ZoneKind::Console, 0x12000),
                (ZoneKind::Pmsg, 0x16000),
                (ZoneKind::Ftrace, 0x18000),
                (ZoneKind::Ftrace, 0x1c000),
            ]
        );
        let zone_order = ZoneOrder::of(LinuxVersion::new(6, 1, 255));
        assert_eq!(
            behind_dmesg(Params {
                zone_order,
                ..params
            })[1..],
            [
                (ZoneKind::Ftrace, 0x16000),
                (ZoneKind::Ftrace, 0x1a000),
                (ZoneKind::Pmsg, 0x1e000),
            ]
        );
        for order in ZoneOrder::ALL {
            assert_eq!(ZoneOrder::of(order.since()), order);
        }
    }

    #[test]
    fn parameters_that_linux_refuses_are_refused() {
        let refused = |params| Layout::new(&params).unwrap_err();
        assert_eq!(
            refused(Params::device_tree(0x10000, 1)),
            LayoutError::Nothing
        );
        assert_eq!(
            refused(Params {
                mem_size: 0x10000,
                ..PLAIN
            }),
            LayoutError::NoRoom(ZoneKind::Dmesg)
        );
        assert_eq!(
            refused(Params {
                mem_size: 0x13000,
                ..PLAIN
            }),
            LayoutError::NoRecord {
                room: 0x1000,
                size: 0x8000
            }
        );
        assert_eq!(refused(Params { ecc: 128, ..PLAIN }), LayoutError::Ecc(128));
        assert_eq!(refused(Params { cpus: 0, ..PLAIN }), LayoutError::NoCpus);
        assert!(matches!(
            refused(Params {
                cpus: 4096,
                ..PLAIN
            }),
            LayoutError::TooSmall {
                kind: ZoneKind::Ftrace,
                zone: 8,
                ..
            }
        ));
    }

    #[test]
    fn roundings_of_linux_are_reported() {
        let params = Params {
            console_size: 0x7fff,
            flags: 0,
            ..PLAIN
        };
        let notes: Vec<_> = Layout::new(&params).unwrap().notes().collect();
        assert!(notes.contains(&Note::Rounded {
            name: "console_size",
            from: 0x7fff,
            to: 0x4000
        }));
        assert!(notes.contains(&Note::OneTraceZone));
    }

    proptest! {
        #[test]
        fn zones_are_adjacent_at_even_offsets(
            mem_size in 0usize..1 << 22,
            sizes in proptest::array::uniform4(0usize..1 << 18),
            ecc in 0usize..140,
            cpus in 0usize..70,
            flags in 0u32..2,
            zone_order in proptest::sample::select(&ZoneOrder::ALL[..]),
        ) {
            let [record_size, console_size, ftrace_size, pmsg_size] = sizes;
            let params = Params {
                mem_size, record_size, console_size, ftrace_size, pmsg_size, ecc, cpus, flags,
                zone_order,
            };
            if let Ok(layout) = Layout::new(&params) {
                let mut at = 0;
                let mut memory = std::vec![0; mem_size.min(1 << 16)];
                let parts = layout.split(Ram::of(&mut memory)).map(|(place, part)| {
                    assert_eq!(part.len(), place.division.zone());
                    place
                });
                prop_assert!(layout.zones().zip(parts).all(|(zone, part)| zone == part));
                for zone in layout.zones() {
                    prop_assert_eq!(zone.offset, at);
                    prop_assert_eq!(zone.offset % 2, 0);
                    at += zone.division.zone();
                }
                prop_assert!(at <= mem_size);
            }
        }
    }
}
