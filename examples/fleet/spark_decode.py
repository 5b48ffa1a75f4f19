"""Decodes dumps on a Spark cluster to the tables of `nostall postmortem export`.

    spark-submit spark_decode.py --list LIST --out OUT --run 2026-11-22 [--symbols DIR]
    spark-submit spark_decode.py --store s3a://dumps --out s3a://tables --run 2026-11-22

LIST is a file with one path per line. Every worker must be able to read the paths. --store reads
dumps of up to 2 GiB from an object store instead. Each worker needs the wheel and pyarrow. The
tables are in OUT/TABLE/run=RUN. The same run again replaces its files.
"""

import argparse
from collections.abc import Iterator

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import nostall

# The table `dumps` is the last: when its files exist, all others do.
TABLES = ["records", "calls", "crashes", "dumps"]

# Maximum number of rows in a batch for Spark.
ROWS = 16384

# Number of dumps from an object store that a task has in memory at a time.
DUMPS = 16

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
source = parser.add_mutually_exclusive_group(required=True)
source.add_argument("--list", help="file with the path of a dump a line")
source.add_argument("--store", help="directory with the dumps, of any file system of Spark's")
parser.add_argument("--out", required=True, help="directory for the tables")
parser.add_argument("--run", required=True, help="name of this run, such as its date")
parser.add_argument("--symbols", help="file or directory that `nostall.Symbols` takes")
parser.add_argument("--redact", action="store_true", help="leave text out")
parser.add_argument("--partitions", type=int, default=64, help="number of tasks that decode")


def row_schema() -> pa.Schema:
    """Returns the schema of a row: its table, and a structure for each table."""
    tables = nostall.schemas()
    structures = [pa.field(name, pa.struct(list(tables[name]))) for name in TABLES]
    return pa.schema([pa.field("table", pa.string()), *structures])


def decoder(symbols: str | None, redact: bool):
    """Returns the function that Spark calls with the inputs of a partition."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = row_schema()
        maps = nostall.Symbols(symbols) if symbols else None
        for batch in batches:
            for row in batch.to_pylist():
                named = {"path": row["path"]} if "content" in row else {}
                tables = nostall.decode(
                    row.get("content", row["path"]),
                    input=row["input"],
                    symbols=maps,
                    redact=redact,
                    **named,
                )
                for name in TABLES:
                    for part in tables[name].to_batches(max_chunksize=ROWS):
                        yield whole_row(schema, name, part)

    return decode


def whole_row(schema: pa.Schema, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows of one table as rows of the schema."""
    count = rows.num_rows
    columns = [pa.repeat(table, count)]
    for field in list(schema)[1:]:
        if field.name == table:
            columns.append(pa.StructArray.from_arrays(rows.columns, fields=list(field.type)))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def inputs(spark: SparkSession, args: argparse.Namespace) -> DataFrame:
    """Returns one row per input, with its number."""
    if args.store:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        # The upper bits of an input's number are its partition's number.
        number = "monotonically_increasing_id() AS input"
        return files.load(args.store).selectExpr("path", "content", number)
    # The list is much smaller than the dumps: about 100 bytes per dump.
    lines = spark.read.text(args.list).where("value <> ''").collect()
    paths = list(enumerate(line.value for line in lines))
    return spark.createDataFrame(
        spark.sparkContext.parallelize(paths, args.partitions), "input long, path string"
    )


def decoded(spark: SparkSession, args: argparse.Namespace) -> DataFrame:
    """Returns the rows of all tables. Each has the columns of one, and null for the others."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    if args.store:
        # A batch has the dumps themselves, and is in memory. A list's batches only have paths.
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", DUMPS)
    decode = decoder(args.symbols, args.redact)
    return inputs(spark, args).mapInArrow(decode, from_arrow_schema(row_schema()))


def main() -> None:
    args = parser.parse_args()
    spark = SparkSession.builder.appName("nostall decode").getOrCreate()
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    # With Spark's default type, other engines see times without a time zone.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows = decoded(spark, args)
    # A dump is decoded once; four writes read its rows from the workers' disks.
    rows.persist(StorageLevel.DISK_ONLY)
    for table in TABLES:
        of_table = rows.where(rows.table == table).select(f"{table}.*")
        of_table.write.mode("overwrite").parquet(f"{args.out}/{table}/run={args.run}")
    rows.unpersist()


if __name__ == "__main__":
    main()
