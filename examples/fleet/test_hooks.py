"""The hooks on directories like those of systemd-pstore and of a crash kernel.

`make fleet-duckdb` runs the tests, with nostall-fleet in PATH.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest

FOLDER = Path(__file__).parent
HOOK = FOLDER / "hooks/export-dumps"
DUMP = FOLDER.parents[1] / "crates/nostall-pstore/tests/fixtures/plain/image.bin"

PANIC = b"""Panic#1 Part1
<6>[    0.000000] Linux version 6.1.192 (root@vm) #1 SMP Fri Nov 20 23:26:33 UTC 2026
<0>[   12.345678] Kernel panic - not syncing: sysrq triggered crash
"""


@pytest.fixture
def machine(tmp_path):
    """An empty machine: `run` calls its hook on a directory."""
    return Machine(tmp_path)


class Machine:
    def __init__(self, folder: Path):
        self.dumps = folder / "dumps"
        self.state = folder / "state"
        self.dumps.mkdir()

    def start(self, **options: str) -> subprocess.Popen:
        variables = {"NOSTALL_STATE": str(self.state), "NOSTALL_MACHINE": "host-7", **options}
        return subprocess.Popen(
            [HOOK, self.dumps], env={**os.environ, **variables}, start_new_session=True
        )

    def run(self, **options: str) -> None:
        assert self.start(**options).wait(120) == 0

    def rows(self, columns: str, table: str = "dumps") -> list[tuple]:
        files = f"{self.state}/tables/*/{table}-*.parquet"
        return duckdb.sql(f"SELECT {columns} FROM '{files}' ORDER BY ALL").fetchall()

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.state / "tables").iterdir())


def test_files_that_systemd_pstore_archived_become_rows_of_this_machine(machine):
    archive = machine.dumps / "7254371931/001"
    archive.mkdir(parents=True)
    (archive / "dmesg-ramoops-0").write_bytes(PANIC)
    machine.run()
    assert machine.rows("machine, format, status, kernel") == [
        ("host-7", "text", "records", "6.1.192")
    ]
    assert machine.rows("kind, class", "crashes") == [("panic", "sysrq")]


def test_memory_that_a_crash_kernel_wrote_becomes_rows_of_this_machine(machine):
    crash = machine.dumps / "2026-11-20 23:32"
    crash.mkdir()
    shutil.copy(DUMP, crash / "vmcore")
    machine.run()
    assert machine.rows("machine, format, kernel") == [("host-7", "raw", "6.1.192")]
    [(path,)] = machine.rows("path")
    assert path.endswith("2026-11-20 23:32_vmcore")


def test_each_dump_is_exported_once(machine):
    shutil.copy(DUMP, machine.dumps / "first")
    machine.run()
    machine.run()
    assert machine.runs() == ["00000"]
    (machine.dumps / "second").write_bytes(PANIC)
    machine.run()
    assert machine.runs() == ["00000", "00001"]
    assert machine.rows("format") == [("raw",), ("text",)]


def test_a_later_dump_under_the_same_name_is_exported(machine):
    dump = machine.dumps / "dmesg-ramoops-0"
    for seconds in [1_795_217_530, 1_795_217_659]:
        dump.write_bytes(PANIC + b"%d\n" % seconds)
        os.utime(dump, (seconds, seconds))
        machine.run()
    assert machine.rows("count(DISTINCT dump), count(*)") == [(2, 2)]


def test_files_whose_paths_differ_in_a_slash_alone_are_both_exported(machine):
    (machine.dumps / "a").mkdir()
    (machine.dumps / "a/b").write_bytes(PANIC)
    (machine.dumps / "a_b").write_bytes(PANIC + b"other\n")
    machine.run()
    assert machine.rows("count(DISTINCT dump), count(*)") == [(2, 2)]


def test_a_directory_without_dumps_makes_no_tables(machine):
    machine.run()
    assert machine.runs() == []


def test_an_export_that_was_killed_goes_on_at_the_next_call(machine):
    for number in range(40):
        (machine.dumps / f"{number}").write_bytes(DUMP.read_bytes() + bytes([number]))
    # A batch a dump, so that there is a half.
    hook = machine.start(NOSTALL_EXPORT="--batch 64K --jobs 1")
    while hook.poll() is None and not list(machine.state.glob("tables/*/dumps-*")):
        time.sleep(0.001)
    os.killpg(hook.pid, signal.SIGKILL)
    hook.wait()
    assert not (machine.state / "00000.done").exists()
    assert 0 < len(machine.rows("dump")) < 40
    machine.run(NOSTALL_EXPORT="--batch 64K --jobs 1")
    assert machine.runs() == ["00000"]
    assert machine.rows("count(DISTINCT dump), count(*)") == [(40, 40)]


def test_a_redacted_export_has_neither_paths_nor_text(machine):
    (machine.dumps / "secret name").write_bytes(PANIC)
    machine.run(NOSTALL_EXPORT="--redact")
    assert machine.rows("path") == [(None,)]
    assert set(machine.rows("text", "records")) == {(None,)}


def test_the_units_call_the_hook_where_the_book_installs_it():
    book = (FOLDER.parents[1] / "docs/src/fleet.md").read_text()
    for unit in ["systemd-pstore.conf", "nostall-crash.service"]:
        text = (FOLDER / "hooks" / unit).read_text()
        assert "/usr/local/lib/nostall/export-dumps /var/" in text
        assert f"hooks/{unit}" in book and text.split("\n")[0][2:] in book
