"""Ray Data on a local cluster: an actor dies mid-way, and every document is there once, as of one process."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

import focat
from focat.corpus.generated import generate
from focat.errors import FocatError
from focat.run import Run
from tests.docs.pages import Page
from tests.training.launcher import Launcher
from tests.translation.tiny import tiny_run

if "FOCAT_CLUSTER" not in os.environ:
    pytest.skip("Ray must start within 30 s, which a busy machine may not do; make cluster", allow_module_level=True)
ray = pytest.importorskip("ray", reason="needs the extra `ray`")
read_table = pytest.importorskip("pyarrow.parquet").read_table

from focat.ray import Actors, score_documents, translate_documents  # noqa: E402

ROWS = [
    {"id": i, "sentences": document.source, "references": document.target} for i, document in enumerate(generate(60, 9))
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Cores for two actors that translate, two that score, and the tasks that read and write."""
    ray.init(num_cpus=6, include_dashboard=False, logging_level="error", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return tiny_run(tmp_path_factory.mktemp("runs"))


def kill_busy_actor(output: Path, killed: list[int]) -> None:
    """Kill an actor while it translates, after some documents have been written."""
    late = time.monotonic() + 100
    while time.monotonic() < late and not killed:
        if not list(output.glob("*.parquet")):
            time.sleep(0.01)
            continue
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                title = (process / "cmdline").read_text(encoding="utf-8", errors="replace")
                if title.startswith("ray::MapWorker(MapBatches(_Translate)).submit"):  # so Ray calls one that is busy
                    os.kill(int(process.name), signal.SIGKILL)
                    killed.append(int(process.name))
                    return


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="finds processes in /proc")
def test_an_actor_dies_midway(run: Run, tmp_path: Path, launcher: Launcher, cluster: None) -> None:
    """The script of the documentation writes every document once, with the lines of `focat translate`."""
    (script,) = [block for _, block in Page("docs/scaling.md").blocks("python") if "focat.ray" in block]
    (tmp_path / "run").symlink_to(run.path)
    texts, alone = tmp_path / "documents.jsonl", tmp_path / "alone.jsonl"
    rows = [*ROWS, {"id": 60, "sentences": []}, {"id": 61, "sentences": ["Tom sleeps.", "", "He is old."]}]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    killed: list[int] = []
    killer = Thread(target=kill_busy_actor, args=(tmp_path / "translated", killed))
    killer.start()
    exec(compile(script.replace("/shared", str(tmp_path)), "scaling.md", "exec"), {})
    killer.join()
    assert killed
    launcher.focat(tmp_path, "translate", run.path, texts, "-o", alone, "--beam", "2", "--quiet")
    expected = [json.loads(line) for line in alone.read_text(encoding="utf-8").splitlines()]
    files = (tmp_path / "translated").glob("*.parquet")
    found = sorted((row for file in files for row in read_table(file).to_pylist()), key=lambda row: row["id"])
    assert [(row["id"], row["translations"]) for row in found] == [(row["id"], row["translations"]) for row in expected]


def test_scores(run: Run, cluster: None) -> None:
    """Of every sentence, as of one process; what is null stays so."""
    rows = [*ROWS[:3], {"id": 3, "sentences": None, "references": ["Sie ist alt."]}]
    actors = Actors(documents=2)
    found = score_documents(ray.data.from_items(rows), run.path, target="references", actors=actors, window=2)
    *scored, null = sorted(found.take_all(), key=lambda row: row["id"])
    assert (null["log_probabilities"], null["tokens"]) == (None, None)
    model = focat.load(run.path, "cpu")
    for row, given in zip(scored, rows[:3], strict=True):
        expected = model.score(given["sentences"], given["references"], window=2)
        assert list(row["tokens"]) == [len(score.tokens) for score in expected]
        assert list(row["log_probabilities"]) == pytest.approx([each.log_probability for each in expected], abs=1e-4)


def test_mistakes_are_found_before_any_actor_starts(run: Run, tmp_path: Path, cluster: None) -> None:
    documents = ray.data.from_items(ROWS[:2])
    for problem, arguments in {
        "the dataset has no column text; its columns: id, sentences, references": {"column": "text"},
        "column id holds int64; it should hold documents, lists of sentences": {"column": "id"},
        "the dataset has a column references already; drop or rename it": {"output": "references"},
        "decoding: beam = 0: should be greater than 0": {"beam": 0},
        "sample = True: a sample depends on the sentences before it; use focat translate": {"sample": True},
        "nbest = 2: only the best translations become a column": {"nbest": 2},
    }.items():
        with pytest.raises(FocatError) as error:
            translate_documents(documents, run.path, **arguments)  # type: ignore[arg-type]
        assert str(error.value).startswith(problem)
    with pytest.raises(FocatError, match="nowhere"):
        translate_documents(documents, tmp_path / "nowhere")
    with pytest.raises(FocatError, match=r"actors\.number = 0: should be at least 1"):
        Actors(number=0)
