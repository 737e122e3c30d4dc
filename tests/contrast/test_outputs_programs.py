"""Libraries and programs that write under a mount: what they leave is what they leave elsewhere."""

from __future__ import annotations

import pytest
from case_set import Set
from output_sets import PROGRAMS, label, parameters, set_label, whole_sets
from recorded import Recordings, check, check_staged


@pytest.mark.parametrize("case", parameters(PROGRAMS), ids=label)
def test_case(recordings: Recordings, case: tuple[Set, str, str]) -> None:
    check(recordings, *case)


@pytest.mark.parametrize("group", whole_sets(PROGRAMS), ids=set_label)
def test_all_is_in_the_output_directory(recordings: Recordings, group: Set) -> None:
    check_staged(recordings, group)
