"""`focat doctor`: what it finds, and what it says of what is not there."""

import json
import platform
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from focat import doctor
from focat.errors import FocatError
from focat.evaluation import comet
from focat.progress import NULL_PROGRESS
from tests.docs.pages import ROOT
from tests.evaluation.commands import focat


def test_quick_look(tmp_path):
    done = focat(tmp_path, "doctor", "--quick", "--json", "checks.json")
    checks = {c["name"]: c for c in json.loads((tmp_path / "checks.json").read_text(encoding="utf-8"))["checks"]}
    assert checks["Python"]["found"].startswith(platform.python_version())
    assert checks["torch"]["found"] == torch.__version__
    assert checks["disk"]["state"] in ("ready", "missing")
    assert "COMET" not in checks
    assert str(torch.__version__) in done.stdout


def test_every_extra_for_users_is_known():
    """Each extra that pyproject.toml declares has a row, by a package that it installs."""
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(doctor._EXTRAS) == set(declared) - {"bench", "dev", "docs", "kernels", "release"}
    for extra, (package, _) in doctor._EXTRAS.items():
        assert any(re.match(rf"{package}\b", requirement) for requirement in declared[extra])


def test_without_comet(tmp_path, monkeypatch):
    monkeypatch.setenv(comet.VARIABLE, str(tmp_path / "nothing"))
    check = doctor._comet()
    assert check.state == "optional"
    assert "focat doctor --install-comet" in check.remedy
    assert str(tmp_path / "nothing") in check.remedy


def test_environment_without_the_package(tmp_path, monkeypatch):
    """A real environment, in which COMET was never installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    monkeypatch.setenv(comet.VARIABLE, str(tmp_path / "env"))
    with pytest.raises(FocatError, match=r"No module named 'comet'.*focat doctor --install-comet"):
        comet.check()


def test_little_disk_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**30))
    done = focat(tmp_path, "doctor", "--quick", expect=1)
    assert "disk: make room" in done.stdout


def test_compiler_that_fails_is_no_end(monkeypatch):
    def broken(function):
        raise RuntimeError("no compiler\nat all")

    monkeypatch.setattr(torch, "compile", broken)
    check = doctor._compile()
    assert (check.state, check.found) == ("optional", "no compiler")
    assert "training.compile=never" in check.remedy


@pytest.mark.parametrize("available", [True, False])
def test_kernels_need_a_c_compiler(monkeypatch, available):
    monkeypatch.setattr(doctor.decode_attention, "is_available", lambda: available)
    check = doctor._c_compiler()
    assert check.state == ("ready" if available else "optional")
    assert ("gcc" in check.remedy) != available


def test_install_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv(comet.VARIABLE, str(tmp_path / "file" / "env"))
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FocatError, match=r"making .*env: .*the command was: "):
        comet.install(NULL_PROGRESS)


def test_where_the_environment_is(monkeypatch):
    monkeypatch.delenv(comet.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert str(comet.environment()) == "/cache/focat/comet"
    monkeypatch.setenv(comet.VARIABLE, "/elsewhere")
    assert str(comet.environment()) == "/elsewhere"
