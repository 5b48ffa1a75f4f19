-- Views of the tables below the directory in the variable `tables`, from `export` or from
-- spark_decode.py. In DuckDB's shell, in this directory:
--
--     SET VARIABLE tables = 'OUT';
--     .read duckdb.sql
--     .read queries.sql

-- Files of a table: dumps-00000-00.parquet, or dumps/run=1/part-0.parquet. Spark's files that are
-- not complete are below _temporary.
CREATE OR REPLACE MACRO files_of(name) AS (
    SELECT list(file ORDER BY file)
    FROM glob(getvariable('tables') || '/**/*.parquet')
    WHERE regexp_matches(file, '/' || name || '(-[^/]*|/.*)\.parquet$')
        AND NOT contains(file, '/_temporary/')
);
SET VARIABLE dumps_files = files_of('dumps');
SET VARIABLE records_files = files_of('records');
SET VARIABLE calls_files = files_of('calls');
SET VARIABLE crashes_files = files_of('crashes');

-- Later versions of the tables have more columns: `union_by_name`.
CREATE OR REPLACE VIEW dumps AS
    SELECT * FROM read_parquet(getvariable('dumps_files'), union_by_name = true);
CREATE OR REPLACE VIEW records AS
    SELECT * FROM read_parquet(getvariable('records_files'), union_by_name = true);
CREATE OR REPLACE VIEW calls AS
    SELECT * FROM read_parquet(getvariable('calls_files'), union_by_name = true);
CREATE OR REPLACE VIEW crashes AS
    SELECT * FROM read_parquet(getvariable('crashes_files'), union_by_name = true);
