"""`focat prepare` with what users get wrong, as they would run it: one line that names the file and says what to do,
exit code 2, and a store without broken pieces, so that the same command succeeds once the fault is mended.
"""

from __future__ import annotations

import lzma
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from focat.config import load_settings
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.progress import NULL_PROGRESS
from tests.corpus.test_prepare import files_in
from tests.corpus.test_prepare_interrupted import ROOT, write_config

PREPARE = [sys.executable, "-m", "focat", "prepare"]


def seen_by_the_user(config: Path, *overrides: str, before: Callable[[], None] | None = None) -> str:
    """Run the command, which must fail as it should; returns the line that says why."""
    command = [*PREPARE, str(config), *overrides]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, preexec_fn=before)
    return the_one_line(done.returncode, done.stdout, done.stderr)


def the_one_line(code: int, output: str, errors: str) -> str:
    assert code == 2, errors
    assert output == ""
    *progress, line = errors.splitlines()
    assert line.startswith("focat: ")
    # What comes before it is progress, and says that it stopped.
    assert all(shown.split(" in ")[0].endswith((" done", " stopped")) for shown in progress), progress
    return line


def assert_it_succeeds_now(config: Path, *changes: str) -> None:
    """Over what the failure left behind, and to the same bytes as without it."""
    data = load_settings(config, changes).data
    prepare(data, NULL_PROGRESS)
    fresh = data.model_copy(update={"store": data.store.with_name("fresh")})
    prepare(fresh, NULL_PROGRESS)
    assert files_in(data.store) == files_in(fresh.store)


def test_languages_that_are_not_set_are_named(tmp_path: Path) -> None:
    """They have defaults, which are right for few."""
    config, notice = write_config(tmp_path, "config", 40), "data.source_language is not set: en is taken\n"
    command = [*PREPARE, str(config)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{notice}data.target_language is not set: de is taken\n")
    done = subprocess.run([*command, "data.source_language=en"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("data.target_language is not set")


# ------------------------------------------------------------------------------------------------ what is in the files


def put_line(path: Path, number: int, line: bytes) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = line
    path.write_bytes(b"\n".join(lines))


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "unequal line counts": (
        lambda source: source.write_bytes(source.read_bytes() + b"one more\n"),
        "{target} has {lines} lines but {source} has {more}: line {more} of {source} has no partner",
    ),
    "boundary on one side": (
        lambda source: put_line(source, 2, b""),
        "{source}, line 2: blank, but the same line of {target} is not",
    ),
    "not UTF-8": (
        lambda source: put_line(source, 3, b"caf\xe9"),
        "{source}, line 3: byte 0xE9 at column 4 is not UTF-8",
    ),
    "empty": (
        lambda source: [path.write_bytes(b"") for path in (source, source.with_suffix(".de"))],
        "{source} and {target}: not a single sentence pair",
    ),
    "missing": (lambda source: source.unlink(), "{source}: cannot be read: No such file or directory"),
}


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_files(tmp_path: Path, fault: str, split: str) -> None:
    """In dev, too, where the first two stages have succeeded by then and are kept."""
    config = write_config(tmp_path, "config", 40)
    source, target = (tmp_path / f"{split}.{side}" for side in ("en", "de"))
    good = {path: path.read_bytes() for path in (source, target)}
    spoil, message = FAULTS[fault]
    spoil(source)

    lines = good[target].count(b"\n")
    line = seen_by_the_user(config)
    assert line.startswith("focat: " + message.format(source=source, target=target, lines=lines, more=lines + 1))
    assert not any("unfinished" in name or name == "manifest.json" for name in files_in(tmp_path))

    for path, content in good.items():
        path.write_bytes(content)
    assert_it_succeeds_now(config)


def test_a_compressed_file_cut_short(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 40)
    whole = lzma.compress((tmp_path / "train.en").read_bytes())
    (tmp_path / "train.en.xz").write_bytes(whole[:-20])
    config.write_text(config.read_text().replace("train.en", "train.en.xz"))
    line = seen_by_the_user(config)
    assert line.startswith(f"focat: {tmp_path / 'train.en.xz'}: not a whole .xz file, damaged or cut short")
    (tmp_path / "train.en.xz").write_bytes(whole)
    assert_it_succeeds_now(config)


# ------------------------------------------------------------------------------------------------ settings


def test_something_else_than_a_sentencepiece_model(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 40)
    other = tmp_path / "train.en"
    line = seen_by_the_user(config, f"data.tokenizer.source_model={other}")
    assert line == f"focat: {other}: is not a SentencePiece model"
    assert_it_succeeds_now(config)


def test_cleaning_that_leaves_nothing(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 40)
    line = seen_by_the_user(config, "data.cleaning.max_characters=1", "data.cleaning.identical=true")
    assert line.startswith("focat: data.train: cleaning left no pair (")
    assert line.endswith("too long); relax data.cleaning")
    assert_it_succeeds_now(config)


def test_no_corpus(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 40)
    assert seen_by_the_user(config, "data.train=[]").startswith("focat: data.train: names no corpus")
    assert_it_succeeds_now(config)


def test_a_vocabulary_too_small(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 40)
    line = seen_by_the_user(config, "data.tokenizer.vocabulary=100")
    assert line.startswith("focat: data.tokenizer.vocabulary = 100: too small: ")
    assert_it_succeeds_now(config)


def test_a_store_of_other_settings(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 40)
    assert_it_succeeds_now(config)
    before = files_in(tmp_path / "store")
    line = seen_by_the_user(config, "data.normalisation.lowercase=true")
    assert line == (
        f"focat: {tmp_path / 'store'}: was prepared from other corpora or settings;"
        " give another data.store, or overwrite this one"
    )
    assert files_in(tmp_path / "store") == before


# ------------------------------------------------------------------------------------------------ what the disk refuses


def test_a_store_where_a_file_is_in_the_way(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 40)
    (tmp_path / "store").write_text("something else")
    assert seen_by_the_user(config) == f"focat: {tmp_path / 'store'}: is no folder; give another data.store"
    below = tmp_path / "store" / "below"
    assert seen_by_the_user(config, f"data.store={below}") == f"focat: {below}: cannot be written: Not a directory"
    assert (tmp_path / "store").read_text() == "something else"
    assert_it_succeeds_now(config, f"data.store={tmp_path / 'elsewhere'}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 40)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    line = seen_by_the_user(config, f"data.store={closed / 'store'}")
    assert line == f"focat: {closed / 'store'}: cannot be written: Permission denied"
    closed.chmod(0o700)
    assert_it_succeeds_now(config, f"data.store={closed / 'store'}")


@pytest.mark.parametrize("kilobytes", [1, 20])
def test_a_file_over_the_limit(tmp_path: Path, kilobytes: int) -> None:
    """The tokenizer is over the first limit, the tokens are over the second."""
    config = write_config(tmp_path, "config", 400)
    limit = 1024 * kilobytes
    line = seen_by_the_user(config, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    stage = "tokenizer" if kilobytes == 1 else "train"
    assert line.startswith(f"focat: {tmp_path / 'store' / stage}")
    assert line.endswith(": grew over the size allowed for a file; see `ulimit -f`")
    assert not any("unfinished" in name or name == "manifest.json" for name in files_in(tmp_path))
    assert_it_succeeds_now(config)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A real one of 60 kB, which is there for the command alone; then it grows, and the command succeeds."""
    config = write_config(tmp_path, "config", 400)
    store = tmp_path / "store"
    store.mkdir()
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("may not mount anything here")
    script = """
        mount -t tmpfs -o size=60k tmpfs "$1" || exit 99
        cd "$2"; shift 2
        "$@"; code=$?
        ls -A "$STORE" >"$LOG"
        mount -o remount,size=60m "$STORE"
        "$@" >>"$LOG" 2>&1 || exit 98
        cp -r "$STORE" "$STORE.copy"
        exit $code
    """
    log = tmp_path / "log"
    command = ["unshare", "-rm", "bash", "-c", script, "bash", str(store), str(ROOT), *PREPARE, str(config)]
    environment = {**os.environ, "STORE": str(store), "LOG": str(log)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    line = the_one_line(done.returncode, done.stdout, done.stderr)
    assert line == f"focat: {store / 'train'}: the disk is full; make room and run the same command again"
    assert log.read_text().splitlines()[0] == "tokenizer"  # the only thing there: it is whole, and kept
    prepare(load_settings(config).data, NULL_PROGRESS)
    assert files_in(tmp_path / "store.copy") == files_in(store)
    assert len(Store(store).split("train")) > 1000
