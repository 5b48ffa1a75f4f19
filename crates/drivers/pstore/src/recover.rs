//! Records of the previous kernel, for the next kernel during its boot.

use core::array;
use core::iter::Peekable;

use crate::code::Code;
use crate::format::{Division, HEADER, ZoneKind};
use crate::layout::{Layout, Place};
use crate::memory::Load;
use crate::read::{Merge, PreviousBootZone, Reader, Traces};
use crate::trace::RecordFormat;

/// Opens a region before this kernel writes to it. Changes nothing and allocates nothing; zones are
/// opened on request.
///
/// `code` must match the layout's parity bytes, if it has any.
///
/// ```
/// use nostall_pstore::{ZoneKind, Layout, Params, RecordFormat, ZoneState, recover};
///
/// # fn log(_: &[u8]) {}
/// # let memory = vec![0u8; 0x4_0000];
/// # let memory = &memory[..];
/// let layout = Layout::new(&Params::command_line(0x4_0000, 2)).unwrap();
/// let recovered = recover(memory, &layout, None);
///
/// // The log of a kernel that crashed.
/// for mut dmesg in recovered.zones_of(ZoneKind::Dmesg) {
///     if let Some((header, mut at)) = dmesg.dmesg_header() {
///         let _ = (header.seconds, header.compressed);
///         while let Some((bytes, _trust)) = dmesg.chunk(at) {
///             log(bytes);
///             at += bytes.len();
///         }
///     }
/// }
/// // The last calls of its CPUs, newest last.
/// for trace in recovered.traces::<2>(RecordFormat::NATIVE).unwrap() {
///     let _ = (trace.record.cpu, trace.record.ip, trace.suspect);
/// }
/// # assert!(recovered.zones().all(|zone| zone.state() != ZoneState::Valid));
/// ```
pub const fn recover<'a, M: Load + ?Sized>(
    memory: &'a M,
    layout: &'a Layout,
    code: Option<&'a Code>,
) -> Recovered<'a, M> {
    Recovered {
        memory,
        layout,
        reader: Reader::careful(code),
    }
}

/// Trace records of up to `ZONES` zones, merged by their stamps.
pub type AllTraces<'a, M, const ZONES: usize> =
    Merge<[Peekable<Traces<'a, M>>; ZONES], Traces<'a, M>>;

/// Records of the previous kernel.
#[derive(Debug)]
pub struct Recovered<'a, M: ?Sized> {
    memory: &'a M,
    layout: &'a Layout,
    reader: Reader<'a>,
}

impl<'a, M: Load + ?Sized> Recovered<'a, M> {
    /// Sets the reader, for example for another byte order, or for records written by nostall.
    #[must_use]
    pub const fn with(mut self, reader: Reader<'a>) -> Self {
        self.reader = reader;
        self
    }

    /// Returns every zone in the order of addresses, including empty ones.
    pub fn zones(&self) -> impl Iterator<Item = PreviousBootZone<'a, M>> + use<'a, M> {
        let (reader, memory) = (self.reader, self.memory);
        let zones = self.layout.zones();
        zones.map(move |place| reader.open(memory, place))
    }

    /// Returns the zones of one kind.
    pub fn zones_of(
        &self,
        kind: ZoneKind,
    ) -> impl Iterator<Item = PreviousBootZone<'a, M>> + use<'a, M> {
        let (reader, memory) = (self.reader, self.memory);
        let zones = self.layout.zones_of(kind);
        zones.map(move |place| reader.open(memory, place))
    }

    /// Returns the trace records of all CPUs, merged by their stamps; `None` if there are more
    /// trace zones than `ZONES`.
    ///
    /// Needs about 300 bytes of stack for each zone. To save stack, [`Merge`] fewer zones.
    pub fn traces<const ZONES: usize>(
        &self,
        record_format: RecordFormat,
    ) -> Option<AllTraces<'a, M, ZONES>> {
        let mut zones = self.zones_of(ZoneKind::Ftrace);
        let all = array::from_fn(|_| {
            let zone = zones.next().unwrap_or_else(|| self.nothing());
            zone.traces(record_format).peekable()
        });
        zones.next().is_none().then(|| Merge::new(all))
    }

    /// Returns a zone outside of the memory.
    fn nothing(&self) -> PreviousBootZone<'a, M> {
        const SMALLEST: Division = Division::new(HEADER + 1, 0).unwrap();
        let place = Place {
            kind: ZoneKind::Ftrace,
            index: 0,
            offset: usize::MAX,
            division: SMALLEST,
        };
        self.reader.open(self.memory, place)
    }
}
