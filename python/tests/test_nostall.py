"""The package as an analyst uses it. The dumps are the decoder's own recordings of Linux."""

import ast
import gzip
import inspect
import re
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import nostall

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "crates/drivers/pstore/tests/fixtures"
PLAIN = FIXTURES / "plain/image.bin"
NAMES = ["dumps", "records", "calls", "crashes"]


def test_a_path_and_its_bytes_give_the_same_rows():
    of_path = nostall.decode(PLAIN)
    of_bytes = nostall.decode(PLAIN.read_bytes(), path=str(PLAIN))
    assert list(of_path) == NAMES
    assert of_path == of_bytes == nostall.decode(str(PLAIN))
    assert of_path["dumps"]["machine"].to_pylist() == ["plain"]


def test_bytes_without_a_path_have_no_path():
    dumps = nostall.decode(PLAIN.read_bytes())["dumps"]
    assert dumps["path"].to_pylist() == [None]
    assert dumps["dump"] == nostall.decode(PLAIN)["dumps"]["dump"]


def test_a_file_with_a_second_path_is_refused():
    with pytest.raises(ValueError, match="a file has its own path"):
        nostall.decode(PLAIN, path="other")


def test_each_table_has_the_schema_with_its_version_and_units():
    tables = nostall.decode(PLAIN)
    for name, schema in nostall.schemas().items():
        assert tables[name].schema.equals(schema, check_metadata=True)
        assert schema.metadata[b"nostall.schema"] == str(nostall.SCHEMA_VERSION).encode()
    assert tables["dumps"].schema.field("size").metadata == {b"unit": b"bytes"}


def test_the_rows_agree_with_the_counts_in_the_row_of_the_dump():
    tables = nostall.decode(PLAIN, input=7)
    [dump] = tables["dumps"].to_pylist()
    assert (dump["status"], dump["kernel"]) == ("records", "6.1.192")
    for name in ["records", "calls", "crashes"]:
        assert dump[name] == tables[name].num_rows > 0
        assert set(tables[name]["input"].to_pylist()) == {7}
    [crash] = tables["crashes"].to_pylist()
    assert (crash["kind"], crash["class"]) == ("panic", "sysrq")
    assert "sysrq_handle_crash" in crash["frames"]
    assert re.fullmatch("[0-9a-f]{16}", crash["signature"])


def test_pyarrow_allocates_nothing_for_the_rows():
    before = pa.total_allocated_bytes()
    tables = nostall.decode(PLAIN)
    assert sum(table.nbytes for table in tables.values()) > 100_000
    assert pa.total_allocated_bytes() == before


def test_the_rows_outlive_the_call_and_its_input():
    text = nostall.decode(bytearray(PLAIN.read_bytes()))["records"]["text"]
    assert text.to_pylist() == nostall.decode(PLAIN)["records"]["text"].to_pylist()
    text.validate(full=True)


@pytest.mark.parametrize(
    ("source", "status", "error"),
    [
        (b"", "error", "empty"),
        (bytes(4096), "none", None),
        (b"\x7fELF\x02\x01\x01" + bytes(3), "error", "ELF"),
        ("/does/not/exist", "error", "No such file"),
        ("/", "error", "directory"),
        ("/dev/zero", "error", "device"),
    ],
)
def test_a_bad_input_is_a_row_with_its_error(source, status, error):
    tables = nostall.decode(source)
    [dump] = tables["dumps"].to_pylist()
    assert dump["status"] == status
    if error:
        assert error in dump["error"]
    assert [tables[name].num_rows for name in NAMES[1:]] == [0, 0, 0]


def test_every_damaged_copy_is_a_row():
    whole = PLAIN.read_bytes()
    for cut in range(0, len(whole), len(whole) // 37):
        noise = whole[:cut] + bytes(whole[cut:])[::-1]
        for damaged in [whole[:cut], noise]:
            assert nostall.decode(damaged)["dumps"].num_rows == 1


def test_redacted_tables_have_no_text():
    plain = nostall.decode(PLAIN)
    tables = nostall.decode(PLAIN, redact=True)
    assert tables["records"]["text"].null_count == tables["records"].num_rows > 0
    for name, column in [("dumps", "path"), ("crashes", "reason"), ("crashes", "panic")]:
        assert tables[name][column].null_count == tables[name].num_rows
    assert tables["crashes"]["signature"] == plain["crashes"]["signature"]
    assert re.fullmatch("[0-9a-f]{16}", tables["dumps"]["machine"][0].as_py())


def test_a_region_is_found_with_its_parameters():
    [region] = nostall.detect(PLAIN)
    assert region.convincing and region.start == 0
    assert region.length == PLAIN.stat().st_size
    assert region.parameters["ecc"] == 0
    assert region.evidence and repr(region).startswith("Region(start=0x0, ")
    [ecc] = nostall.detect((FIXTURES / "ecc16/image.bin").read_bytes())
    assert ecc.parameters["ecc"] == 16
    with pytest.raises(AttributeError):
        region.start = 1


def test_a_search_of_a_bad_input_is_an_exception():
    with pytest.raises(FileNotFoundError):
        nostall.detect("/does/not/exist")
    with pytest.raises(ValueError, match="empty"):
        nostall.detect(b"")
    with pytest.raises(TypeError):
        nostall.detect(17)


MAP = b"81000000 T _stext\n81000010 T panic\n81000150 t panic_other_cpus\n81000160 T _etext\n"


def test_an_address_is_named_as_linux_names_it():
    symbols = nostall.Symbols(MAP)
    addresses = [0x9F80009C, 0, None]
    names = nostall.symbolize(addresses, symbols, kernel_offset=0x1E800000)
    assert names == ["panic+0x8c/0x140", None, None]
    high = nostall.Symbols(MAP.replace(b"81", b"ffffffff81"))
    # The table `calls` has the same 64 bits with a sign.
    both = nostall.symbolize([0xFFFFFFFF8100009C, 0xFFFFFFFF8100009C - 2**64], high)
    assert both == ["panic+0x8c/0x140"] * 2


def test_a_directory_has_the_symbols_of_each_release(tmp_path):
    (tmp_path / "System.map-6.1.0").write_bytes(MAP)
    (tmp_path / "System.map-6.1.1.gz").write_bytes(gzip.compress(MAP.replace(b"panic", b"other")))
    symbols = nostall.Symbols(tmp_path)
    address = [0x8100009C]
    assert nostall.symbolize(address, symbols, kernel="6.1.0") == ["panic+0x8c/0x140"]
    assert nostall.symbolize(address, symbols, kernel="6.1.1") == ["other+0x8c/0x140"]
    assert nostall.symbolize(address, symbols, kernel="6.1.2") == [None]
    assert nostall.symbolize(address, symbols) == [None]


def test_a_file_without_symbols_is_an_exception(tmp_path):
    with pytest.raises(FileNotFoundError):
        nostall.Symbols(tmp_path / "none")
    with pytest.raises(ValueError, match="no symbol table"):
        nostall.Symbols(b"no table")


def test_a_directory_that_cannot_be_read_is_an_exception(tmp_path):
    # Without free descriptors, because permissions do not apply to root.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            nostall.Symbols(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_calls_have_the_names_that_the_map_gives():
    symbols = nostall.Symbols(FIXTURES / "System.map.gz")
    tables = nostall.decode(PLAIN, symbols=symbols)
    assert "irq_exit_rcu" in tables["calls"]["symbol"].to_pylist()
    assert nostall.decode(PLAIN)["calls"]["symbol"].null_count == tables["calls"].num_rows
    # The same names from the addresses and the offset that the tables have.
    [dump] = tables["dumps"].to_pylist()
    names = nostall.symbolize(
        tables["calls"]["address"].to_pylist(), symbols, kernel_offset=dump["kernel_offset"]
    )
    functions = [name and name.split("+")[0] for name in names]
    assert functions == tables["calls"]["symbol"].to_pylist()


# The values that each engine has to show: text, a number of 64 bits, a list, and a time.
COLUMNS = ["kind", "uptime", "frames", "time"]


def values(tables):
    [row] = tables["crashes"].select(COLUMNS).to_pylist()
    return [row["kind"], row["uptime"], row["frames"], row["time"].timestamp()]


def test_pandas_reads_every_table():
    pytest.importorskip("pandas")
    tables = nostall.decode(PLAIN)
    for table in tables.values():
        assert len(table.to_pandas()) == table.num_rows
    [row] = tables["crashes"].to_pandas()[COLUMNS].itertuples(index=False)
    found = [row.kind, row.uptime, list(row.frames), row.time.timestamp()]
    assert found == values(tables)


def test_polars_reads_every_table():
    polars = pytest.importorskip("polars")
    tables = nostall.decode(PLAIN)
    for table in tables.values():
        assert polars.from_arrow(table).height == table.num_rows
    [row] = polars.from_arrow(tables["crashes"]).select(COLUMNS).rows()
    assert [*row[:3], row[3].timestamp()] == values(tables)


def test_duckdb_reads_every_table():
    duckdb = pytest.importorskip("duckdb")
    tables = nostall.decode(PLAIN)
    for rows in tables.values():
        [(count,)] = duckdb.sql("SELECT count(*) FROM rows").fetchall()
        assert count == rows.num_rows
    crashes = tables["crashes"]
    # As microseconds: DuckDB's `epoch` rounds.
    [row] = duckdb.sql("SELECT kind, uptime, frames, epoch_us(time) FROM crashes").fetchall()
    found = [*row[:3], row[3] / 1e6]
    assert found == values({"crashes": crashes})


def test_other_threads_run_while_a_dump_is_decoded(tmp_path):
    # The decoder waits for the program that writes to this pipe: that thread has to run.
    pipe = tmp_path / "pipe"
    subprocess.run(["mkfifo", pipe], check=True)
    writer = threading.Thread(target=lambda: pipe.write_bytes(PLAIN.read_bytes()))
    writer.start()
    [region] = nostall.detect(pipe)
    writer.join()
    assert region.convincing


def test_the_native_half_has_the_types_that_its_stub_has(tmp_path):
    config = ROOT / "python/pyproject.toml"
    checks = [
        ["mypy.stubtest", "nostall._nostall", "--mypy-config-file", config],
        ["mypy", "--strict", "--config-file", config, tmp_path / "program.py"],
    ]
    (tmp_path / "program.py").write_text(
        "import nostall\n"
        "rows: int = nostall.decode(b'')['dumps'].num_rows\n"
        "names: list[str | None] = nostall.symbolize([1], nostall.Symbols('map'))\n"
        "start: int = nostall.detect('dump')[0].start\n"
    )
    for check in checks:
        command = [sys.executable, "-m", *map(str, check)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_everything_public_is_documented():
    for name in nostall.__all__:
        item = getattr(nostall, name)
        if callable(item):
            assert (inspect.getdoc(item) or "").endswith("."), name


def test_the_stub_has_the_first_line_of_each_docstring():
    stub = ast.parse((ROOT / "python/nostall/_nostall.pyi").read_text())
    documented = 0
    for item in stub.body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            native = inspect.getdoc(getattr(nostall, item.name))
            assert ast.get_docstring(item).split("\n")[0] == native.split("\n")[0], item.name
            documented += 1
    assert documented == 6


def test_the_readme_shows_the_output_of_its_example(capsys, monkeypatch):
    pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    monkeypatch.chdir(ROOT)
    readme = (ROOT / "python/README.md").read_text()
    [program] = re.findall("```python\n(.*?)```", readme, re.S)
    [output] = re.findall("```text\n(.*?)```", readme, re.S)
    exec(program, {})
    assert capsys.readouterr().out.rstrip() == output.rstrip()
