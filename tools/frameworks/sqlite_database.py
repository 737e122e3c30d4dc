# does: a database read, and one written (Python's own sqlite3)
# needs:
import sqlite3

from case import run


def make(directory):
    with sqlite3.connect(directory / "a.db") as base:
        base.execute("create table t (x)")
        base.executemany("insert into t values (?)", [(n,) for n in range(1000)])
    base.close()


def use(directory):
    with sqlite3.connect(f"file:{directory}/a.db?mode=ro", uri=True) as base:
        print(base.execute("select sum(x) from t").fetchone())
    with sqlite3.connect(directory / "out" / "b.db") as base:
        base.execute("create table t (x)")
        base.execute("insert into t values (7)")
    base.close()
    with sqlite3.connect(directory / "out" / "b.db") as base:
        print(base.execute("select x from t").fetchone())


run(make, use)
