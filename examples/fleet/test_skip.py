"""Engines read the row groups of one dump, and skip the others.

`make fleet-duckdb` runs the tests, with nostall-fleet in PATH.
"""

import subprocess
from pathlib import Path

import duckdb
import pyarrow.dataset
import pytest

FIXTURES = Path(__file__).parents[2] / "crates/drivers/pstore/tests/fixtures"
DUMPS = [FIXTURES / name / "image.bin" for name in ["plain", "ecc16", "linux-6.12", "armv7"]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The tables of four dumps, with a file of each."""
    out = tmp_path_factory.mktemp("tables")
    subprocess.run(["nostall-fleet", "export", "--batch", "4K", "--out", out, *DUMPS], check=True)
    assert len(list(out.glob("records-*.parquet"))) == len(DUMPS)
    return out


def test_duckdb_excludes_the_row_groups_of_other_dumps_by_their_filter(tables):
    records = f"{tables}/records-*.parquet"
    dumps = duckdb.sql(f"SELECT dump FROM '{tables}/dumps-*.parquet' ORDER BY input").fetchall()
    for (dump,) in dumps:
        found = duckdb.execute(
            "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'dump', ?)", [records, dump]
        ).fetchall()
        assert sorted(found) == [(False,)] + [(True,)] * (len(DUMPS) - 1)


def test_pyarrow_reads_the_row_groups_of_one_input_alone(tables):
    records = pyarrow.dataset.dataset(sorted(tables.glob("records-*.parquet")))
    groups = [fragment.split_by_row_group() for fragment in records.get_fragments()]
    assert sum(map(len, groups)) == len(DUMPS)
    for number in range(len(DUMPS)):
        one = pyarrow.dataset.field("input") == number
        read = [
            group
            for fragment in records.get_fragments(one)
            for group in fragment.split_by_row_group(one)
        ]
        assert len(read) == 1
