"""The comparison with the known answers, and the printing."""

import json
from datetime import datetime, timezone

import duckdb
import pytest

import report

TIME = datetime(2026, 11, 20, 23, 32, 10, 689671, tzinfo=timezone.utc)
ANSWERS = {
    "new_this_week": [{"signature": "a1"}],
    "builds": [{"build": "6.1 #1", "dumps": 3, "crashed": 2}],
    "machines": [{"machine": "host-1", "first": TIME, "last": TIME}],
    "only_before": [
        {"signature": "a1", "symbol": "one"},
        {"signature": "a1", "symbol": "two"},
    ],
}
KNOWN = {
    "new_this_week": ["a1"],
    "builds": {"6.1 #1": {"dumps": 3, "crashes": 2}},
    "machines": {"host-1": [1795217530, 1795217530]},
    "only_before": {"a1": ["one", "two"]},
}
WRONG = {
    "new_this_week": ["a1", "a2"],
    "builds": {"6.1 #1": {"dumps": 3, "crashes": 3}},
    "machines": {"host-1": [1795217530, 1795217531]},
    "only_before": {"a1": ["one"]},
}


def test_the_known_answers_pass(tmp_path):
    (tmp_path / "known").write_text(json.dumps(KNOWN))
    report.check(ANSWERS, tmp_path / "known")


@pytest.mark.parametrize("name", list(KNOWN))
def test_one_other_answer_is_an_error_that_names_its_query(tmp_path, name):
    (tmp_path / "known").write_text(json.dumps({**KNOWN, name: WRONG[name]}))
    with pytest.raises(SystemExit, match=f"{name} differs"):
        report.check(ANSWERS, tmp_path / "known")


def test_every_query_is_compared():
    assert list(report.queries()) == list(KNOWN)


# Two dumps, each with a crash, a call and an uptime of one hour.
TABLES = """
CREATE TABLE dumps AS SELECT * FROM (VALUES
    ('d1', 'host-1', 'records', '6.1', '#1', 1, 3600000000000),
    ('d2', 'host-2', 'records', '6.1', '#1', 1, 3600000000000)
) AS rows(dump, machine, status, kernel, kernel_build, crashes, uptime);
CREATE TABLE crashes AS SELECT * FROM (VALUES
    ('d1', 'a1', 'panic', ['one'], TIMESTAMPTZ '2026-11-20 00:00:00+00'),
    ('d2', 'a2', 'oops', ['two'], TIMESTAMPTZ '2026-11-21 00:00:00+00')
) AS rows(dump, signature, class, frames, time);
CREATE TABLE calls AS SELECT * FROM (VALUES
    ('d1', 'one', 'entry', 'verified', false),
    ('d2', 'two', 'entry', 'verified', false)
) AS rows(dump, symbol, kind, trust, suspect);
"""


@pytest.mark.parametrize("name", list(KNOWN))
def test_a_dump_that_is_exported_twice_counts_once(name):
    query = report.queries()[name]
    engine = duckdb.connect()
    engine.execute(TABLES)
    once = engine.sql(query).fetchall()
    for table in ["dumps", "crashes", "calls"]:
        engine.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE dump = 'd1'")
    assert once and engine.sql(query).fetchall() == once


def test_an_answer_is_printed_with_its_first_rows(capsys):
    report.show("name", ["frames", "rate"], [(["panic", "oops"], 0.5)] * 11)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == ["== name: 11 rows", "frames  rate", "panic < oops  0.500"]
    assert printed[11:] == ["panic < oops  0.500", "...", ""]
