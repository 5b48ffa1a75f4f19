"""Prints the slices of a Perfetto trace as JSON, read with Perfetto's own classes.

As in Perfetto, an end closes the innermost slice of its track. A slice is
[track, name, start, duration, depth, reason for a missing exit].
"""

import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

tracks, stacks, slices, counters, others = {}, {}, [], [], 0
names, keys = {}, {}
last = {}
for number, packet in enumerate(trace.packet):
    is_cleared = packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    assert bool(is_cleared) == (number == 0), "state is cleared once"
    assert packet.trusted_packet_sequence_id == trace.packet[0].trusted_packet_sequence_id != 0
    for entry in packet.interned_data.event_names:
        assert names.setdefault(entry.iid, entry.name) == entry.name and entry.iid
    for entry in packet.interned_data.debug_annotation_names:
        keys[entry.iid] = entry.name
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    if not packet.HasField("track_event"):
        continue
    assert packet.sequence_flags & TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    event, time = packet.track_event, packet.timestamp
    track = event.track_uuid
    assert last.get(track, 0) <= time, "times of a track never decrease"
    last[track] = time
    notes = {keys[one.name_iid]: one for one in event.debug_annotations}
    stack = stacks.setdefault(track, [])
    group = tracks[tracks[track].parent_uuid].name
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        start = notes["recorded_time"].uint_value if "recorded_time" in notes else time
        depth = notes["depth"].uint_value if "depth" in notes else len(stack)
        name = [group, tracks[track].name, names[event.name_iid]]
        one = [*name, start, None, depth, None]
        stack.append((one, time))
        slices.append(one)
    elif event.type == TrackEvent.TYPE_SLICE_END:
        one, start = stack.pop()
        if "exit" in notes:
            one[6] = notes["exit"].string_value
        elif "recorded_duration" in notes:
            duration = notes["recorded_duration"]
            one[4] = duration.uint_value if duration.HasField("uint_value") else "unknown"
        else:
            one[4] = time - start
    elif event.type == TrackEvent.TYPE_COUNTER:
        assert tracks[track].HasField("counter")
        counters.append([tracks[track].name, time, event.counter_value])
    else:
        others += 1
json.dump({"slices": slices, "counters": counters, "others": others}, sys.stdout)
