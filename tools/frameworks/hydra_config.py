# does: a configuration composed from files of the mount, run directories and logs there
# needs: hydra-core
import sys

from case import run


def make(directory):
    (directory / "conf" / "model").mkdir(parents=True)
    (directory / "conf" / "config.yaml").write_text("defaults: [model: small]\nlr: 0.1\n")
    for n, name in enumerate(("small", "large")):
        (directory / "conf" / "model" / f"{name}.yaml").write_text(f"layers: {n}\n")


def use(directory):
    import hydra

    @hydra.main(version_base=None, config_path=str(directory / "conf"), config_name="config")
    def job(config):
        print(config.lr, config.model.layers)

    where = [f"hydra.{kind}.dir={directory}/out/runs" for kind in ("run", "sweep")]
    sys.argv = ["job", "-m", "model=small,large", "lr=0.2", "hydra/hydra_logging=disabled", *where]
    job()


run(make, use)
