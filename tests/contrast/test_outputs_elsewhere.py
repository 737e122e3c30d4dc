"""Outputs where the mount lies over the dataset's own original, and of another user than root."""

from __future__ import annotations

import pytest
from arena import SELF
from case_set import Set
from output_sets import DENIED, OVER, label, parameters
from recorded import Recordings, check, check_staged


@pytest.mark.parametrize("case", parameters(OVER + DENIED), ids=label)
def test_case(recordings: Recordings, case: tuple[Set, str, str]) -> None:
    check(recordings, *case)


@pytest.mark.parametrize("group", OVER + DENIED, ids=lambda group: group.label)
def test_all_is_in_the_output_directory(recordings: Recordings, group: Set) -> None:
    check_staged(recordings, group)


@pytest.mark.skipif(SELF, reason="there is no FanStore to look at")
def test_the_original_is_untouched(recordings: Recordings) -> None:
    for group in OVER:
        recordings.seen(group, *group.parameters()[0])
    assert recordings.original_is_untouched()
