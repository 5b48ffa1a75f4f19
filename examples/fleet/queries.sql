-- Four questions to a fleet's tables, in the SQL that DuckDB and Spark have in common. duckdb.sql
-- and spark_query.py make the views `dumps`, `calls` and `crashes`. A dump that is in the tables
-- twice counts once. All four work on tables that `--redact` made.

-- query: new_this_week
-- Which crash signature is new in the last 7 days? The newest crash ends them. Crashes without a
-- time are left out.
WITH seen AS (
    SELECT signature, min(time) AS first, max(time) AS last, count(DISTINCT dump) AS crashes,
        any_value(class) AS class, any_value(frames) AS frames
    FROM crashes
    WHERE signature IS NOT NULL
    GROUP BY signature
)
SELECT signature, class, frames, crashes, first
FROM seen
WHERE first > (SELECT max(last) FROM seen) - INTERVAL 7 DAY
ORDER BY crashes DESC, signature;

-- query: builds
-- Which kernel build has which rate? A dump without a crash is of a planned restart. The hours
-- are those that the kernels ran until their dumps. Dumps that cannot be read are left out.
WITH once AS (
    SELECT kernel, kernel_build, max(crashes) AS crashes, max(uptime) AS uptime
    FROM dumps
    WHERE kernel IS NOT NULL AND status <> 'error'
    GROUP BY kernel, kernel_build, dump
)
SELECT concat(kernel, ' ', kernel_build) AS build,
    count(*) AS dumps,
    count(CASE WHEN crashes > 0 THEN 1 END) AS crashed,
    count(CASE WHEN crashes > 0 THEN 1 END) * 1e0 / count(*) AS rate,
    sum(uptime / 3.6e12) AS hours
FROM once
GROUP BY kernel, kernel_build
ORDER BY rate DESC, build;

-- query: machines
-- First and last crash of each machine.
SELECT machine, min(crashes.time) AS first, max(crashes.time) AS last,
    count(DISTINCT dump) AS crashes, count(DISTINCT signature) AS signatures
FROM crashes
JOIN dumps USING (dump)
GROUP BY machine
ORDER BY machine;

-- query: only_before
-- Which functions were called before crashes of one signature, and before no other crash? Rare
-- ones are left out: at least half of the signature's traces have the function.
WITH traced AS (
    SELECT DISTINCT crashes.signature, calls.dump, calls.symbol
    FROM calls
    JOIN crashes USING (dump)
    WHERE calls.symbol IS NOT NULL AND calls.trust <> 'unverified' AND NOT calls.suspect
        AND calls.kind <> 'exit' AND crashes.signature IS NOT NULL
),
traces AS (
    SELECT signature, count(DISTINCT dump) AS dumps FROM traced GROUP BY signature
)
SELECT any_value(traced.signature) AS signature, symbol, count(DISTINCT dump) AS dumps
FROM traced
JOIN traces ON traces.signature = traced.signature
GROUP BY symbol
HAVING count(DISTINCT traced.signature) = 1 AND count(DISTINCT dump) * 2 >= max(traces.dumps)
ORDER BY signature, symbol;
