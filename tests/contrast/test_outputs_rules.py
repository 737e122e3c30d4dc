"""Each rule about outputs, as in a plain directory: names, errnos, contents, listings."""

from __future__ import annotations

import pytest
from case_set import Set
from output_sets import RULES, label, parameters, set_label, whole_sets
from recorded import Recordings, check, check_staged


@pytest.mark.parametrize("case", parameters(RULES), ids=label)
def test_case(recordings: Recordings, case: tuple[Set, str, str]) -> None:
    check(recordings, *case)


@pytest.mark.parametrize("group", whole_sets(RULES), ids=set_label)
def test_all_is_in_the_output_directory(recordings: Recordings, group: Set) -> None:
    check_staged(recordings, group)
