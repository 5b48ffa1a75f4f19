"""Answers the queries of queries.sql with Spark, on one machine or a cluster.

    spark-submit --py-files report.py --files queries.sql spark_query.py OUT [--known answers.json]

OUT is the directory or object store that `nostall postmortem export` or spark_decode.py wrote.
"""

import argparse
from pathlib import Path

from pyspark.sql import SparkSession

import report

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("tables", metavar="OUT", help="directory with the tables")
parser.add_argument("--known", type=Path, help="answers of `nostall postmortem synth`")


def main() -> None:
    args = parser.parse_args()
    spark = SparkSession.builder.appName("nostall queries").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for table in ["dumps", "calls", "crashes"]:
        # From `export` or from spark_decode.py.
        files = f"{args.tables}/{{{table}-*.parquet,{table}}}"
        spark.read.option("mergeSchema", "true").parquet(files).createOrReplaceTempView(table)
    answers = {}
    for name, query in report.queries().items():
        rows = spark.sql(query).collect()
        columns = list(rows[0].asDict()) if rows else []
        report.show(name, columns, [tuple(row) for row in rows])
        answers[name] = [row.asDict() for row in rows]
    if args.known:
        report.check(answers, args.known)


if __name__ == "__main__":
    main()
