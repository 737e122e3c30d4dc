"""ImageFolder beside torchvision's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
theirs = pytest.importorskip("torchvision.datasets", reason="torchvision is not installed")
Image = pytest.importorskip("PIL.Image")

from deep import make_deep  # noqa: E402
from loader_sets import packed  # noqa: E402

from fanstore.torch import ImageFolder  # noqa: E402
from fanstore.trees import remove_tree  # noqa: E402


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "images"
    names = ("b/2.png", "b/1.JPG", "a/x/3.bmp", "a/x.png", "a/y/z/4.tif", "Z/5.webp", "Z/no.txt")
    for shade, name in enumerate(names):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".txt":
            path.write_text("no image")
        else:
            Image.new("L", (5, 3), 30 * shade).save(path)
    (top / "beside.png").write_bytes((top / "b" / "2.png").read_bytes())
    (top / "b" / "linked").symlink_to("../a/x")
    return top


def described(folder: Any) -> Any:
    samples = [
        (str(Path(path).relative_to(folder.root)), target) for path, target in folder.samples
    ]
    contents = [(image.mode, image.size, image.tobytes(), target) for image, target in folder]
    return folder.classes, folder.class_to_idx, folder.targets, samples, contents, folder.extensions


def test_images_are_those_of_torchvision(source: Path) -> None:
    expected = described(theirs.ImageFolder(source))
    assert described(ImageFolder(source)) == expected
    assert described(ImageFolder(packed(source))) == expected
    folder = ImageFolder(source)
    assert folder.samples == theirs.ImageFolder(source).samples
    assert folder.imgs is folder.samples


def test_transforms_and_choices_are_those_of_torchvision(source: Path) -> None:
    options = {
        "transform": lambda image: image.size, "target_transform": lambda target: -target,
        "is_valid_file": lambda path: path.endswith(("png", "txt")), "allow_empty": True,
        "loader": lambda file: Image.new("L", (4, 4)),
    }  # fmt: skip
    expected = list(theirs.ImageFolder(source, **options))
    assert list(ImageFolder(source, **options)) == expected
    assert list(ImageFolder(packed(source), **options)) == expected


def said(make: Callable[[], Any]) -> tuple[type, str]:
    with pytest.raises(FileNotFoundError) as raised:
        make()
    return raised.type, str(raised.value)


def test_exceptions_are_those_of_torchvision(source: Path, tmp_path: Path) -> None:
    (tmp_path / "hollow").mkdir()
    (source / "void").mkdir()
    cases: list[tuple[Path, dict[str, Any]]] = [
        (tmp_path / "hollow", {}), (tmp_path / "nothing", {}), (source, {}),
        (source, {"is_valid_file": lambda path: False}),
    ]  # fmt: skip
    for root, options in cases:
        expected = said(lambda: theirs.ImageFolder(root, **options))  # noqa: B023
        assert said(lambda: ImageFolder(root, **options)) == expected  # noqa: B023
    assert ImageFolder(source, allow_empty=True).classes == ["Z", "a", "b", "void"]


def test_a_deep_class_is_walked(tmp_path: Path) -> None:
    make_deep(tmp_path / "images", 1500, "1.png")
    assert [len(Path(path).parents) for path, _ in ImageFolder(tmp_path / "images").samples] == [
        len((tmp_path / "images").parents) + 1501
    ]
    remove_tree(tmp_path / "images")
