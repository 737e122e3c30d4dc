# does: a run tracked in files of the mount: parameters, metrics, an artifact
# needs: mlflow-skinny
import os

from case import run

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"


def make(directory):
    (directory / "a.txt").write_text("a\n" * 100)


def use(directory):
    import mlflow

    mlflow.set_tracking_uri((directory / "out" / "runs").as_uri())
    mlflow.set_experiment("e")
    with mlflow.start_run(run_name="r") as job:
        mlflow.log_param("lr", 0.1)
        for step in range(5):
            mlflow.log_metric("loss", 1 / (step + 1), step=step)
        mlflow.log_artifact(directory / "a.txt")
    again = mlflow.get_run(job.info.run_id)
    print(again.data.params, again.data.metrics, again.info.status)
    print([f.path for f in mlflow.artifacts.list_artifacts(run_id=job.info.run_id)])


run(make, use)
