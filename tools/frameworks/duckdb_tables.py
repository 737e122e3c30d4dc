# does: query parquet and CSV files, attach a database, write one, COPY TO parquet
# needs: duckdb
import duckdb
from case import run


def make(directory):
    base = duckdb.connect(str(directory / "a.duckdb"))
    base.execute("create table t as select range x from range(10000)")
    base.execute(f"copy t to '{directory}/a.parquet'")
    base.execute(f"copy t to '{directory}/a.csv'")
    base.close()


def use(directory):
    base = duckdb.connect(str(directory / "out" / "b.duckdb"))
    for name in ("*.parquet", "a.csv"):
        print(base.execute(f"select sum(x) from '{directory}/{name}'").fetchone())
    base.execute(f"attach '{directory}/a.duckdb' as a (read_only)")
    base.execute("create table u as select x, x % 10 k from a.t order by k")
    base.execute("checkpoint")
    base.execute(f"copy u to '{directory}/out/parts' (format parquet, partition_by (k))")
    base.close()
    base = duckdb.connect(str(directory / "out" / "b.duckdb"), read_only=True)
    print(base.execute(f"select count(*) from '{directory}/out/parts/*/*.parquet'").fetchone())
    print(base.execute("select sum(x) from u").fetchone())


run(make, use)
