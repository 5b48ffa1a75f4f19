"""The hooks on directories like those of systemd-pstore and of a crash kernel.

`make fleet-duckdb` runs the tests, with nostall in PATH.
"""

import contextlib
import gzip
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest

FOLDER = Path(__file__).parent
HOOKS = FOLDER / "hooks"
FIXTURES = FOLDER.parents[1] / "crates/drivers/pstore/tests/fixtures"
DUMP = FIXTURES / "plain/image.bin"
PRINTK = FOLDER.parents[1] / "crates/records/postmortem/tests/fixtures/printk-ring"

PANIC = b"""Panic#1 Part1
<6>[    0.000000] Linux version 6.1.192 (root@vm) #1 SMP Fri Nov 20 23:26:33 UTC 2026
<0>[   12.345678] Kernel panic - not syncing: sysrq triggered crash
"""


@pytest.fixture
def machine(tmp_path):
    """An empty machine and an empty collection point: `run` calls both hooks."""
    return Machine(tmp_path)


class Machine:
    def __init__(self, folder: Path):
        self.dumps = folder / "dumps"
        self.state = folder / "state"
        self.outbox = folder / "outbox"
        self.tools = folder / "tools"
        self.dumps.mkdir()
        self.outbox.mkdir()
        self.tools.mkdir()
        (self.tools / "nostall").symlink_to(shutil.which("nostall"))

    def send(self, **options: str) -> None:
        """Calls the hosts' hook."""
        variables = {
            "NOSTALL_STATE": str(self.state),
            "NOSTALL_OUTBOX": str(self.outbox),
            "NOSTALL_MACHINE": "host-7",
            "PATH": f"{self.tools}:/usr/sbin:/usr/bin:/sbin:/bin",
            **options,
        }
        subprocess.run([HOOKS / "send-dumps", self.dumps], env=variables, check=True, timeout=120)

    def start(self, **options: str) -> subprocess.Popen:
        """Starts the collection point's hook."""
        variables = {"NOSTALL_STATE": str(self.state / "collected"), **options}
        return subprocess.Popen(
            [HOOKS / "export-dumps", self.outbox],
            env={**os.environ, **variables},
            start_new_session=True,
        )

    def run(self, **options: str) -> None:
        self.send()
        assert self.start(**options).wait(120) == 0

    def sent(self) -> list[str]:
        return sorted(path.name for path in self.outbox.glob("host-7/*"))

    def rows(self, columns: str, table: str = "dumps") -> list[tuple]:
        files = f"{self.state}/collected/tables/*/{table}-*.parquet"
        return duckdb.sql(f"SELECT {columns} FROM '{files}' ORDER BY ALL").fetchall()

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.state / "collected/tables").iterdir())


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
    (machine.dumps / "kexec_cmd").write_text("/sbin/kexec -p\n")  # kdump-tools' own
    machine.run()
    assert machine.rows("machine, format, kernel") == [("host-7", "raw", "6.1.192")]
    [(path,)] = machine.rows("path")
    assert path.endswith("2026-11-20 23:32_vmcore")


def test_of_a_large_dump_the_logs_alone_are_sent(machine):
    shutil.copy(DUMP, machine.dumps / "vmcore")
    machine.send(NOSTALL_LARGEST="1000")
    [name] = machine.sent()
    assert name.endswith("vmcore-dmesg-ramoops-0")
    machine.run()
    assert machine.rows("machine, format, status, kernel") == [
        ("host-7", "text", "records", "6.1.192")
    ]
    # The crash is that of the whole dump.
    assert machine.rows("class, signature", "crashes") == [("sysrq", "e62565fbc0701719")]


@pytest.mark.parametrize("name", ["6.1", "6.12-wrapped"])
def test_of_a_large_dump_linuxs_own_log_is_sent_with_the_crash_of_the_dump(machine, name):
    dump = machine.dumps / "dump.202611202332"
    dump.write_bytes(gzip.decompress((PRINTK / f"{name}.lime.gz").read_bytes()))
    # Kdump's text beside its dump would be a second crash.
    (machine.dumps / "dmesg.202611202332").write_bytes(b"[    0.000000] Linux version 6.1\n")
    machine.send(NOSTALL_LARGEST="1000")
    [log] = machine.sent()
    assert log.endswith("dump.202611202332-dmesg.txt")
    # Whole, on another machine.
    shutil.copytree(machine.outbox / "host-7", machine.outbox / "host-8")
    (machine.outbox / "host-8" / log).write_bytes(dump.read_bytes())
    machine.run()
    assert machine.rows("machine, format, status") == [
        ("host-7", "text", "records"),
        ("host-8", "lime", "records"),
    ]
    of_text, of_dump = machine.rows("kind, class, panic, signature", "crashes")
    assert of_text == of_dump


# As kdump's tools write it.
TEXT = PANIC.split(b"\n", 1)[1].replace(b"<6>", b"").replace(b"<0>", b"")


@pytest.mark.parametrize("names", [("dump.2026", "dmesg.2026"), ("vmcore", "vmcore-dmesg.txt")])
def test_of_a_large_dump_without_a_log_kdumps_text_is_sent(machine, names):
    dump, text = names
    (machine.dumps / dump).write_bytes(bytes(5000))
    (machine.dumps / text).write_bytes(TEXT)
    machine.send(NOSTALL_LARGEST="1000")
    [name] = machine.sent()
    assert name.endswith(dump)
    machine.run()
    assert machine.rows("kind, class", "crashes") == [("panic", "sysrq")]


def test_kdumps_text_of_a_log_is_sent_if_its_dump_is_not_complete(machine):
    for name in ["dmesg.202611202332", "vmcore-dmesg.txt"]:
        (machine.dumps / name).write_bytes(TEXT)
    (machine.dumps / "vmcore").write_bytes(DUMP.read_bytes())
    machine.run()
    assert machine.rows("format, kernel") == [("raw", "6.1.192"), ("text", "6.1.192")]
    assert machine.rows("class", "crashes") == [("sysrq",), ("sysrq",)]


def test_a_large_file_without_records_is_a_row_with_an_error(machine):
    (machine.dumps / "vmcore").write_bytes(bytes(5000))
    machine.send(NOSTALL_LARGEST="1000")
    assert len(machine.sent()) == 1
    machine.run()
    [(name, status, error)] = machine.rows("machine, status, error")
    assert (name, status) == ("host-7", "error") and "the file is empty" in error


def test_a_large_dump_that_cannot_be_read_is_a_row_and_does_not_fail_each_run(machine):
    # The head of a dump of kdump's own form.
    (machine.dumps / "vmcore").write_bytes(b"KDUMP   \x06\0\0\0" + bytes(5000))
    (machine.dumps / "b").write_bytes(PANIC)
    for _ in range(2):
        machine.send(NOSTALL_LARGEST="1000")
        assert len(machine.sent()) == 2
    machine.run()
    assert machine.rows("status") == [("error",), ("records",)]


@contextlib.contextmanager
def postmortem_is(machine, script):
    """Puts a script in the place of nostall."""
    tool = machine.tools / "nostall"
    whole = tool.readlink()
    tool.unlink()
    tool.write_text(script)
    tool.chmod(0o755)
    yield
    tool.unlink()
    tool.symlink_to(whole)


def test_a_large_dump_that_can_be_read_later_is_sent_later(machine):
    shutil.copy(DUMP, machine.dumps / "a")
    # As without memory for the dump.
    with postmortem_is(machine, "#!/bin/sh\nexit 1\n"):
        machine.send(NOSTALL_LARGEST="1000")
    [name] = machine.sent()
    assert name.endswith("_a")
    machine.send(NOSTALL_LARGEST="1000")
    assert any(name.endswith("_a-dmesg-ramoops-0") for name in machine.sent())


@pytest.mark.parametrize("status", [2, 6, 127, 137])
def test_a_large_dump_that_could_not_be_searched_is_tried_again(machine, status):
    shutil.copy(DUMP, machine.dumps / "a")
    (machine.dumps / "b").write_bytes(PANIC)
    # As on a full disk: a part of the records, and the status of an error.
    failing = f"""#!/bin/sh
while [ "$1" != --out ]; do shift; done
mkdir -p "$2" && echo part >"$2/dmesg-ramoops-0"
exit {status}
"""
    with postmortem_is(machine, failing), pytest.raises(subprocess.CalledProcessError):
        machine.send(NOSTALL_LARGEST="1000")
    # The other dumps are sent.
    [name] = machine.sent()
    assert name.endswith("_b")
    machine.send(NOSTALL_LARGEST="1000")
    names = machine.sent()
    assert len(names) == 2 and any(name.endswith("_a-dmesg-ramoops-0") for name in names)


def test_a_directory_with_a_line_feed_in_its_name_stands_for_no_other_file(machine, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(PANIC + b"password\n")
    for folder in [machine.dumps, machine.outbox / "host-8"]:
        # `find` prints `.../a`, and in a line of its own the path of the secret.
        evil = Path(f"{folder}/a\n{secret}")
        evil.parent.mkdir(parents=True)
        evil.write_bytes(b"x")
    machine.run()
    assert machine.sent() == [] and machine.runs() == []


def test_folders_of_calls_that_a_power_cut_ended_are_removed(machine):
    (machine.state / "send.abcdef/records").mkdir(parents=True)
    machine.send()
    assert list(machine.state.glob("send.*")) == []


def test_dumps_that_left_the_outbox_are_not_sent_again(machine):
    (machine.dumps / "dmesg-ramoops-0").write_bytes(PANIC)
    machine.send()
    [sent] = machine.outbox.glob("host-7/*")
    sent.unlink()
    machine.send()
    assert machine.sent() == []


def test_a_file_that_is_not_complete_is_not_exported(machine):
    (machine.outbox / "host-8").mkdir()
    (machine.outbox / "host-8/.dump.part").write_bytes(PANIC)
    machine.run()
    assert machine.runs() == []


def test_dumps_of_several_machines_have_their_names(machine):
    (machine.dumps / "a").write_bytes(PANIC)
    machine.send(NOSTALL_MACHINE="host-8")
    (machine.dumps / "b").write_bytes(PANIC + b"other\n")
    machine.run()
    assert machine.rows("machine") == [("host-7",), ("host-8",)]


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
    machine.send()
    # A batch a dump, so that there is a half.
    hook = machine.start(NOSTALL_EXPORT="--batch 64K --jobs 1")
    while hook.poll() is None and not list(machine.state.glob("collected/tables/*/dumps-*")):
        time.sleep(0.001)
    os.killpg(hook.pid, signal.SIGKILL)
    hook.wait()
    assert not (machine.state / "collected/00000.done").exists()
    assert 0 < len(machine.rows("dump")) < 40
    machine.run(NOSTALL_EXPORT="--batch 64K --jobs 1")
    assert machine.runs() == ["00000"]
    assert machine.rows("count(DISTINCT dump), count(*)") == [(40, 40)]


def test_a_redacted_export_has_neither_paths_nor_text(machine):
    (machine.dumps / "secret name").write_bytes(PANIC)
    machine.run(NOSTALL_EXPORT="--redact")
    assert machine.rows("path") == [(None,)]
    assert set(machine.rows("text", "records")) == {(None,)}


@pytest.mark.parametrize(
    ("unit", "command"),
    [
        ("nostall-pstore.service", "send-dumps /var/lib/systemd/pstore"),
        ("nostall-crash.service", "send-dumps /var/crash"),
        ("nostall-export.service", "export-dumps /srv/dumps"),
        ("nostall-export.timer", None),
    ],
)
def test_the_units_call_the_hooks_where_the_packages_install_them(unit, command):
    book = (FOLDER.parents[1] / "docs/src/fleet-hosts.md").read_text()
    text = (HOOKS / unit).read_text()
    assert command is None or f"/usr/lib/nostall/{command}\n" in text
    assert unit in book
