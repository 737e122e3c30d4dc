# does: a Pool from a TSV file, training with its logs and snapshots in the mount, save, load
# needs: catboost numpy
import catboost
import numpy as np
from case import run


def make(directory):
    np.savetxt(directory / "a.tsv", np.random.default_rng(0).normal(size=(200, 5)), delimiter="\t")


def use(directory):
    pool = catboost.Pool(str(directory / "a.tsv"))
    model = catboost.CatBoostRegressor(
        iterations=5,
        thread_count=1,
        train_dir=str(directory / "out" / "info"),
        save_snapshot=True,
        snapshot_interval=0,
        logging_level="Silent",
    )
    model.fit(pool)
    model.save_model(str(directory / "out" / "m.cbm"))
    again = catboost.CatBoostRegressor().load_model(str(directory / "out" / "m.cbm"))
    print(again.tree_count_, again.predict(pool).round(3)[:3])


run(make, use)
