"""Outputs of a job of two ranks, as in a plain directory."""

from __future__ import annotations

import pytest
from case_set import Set
from mpiexec import needs_ranks
from output_sets import QUICK_RANKS, RANKS, label, parameters, set_label, whole_sets
from recorded import Recordings, check, check_staged

pytestmark = needs_ranks


@pytest.mark.parametrize("case", parameters(RANKS, QUICK_RANKS), ids=label)
def test_case(recordings: Recordings, case: tuple[Set, str, str]) -> None:
    check(recordings, *case)


@pytest.mark.parametrize("group", whole_sets(RANKS, QUICK_RANKS), ids=set_label)
def test_all_is_in_the_output_directory(recordings: Recordings, group: Set) -> None:
    check_staged(recordings, group)
