"""Common parts of duckdb_report.py and spark_query.py: queries, printing, known answers."""

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent


def queries() -> dict[str, str]:
    """Returns the queries of queries.sql by name."""
    parts = re.split(r"^-- query: (\w+)\n", (FOLDER / "queries.sql").read_text(), flags=re.M)
    return dict(zip(parts[1::2], (part.rstrip().rstrip(";") for part in parts[2::2])))


def show(name: str, columns: list[str], rows: list[tuple]) -> None:
    """Prints the first rows of an answer."""
    print(f"== {name}: {len(rows)} rows\n" + "  ".join(columns))
    for row in rows[:10]:
        print("  ".join(map(text, row)))
    print("...\n" if len(rows) > 10 else "")


def text(value: object) -> str:
    """Returns a value as text. The items of a list are joined."""
    if isinstance(value, float):
        return f"{value:.3f}"
    return " < ".join(value) if isinstance(value, list) else str(value)


def check(answers: dict[str, list[dict]], known: Path) -> None:
    """Exits with an error if an answer differs from that of `nostall postmortem synth`."""
    want = json.loads(known.read_text())
    second = lambda time: int(time.timestamp())
    only_before: dict[str, list[str]] = {}
    for row in answers["only_before"]:
        only_before.setdefault(row["signature"], []).append(row["symbol"])
    got = {
        "new_this_week": sorted(row["signature"] for row in answers["new_this_week"]),
        "builds": {
            row["build"]: {"dumps": row["dumps"], "crashes": row["crashed"]}
            for row in answers["builds"]
        },
        "machines": {
            row["machine"]: [second(row["first"]), second(row["last"])]
            for row in answers["machines"]
        },
        "only_before": only_before,
    }
    for name, answer in got.items():
        if answer != want[name]:
            raise SystemExit(f"{name} differs\n  here:  {answer}\n  known: {want[name]}")
    print(f"all {len(got)} answers are the known ones")
