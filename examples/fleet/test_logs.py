"""A fleet of 300 dumps with Linux's log: the answers are those that Linux gave.

`make fleet-duckdb` runs the test, with nostall-fleet in PATH.
"""

import collections
import gzip
import random
import struct
import subprocess
from pathlib import Path

import duckdb

RECORDED = Path(__file__).parents[2] / "crates/records/postmortem/tests/fixtures/printk-ring"

# Start and size of a machine's RAM, the kernel's release, and the panic.
KNOWN = {
    "6.1": (0, 256 << 20, "6.1.0-56-cloud-amd64", "VFS: Unable to mount root fs"),
    "6.1-arm64": (1 << 30, 256 << 20, "6.1.0-56-cloud-arm64", "VFS: Unable to mount root fs"),
    "6.12-wrapped": (0, 384 << 20, "6.12.117+deb12-cloud-amd64", "sysrq triggered crash"),
}
LIME = struct.Struct("<8sQQ8x")


def ranges(lime):
    """Returns the ranges of a LiME dump: their addresses and contents."""
    found, at = [], 0
    while at < len(lime):
        _, first, last = LIME.unpack_from(lime, at)
        at += LIME.size
        found.append((first, lime[at:at + last - first + 1]))
        at += last - first + 1
    return found


def raw(path, name, memory):
    """Writes a sparse file of the RAM."""
    start, size, *_ = KNOWN[name]
    with open(path, "wb") as file:
        file.truncate(size)
        for address, contents in memory:
            file.seek(address - start)
            file.write(contents)


def lime(path, memory):
    with open(path, "wb") as file:
        for address, contents in memory:
            file.write(LIME.pack(b"EMiL\1\0\0\0", address, address + len(contents) - 1))
            file.write(contents)


def elf(path, memory):
    """Writes an ELF core."""
    header = struct.pack("<4s3B9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 4, 62, 1, 0, 64, 0, 0, 64, 56, len(memory), 0, 0, 0)
    at, headers = len(header) + 56 * len(memory), b""
    for address, contents in memory:
        size = len(contents)
        headers += struct.pack("<IIQQQQQQ", 1, 7, at, 0, address, size, size, 0)
        at += size
    path.write_bytes(header + headers + b"".join(contents for _, contents in memory))


def test_the_tables_of_300_dumps_have_each_record_of_linux(tmp_path):
    recorded = {name: gzip.decompress((RECORDED / f"{name}.lime.gz").read_bytes()) for name in KNOWN}
    truth = {}
    for name in KNOWN:
        lines = gzip.decompress((RECORDED / f"{name}.truth.gz").read_bytes()).decode().splitlines()
        records = [line.split(" ") for line in lines]
        truth[name] = [
            (int(sequence), int(time), bytes.fromhex(text).decode(errors="replace"))
            for sequence, time, _, _, text in records
        ]
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    order = random.Random(7)
    made = collections.Counter()
    for number in range(300):
        name = order.choice(list(KNOWN))
        form = order.choice(["raw", "lime", "elf", "gzip"])
        made[name] += 1
        path = dumps / f"{number:03}-{name}.{form}"
        memory = ranges(recorded[name])
        match form:
            case "raw":
                raw(path, name, memory)
            case "lime":
                lime(path, memory)
            case "elf":
                elf(path, memory)
            case "gzip":
                path.write_bytes((RECORDED / f"{name}.lime.gz").read_bytes())
    out = tmp_path / "tables"
    subprocess.run(["nostall-fleet", "export", "--out", out, dumps], check=True)

    engine = duckdb.connect()
    for table in ["dumps", "records", "crashes"]:
        engine.sql(f"CREATE VIEW {table} AS SELECT * FROM '{out}/{table}-*.parquet'")
    logs = engine.sql("SELECT kernel, count(*), min(kernel_logs), max(kernel_logs) FROM dumps GROUP BY 1")
    assert set(logs.fetchall()) == {(KNOWN[name][2], count, 1, 1) for name, count in made.items()}
    crashes = engine.sql("SELECT dumps.kernel, count(*), any_value(panic) FROM crashes JOIN dumps USING (input) GROUP BY 1")
    crashes = {kernel: (count, panic) for kernel, count, panic in crashes.fetchall()}
    for name, count in made.items():
        _, _, kernel, panic = KNOWN[name]
        assert crashes[kernel][0] == count and panic in crashes[kernel][1]
    # Each record of each dump, in both directions.
    engine.sql("CREATE TABLE truth (kernel TEXT, sequence BIGINT, uptime BIGINT, text TEXT)")
    rows = [(KNOWN[name][2], *row) for name in KNOWN for row in truth[name]]
    engine.executemany("INSERT INTO truth VALUES (?, ?, ?, ?)", rows)
    found = """
        SELECT input, kernel, sequence, records.time, text
        FROM records JOIN dumps USING (input) WHERE source = 'printk'"""
    known = "SELECT input, kernel, sequence, truth.uptime, text FROM truth JOIN dumps USING (kernel)"
    for one, other in [(found, known), (known, found)]:
        assert engine.sql(f"{one} EXCEPT ALL {other}").fetchall() == []
    number = sum(len(truth[name]) * count for name, count in made.items())
    assert engine.sql(f"SELECT count(*) FROM ({found})").fetchall() == [(number,)]
