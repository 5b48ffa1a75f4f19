"""Answers the queries of queries.sql with DuckDB.

    python duckdb_report.py OUT [--known answers.json]

OUT is the directory that `nostall postmortem export` or spark_decode.py wrote.
"""

import argparse
from pathlib import Path

import duckdb

import report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", metavar="OUT", help="directory with the tables")
    parser.add_argument("--known", type=Path, help="answers of `nostall postmortem synth`")
    args = parser.parse_args()
    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    engine.execute("SET VARIABLE tables = ?", [args.tables])
    engine.execute((report.FOLDER / "duckdb.sql").read_text())
    answers = {}
    for name, query in report.queries().items():
        result = engine.sql(query)
        rows = result.fetchall()
        report.show(name, result.columns, rows)
        answers[name] = [dict(zip(result.columns, row)) for row in rows]
    if args.known:
        report.check(answers, args.known)


if __name__ == "__main__":
    main()
