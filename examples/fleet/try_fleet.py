"""Tries the examples on a made fleet, and compares all answers with the known ones.

    python try_fleet.py --command target/release/nostall-fleet --work DIR [--dumps N] [--batch SIZE] [--spark]

The fleet is exported in two shards. One of them is killed half-way in a second directory; run
again, it has to give the same files. With --spark, Spark answers the queries too, and decodes the
fleet with the wheel.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb

import report

SHARDS = ["1/2", "2/2"]


def run(*command: object, **options) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)


def export(args: argparse.Namespace, out: Path, shard: str) -> list[str]:
    symbols = args.fleet / "symbols"
    options = ["--out", out, "--shard", shard, "--batch", args.batch, "--symbols", symbols]
    return [str(part) for part in [args.command, "export", *options, args.fleet / "dumps"]]


def files(folder: Path) -> dict[str, bytes]:
    """Returns the files of the tables."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def kill_and_resume(args: argparse.Namespace, whole: Path, half: Path) -> None:
    """Kills an export after its first batch, runs it again, and compares the files."""
    command = export(args, half, SHARDS[0])
    print("+", *command, "& kill -9 $!", flush=True)
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not list(half.glob("dumps-*.parquet")) and killed.poll() is None:
        time.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    if killed.wait() != -signal.SIGKILL:
        raise SystemExit("the export ended before it was killed: give a smaller --batch")
    want = {name: text for name, text in files(whole).items() if "-1of2-" in name}
    some = files(half)
    if not some.items() < want.items():
        raise SystemExit("a killed export has a file that is not complete")
    run(*command)
    if files(half) != want:
        raise SystemExit("the export that went on gave other files")
    print(f"killed with {len(some)} of {len(want)} files; run again, all are the same\n")


def spark(script: str, *arguments: object) -> None:
    """Runs a script with Spark on two threads of this machine."""
    folder = Path(sys.executable).parent
    submit = [folder / "spark-submit", "--master", "local[2]", "--driver-memory", "2g"]
    settings = ["spark.ui.enabled=false", "spark.sql.shuffle.partitions=4", "spark.log.level=ERROR"]
    settings = [part for setting in settings for part in ["--conf", setting]]
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    run(*submit, *settings, report.FOLDER / script, *arguments, env=variables)


def same_rows(one: Path, other: Path) -> None:
    """Checks that Spark decoded the rows that `export` decoded."""
    for table in ["dumps", "records", "calls", "crashes"]:
        [left, right] = (
            f"SELECT * FROM read_parquet('{files}', hive_partitioning = false)"
            for files in [f"{one}/{table}-*.parquet", f"{other}/{table}/run=1/*.parquet"]
        )
        [types, others] = (duckdb.sql(rows).types for rows in [left, right])
        if types != others:
            raise SystemExit(f"{table}: the types differ\n  {types}\n  {others}")
        query = f"SELECT count(*) FROM (({left} EXCEPT ALL {right}) UNION ALL ({right} EXCEPT ALL {left}))"
        [(differ,)] = duckdb.sql(query).fetchall()
        [(rows,)] = duckdb.sql(f"SELECT count(*) FROM ({left})").fetchall()
        if differ or not rows:
            raise SystemExit(f"{table}: {differ} of {rows} rows differ")
        print(f"{table}: Spark decoded the same {rows} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", type=Path, required=True, help="nostall-fleet")
    parser.add_argument("--work", type=Path, required=True, help="directory, which is removed first")
    parser.add_argument("--dumps", type=int, default=2000)
    parser.add_argument("--batch", default="16M", help="size of a batch: several make a shard")
    parser.add_argument("--spark", action="store_true")
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.fleet = args.work / "fleet"
    known = args.fleet / "answers.json"
    tables, half = args.work / "tables", args.work / "half"

    args.work.mkdir(parents=True)
    run(args.command, "synth", "--dumps", args.dumps, "--seed", 1, "--out", args.fleet)
    for shard in SHARDS:
        run(*export(args, tables, shard))
    kill_and_resume(args, tables, half)
    run(sys.executable, report.FOLDER / "duckdb_report.py", tables, "--known", known)
    if args.spark:
        spark("spark_query.py", tables, "--known", known)
        paths = sorted(path for path in (args.fleet / "dumps").rglob("*") if path.is_file())
        listed = args.work / "list"
        listed.write_text("".join(f"{path}\n" for path in paths))
        symbols = args.fleet / "symbols"
        decode = ["--list", listed, "--out", args.work / "spark", "--run", 1, "--symbols", symbols]
        spark("spark_decode.py", *decode, "--partitions", 4)
        same_rows(tables, args.work / "spark")
        spark("spark_query.py", args.work / "spark", "--known", known)
        run(sys.executable, report.FOLDER / "duckdb_report.py", args.work / "spark", "--known", known)
    print("fleet: all answers are the known ones")


if __name__ == "__main__":
    main()
