//! Stream of packets: one sequence, with names interned at first use.

use std::io::{self, Write};

use prost::Message;
use prost::bytes::BufMut;

use super::messages::{
    CounterDescriptor, DebugAnnotation, InternedData, InternedString,
    SEQ_INCREMENTAL_STATE_CLEARED, SEQ_NEEDS_INCREMENTAL_STATE, TracePacket, TrackDescriptor,
    TrackEvent, Type,
};
use crate::model::{Catalog, Name};

/// Number of bytes collected before each write.
const BUFFER: usize = 64 << 10;

/// Tag of a packet: field 1 of the message `Trace`, with a length.
const PACKET: u8 = 1 << 3 | 2;

/// The only sequence of the file.
const SEQUENCE: u32 = 1;

/// Identifier of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(u64);

/// Name of an annotation: an index in [`KEYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Cpu,
    Argument,
    Depth,
    Duration,
    Time,
    Exit,
    Entry,
    Place,
    Caller,
    Records,
}

const KEYS: [&str; 10] = [
    "cpu",
    "argument",
    "depth",
    "recorded_duration",
    "recorded_time",
    "exit",
    "entry",
    "place",
    "caller",
    "records",
];

/// Writer of packets.
#[derive(Debug)]
pub struct Packets<W> {
    out: W,
    bytes: Vec<u8>,
    names: Interned,
    values: Interned,
    tracks: u64,
}

impl<W: Write> Packets<W> {
    /// Creates the stream, with the packet that starts its sequence.
    pub fn new(out: W) -> Self {
        let mut packets = Self {
            out,
            bytes: Vec::with_capacity(2 * BUFFER),
            names: Interned::default(),
            values: Interned::default(),
            tracks: 0,
        };
        let keys = (1..)
            .zip(KEYS)
            .map(|(id, key)| InternedString::new(id, key));
        let interned = InternedData {
            debug_annotation_names: keys.collect(),
            ..InternedData::default()
        };
        packets.encode(TracePacket {
            interned_data: Some(interned),
            sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED | SEQ_NEEDS_INCREMENTAL_STATE),
            first_packet_on_sequence: Some(true),
            ..TracePacket::default()
        });
        packets
    }

    /// Adds a track.
    pub fn track(&mut self, name: String, parent: Option<Uuid>, is_counter: bool) -> Uuid {
        self.tracks += 1;
        self.encode(TracePacket {
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(self.tracks),
                name: Some(name),
                parent_uuid: parent.map(|parent| parent.0),
                counter: is_counter.then_some(CounterDescriptor {}),
            }),
            ..TracePacket::default()
        });
        Uuid(self.tracks)
    }

    /// Starts an event of a track.
    pub fn event(&mut self, kind: Type, track: Uuid, time: u64) -> Draft {
        Draft {
            // Perfetto's times are signed.
            time: time.min(i64::MAX as u64),
            event: TrackEvent {
                r#type: Some(kind.into()),
                track_uuid: Some(track.0),
                ..TrackEvent::default()
            },
            new: InternedData::default(),
        }
    }

    /// Sets the event's name from the trace.
    pub fn name(&mut self, draft: &mut Draft, name: Name, catalog: &Catalog) {
        draft.event.name_iid = self.names.id(name, catalog, &mut draft.new.event_names);
    }

    /// Annotates the event with a text of the trace.
    pub fn text(&mut self, draft: &mut Draft, key: Key, text: Name, catalog: &Catalog) {
        let new = &mut draft.new.debug_annotation_string_values;
        let string_value_iid = self.values.id(text, catalog, new);
        draft.annotate(DebugAnnotation {
            string_value_iid,
            ..key.annotation()
        });
    }

    /// Writes the event.
    ///
    /// # Errors
    ///
    /// The error of the writer.
    pub fn put(&mut self, draft: Draft) -> io::Result<()> {
        let has_new = draft.new != InternedData::default();
        self.encode(TracePacket {
            timestamp: Some(draft.time),
            track_event: Some(draft.event),
            interned_data: has_new.then_some(draft.new),
            sequence_flags: Some(SEQ_NEEDS_INCREMENTAL_STATE),
            ..TracePacket::default()
        });
        if self.bytes.len() >= BUFFER {
            self.drain()?;
        }
        Ok(())
    }

    /// Writes the rest.
    ///
    /// # Errors
    ///
    /// The error of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.drain()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn drain(&mut self) -> io::Result<()> {
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }

    fn encode(&mut self, mut packet: TracePacket) {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        self.bytes.put_u8(PACKET);
        packet
            .encode_length_delimited(&mut self.bytes)
            .expect("a vector grows");
    }
}

/// An event under construction.
#[derive(Debug)]
pub struct Draft {
    time: u64,
    event: TrackEvent,
    new: InternedData,
}

impl Draft {
    /// Sets a name that is not from the trace.
    pub fn title(&mut self, title: &str) {
        self.event.name = Some(title.to_owned());
    }

    /// Sets a counter's value.
    pub fn value(&mut self, value: i64) {
        self.event.counter_value = Some(value);
    }

    /// Annotates the event with a number.
    pub fn number(&mut self, key: Key, number: u64) {
        self.annotate(DebugAnnotation {
            uint_value: Some(number),
            ..key.annotation()
        });
    }

    /// Annotates the event with a word that is not from the trace.
    pub fn word(&mut self, key: Key, word: &str) {
        self.annotate(DebugAnnotation {
            string_value: Some(word.to_owned()),
            ..key.annotation()
        });
    }

    fn annotate(&mut self, annotation: DebugAnnotation) {
        self.event.debug_annotations.push(annotation);
    }
}

impl Key {
    fn annotation(self) -> DebugAnnotation {
        DebugAnnotation {
            name_iid: Some(self as u64 + 1),
            ..DebugAnnotation::default()
        }
    }
}

impl InternedString {
    fn new(id: u64, text: &str) -> Self {
        Self {
            iid: Some(id),
            name: Some(text.to_owned()),
        }
    }
}

/// Texts that were already written with their identifiers.
#[derive(Debug, Default)]
struct Interned(Vec<bool>);

impl Interned {
    /// Returns the text's identifier, which is never 0. At its first use, the text is added to
    /// `new`.
    ///
    /// A number that is not in the catalog has no identifier.
    fn id(&mut self, text: Name, catalog: &Catalog, new: &mut Vec<InternedString>) -> Option<u64> {
        let index = text.0 as usize;
        let id = u64::from(text.0) + 1;
        if self.0.get(index) == Some(&true) {
            return Some(id);
        }
        if index >= catalog.names() {
            return None;
        }
        if index >= self.0.len() {
            self.0.resize(catalog.names(), false);
        }
        self.0[index] = true;
        new.push(InternedString::new(id, catalog.text(text)));
        Some(id)
    }
}
