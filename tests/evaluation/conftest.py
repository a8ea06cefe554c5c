"""One store and one run serve all tests of a process."""

import pytest

from tests.evaluation.systems_on_hand import make_run, make_store


@pytest.fixture(scope="session")
def contrast_store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("contrast"))


@pytest.fixture(scope="session")
def contrast_run(contrast_store, tmp_path_factory):
    """s4to4 with random weights."""
    return make_run(contrast_store, tmp_path_factory.mktemp("runs") / "s4to4", {"before": 3})
