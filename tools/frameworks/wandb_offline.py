# does: a run offline whose directory is in the mount: log, an artifact of an input
# needs: wandb
# remark: its core, which writes the log, is written in Go; without `--trap` the log is lost
import os

from case import run

os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_ERROR_REPORTING="false")


def make(directory):
    (directory / "a.txt").write_text("a\n" * 100)


def use(directory):
    import wandb

    for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT"):
        os.environ[f"WANDB_{name}_DIR"] = str(directory / "out" / name.lower())
    with wandb.init(project="p", id="r", dir=directory / "out") as job:
        for step in range(10):
            job.log({"loss": 1 / (step + 1)})
        artifact = wandb.Artifact("a", "dataset")
        artifact.add_file(str(directory / "a.txt"))
        job.log_artifact(artifact)
        print(artifact.digest)
    print(sorted(path.name for path in (directory / "out").rglob("*.wandb")))


run(make, use)
