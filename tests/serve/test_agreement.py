"""What the ranks of a job must be given alike: a difference is named."""

from __future__ import annotations

import pytest

from fanstore.errors import UsageError
from fanstore.job.agreement import check_agreement
from fanstore.startup import RankLost

SAME = {"version": "1 (messages of version 2)", "stage": "auto", "dataset": ["/a", "/b"]}


def without_version() -> dict[str, object]:
    return {name: value for name, value in SAME.items() if name != "version"}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([SAME, {**SAME, "stage": "full"}], "--stage is full on rank 1 and auto on rank 0"),
        ([SAME, SAME, {**SAME, "dataset": []}], "--dataset is  on rank 2 and /a, /b on rank 0"),
        (
            [SAME, {**SAME, "version": "2 (messages of version 3)", "stage": "full"}],
            "FanStore is 2 (messages of version 3) on rank 1 and 1 (messages of version 2) on rank",
        ),
        ([SAME, without_version()], "FanStore is an older one on rank 1 and 1 (messages"),
        ([without_version(), SAME], "on rank 1 and an older one on rank 0"),
    ],
)
def test_a_difference_is_named(answers: list[dict[str, object]], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(").replace(")", r"\)")):
        check_agreement(answers, 0)
    with pytest.raises(RankLost):
        check_agreement(answers, 1)


def test_what_is_alike_is_accepted() -> None:
    check_agreement([SAME, SAME, dict(SAME)], 0)
