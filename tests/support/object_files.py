"""The real files of outputs in a job's directory."""

from __future__ import annotations

import os
from pathlib import Path

from fanstore.outputs.model.entries import OBJECTS
from fanstore.outputs.stageout.rescue import object_file


def names_of_objects(job: str) -> list[str]:
    """Returns the names of those on this node."""
    folder = os.path.join(job, OBJECTS)
    return sorted(name for _, _, names in os.walk(folder) for name in names)


def make_object(job: Path, object_id: int, text: str) -> None:
    """Writes the file of an object."""
    path = Path(os.fsdecode(object_file(str(job), object_id)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
