"""The history of a cluster's metadata, asked with DuckDB.

    kraftline pipeline history --input NODES --output OUT
    python with_duckdb.py OUT

NODES are log directories of nodes that run, or copies. OUT has a folder of Parquet files for each
table.
"""

import sys

import duckdb

TABLES = ("topics", "partitions", "brokers", "configs", "leader_changes", "under_replicated")
STATES = """
    SELECT partition, leader, leader_epoch, isr
    FROM partitions WHERE topic = ? ORDER BY partition, valid_from_offset
"""


def opened(folder: str) -> duckdb.DuckDBPyConnection:
    """A connection with a view for each table of a history that has rows."""
    connection = duckdb.connect()
    for table in TABLES:
        files = f"{folder}/{table}/**/*.parquet"
        if connection.execute("SELECT count(*) FROM glob(?)", [files]).fetchone() != (0,):
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}')")
    return connection


def states(folder: str, topic: str) -> list[tuple[int, int, int, list[int]]]:
    """Each state that partitions of a topic have had: number, leader, its epoch, ISR."""
    return opened(folder).execute(STATES, [topic]).fetchall()


if __name__ == "__main__":
    opened(sys.argv[1]).sql("SELECT * FROM leader_changes ORDER BY ts").show()
