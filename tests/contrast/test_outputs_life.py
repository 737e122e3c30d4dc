"""Who sees an output when, and what the end of a process means for what it has open."""

from __future__ import annotations

import pytest
from case_set import Set
from output_sets import LIFE, label, parameters, set_label, whole_sets
from recorded import Recordings, check, check_staged


@pytest.mark.parametrize("case", parameters(LIFE), ids=label)
def test_case(recordings: Recordings, case: tuple[Set, str, str]) -> None:
    check(recordings, *case)


@pytest.mark.parametrize("group", whole_sets(LIFE), ids=set_label)
def test_all_is_in_the_output_directory(recordings: Recordings, group: Set) -> None:
    check_staged(recordings, group)
