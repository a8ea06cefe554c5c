"""`focat demo` as a user runs it, with too little training to learn anything: what it must not need training for."""

import json
import os
import subprocess
import sys

import pytest

SHORT = [
    "data.train.0.documents=200",
    "data.tokenizer.vocabulary=500",
    "training.budget.updates=8",
    "training.samples=1",
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "focat", "demo", *SHORT, "--json", "figures.json"]
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_base_is_at_chance_exactly(demo):
    """By construction of the suites: no amount of training can change it."""
    folder, _ = demo
    accuracy = json.loads((folder / "figures.json").read_text(encoding="utf-8"))["accuracy"]["base"]
    chance = {"pronoun (er, sie, es)": 1 / 3, "address (du, Sie)": 1 / 2, "word choice": 1 / 2, "elided verb": 1 / 5}
    for question, expected in chance.items():
        beyond = {distance: share for distance, share in accuracy[question].items() if distance != "0"}
        assert set(beyond) == {"1", "2", "3"}
        assert list(beyond.values()) == pytest.approx([expected] * 3)


def test_it_shows_and_keeps_what_it_made(demo):
    folder, shown = demo
    assert "Right answers, %" in shown
    assert "focat inspect demo/store" in shown
    for system in ("base", "focused"):
        assert (folder / "demo" / system / "best").read_text().strip() == "0000008"
