"""Devices by name."""

import pytest

from focat.errors import FocatError
from focat.hardware import device_named


def test_devices():
    assert device_named("cpu").type == "cpu"
    with pytest.raises(FocatError, match=r"^device = abacus: cannot be used here"):
        device_named("abacus")
    with pytest.raises(FocatError, match=r"^device = meta: computes nothing"):
        device_named("meta")
