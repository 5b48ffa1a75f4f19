"""Decoding on Spark, in one process. `make fleet` runs the tests."""

import os
import shutil
import sys
from pathlib import Path

import pytest

os.environ["PYSPARK_PYTHON"] = sys.executable
# Workers import spark_decode: as a script, Spark sends it to them.
os.environ["PYTHONPATH"] = str(Path(__file__).parent)

from pyspark.sql import SparkSession  # noqa: E402

import spark_decode  # noqa: E402

ROOT = Path(__file__).parents[2]
DUMP = ROOT / "crates/drivers/pstore/tests/fixtures/plain/image.bin"


@pytest.fixture(scope="module")
def spark():
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def dumps(tmp_path):
    """A directory of a machine with a dump, one that is no memory, and an empty one."""
    folder = tmp_path / "dumps/host-3"
    folder.mkdir(parents=True)
    shutil.copy(DUMP, folder / "1")
    (folder / "2").write_bytes(b"\x7fELF\x02\x01\x01")
    (folder / "3").touch()
    return folder.parent


def decode(spark, dumps, *arguments):
    options = spark_decode.parser.parse_args([*arguments, "--out", "", "--run", "1"])
    return spark_decode.decoded(spark, options)


def rows(decoded, table, columns):
    rows = decoded.where(decoded.table == table).select(f"{table}.*").select(columns).collect()
    return sorted(tuple(row) for row in rows)


def test_decoding_has_no_shuffle(spark, dumps, tmp_path):
    (tmp_path / "list").write_text(f"{dumps}/host-3/1\n")
    for source in [["--list", str(tmp_path / "list")], ["--store", str(dumps)]]:
        decoded = decode(spark, dumps, *source)
        for table in spark_decode.TABLES:
            one = decoded.where(decoded.table == table).select(f"{table}.*")
            plan = one._jdf.queryExecution().executedPlan().toString()
            assert "MapInArrow" in plan and "Exchange" not in plan


def test_a_bad_dump_of_a_list_is_a_row(spark, dumps, tmp_path):
    (tmp_path / "list").write_text(f"{dumps}/host-3/1\n\n{dumps}/host-3/3\n/does/not/exist\n")
    decoded = decode(spark, dumps, "--list", str(tmp_path / "list"))
    want = [(0, "host-3", "records"), (1, "host-3", "error"), (2, "not", "error")]
    assert rows(decoded, "dumps", ["input", "machine", "status"]) == want
    assert [row[1:] for row in rows(decoded, "crashes", ["input", "class"])] == [("sysrq",)]


def test_the_dumps_of_an_object_store_have_their_machine_and_empty_ones_are_left_out(spark, dumps):
    decoded = decode(spark, dumps, "--store", str(dumps), "--redact")
    assert [status for (status,) in rows(decoded, "dumps", ["status"])] == ["error", "records"]
    [(path,)] = set(rows(decoded, "dumps", ["path"]))
    assert path is None
    decoded = decode(spark, dumps, "--store", str(dumps))
    assert set(rows(decoded, "dumps", ["machine"])) == {("host-3",)}
    assert rows(decoded, "crashes", ["class"]) == [("sysrq",)]
