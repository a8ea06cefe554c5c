"""`focat inspect` on a store whose every figure can be counted by eye.

The vocabulary has room for the alphabet and nothing else, so that a sentence has as many tokens as characters, and one
more for the space that SentencePiece puts in front.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from rich.console import Console

from focat.analysis.inspection import WindowTokens, inspect_split, length_result
from focat.analysis.results import SuspiciousPair
from focat.cli import main
from focat.config.corpora import TextCorpus
from focat.config.data import CleaningSettings, DataSettings, TokenizerSettings
from focat.config.schema import WindowSettings
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.errors import FocatError
from focat.progress import NULL_PROGRESS
from focat.reporting.terminal.inspection import coloured_window, draw_windows, show_inspection

ALPHABET = "the quick brown fox jumps over a lazy dog"  # 41 characters
GREETING = "hallo du da drueben und auch dort"  # 33 characters
PAIRS = [
    (ALPHABET, ALPHABET),  # 42 and 42 tokens
    ("go on", "los"),  # 6 and 4
    ("ok", "ok"),  # 3 and 3: the same too, but so short that it need not be a mistake
    ("x" * 61, "y"),  # removed: too long
    ("", ""),  # between documents
    ("hi", GREETING),  # 3 and 34
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("inspect")

    def corpus(name: str, pairs: list[tuple[str, str]]) -> TextCorpus:
        files = folder / f"{name}.en", folder / f"{name}.de"
        for file, side in zip(files, zip(*pairs, strict=True), strict=True):
            file.write_text("\n".join(side) + "\n", encoding="utf-8")
        return TextCorpus(format="text", source=files[0], target=files[1])

    data = DataSettings(
        store=folder / "store[red]",  # brackets mean colours to rich, and must not here
        train=(corpus("train", PAIRS),),
        dev=(corpus("dev", [(ALPHABET, ALPHABET)]),),
        cleaning=CleaningSettings(max_characters=60),
        tokenizer=TokenizerSettings(vocabulary=32, byte_fallback=False, character_coverage=1.0),
    )
    prepare(data, NULL_PROGRESS)
    return Store(data.store)


def filled(histogram: dict[str, int]) -> dict[str, int]:
    return {label: count for label, count in histogram.items() if count}


def by_style(window: WindowTokens) -> list[tuple[str, str]]:
    """What a reader sees: stretches of the same style, and their text."""
    text = coloured_window(window)
    stretches: list[tuple[str, str]] = []
    for span in text.spans:
        piece, style = text.plain[span.start : span.end], str(span.style)
        if stretches and stretches[-1][0] == style:
            piece = stretches.pop()[1] + piece
        stretches.append((style, piece))
    assert "".join(piece for _, piece in stretches) == text.plain  # nothing is without a style
    return stretches


def test_counts_and_lengths(store: Store) -> None:
    figures = inspect_split(store, "train", WindowSettings(before=1), 0).results
    assert (figures.documents, figures.pairs, figures.read) == (2, 4, 5)
    assert filled(figures.removed) == {"too long": 1}
    assert (figures.languages, figures.vocabularies) == (("en", "de"), (32, 32))

    source, target = figures.sentence_lengths["source"], figures.sentence_lengths["target"]
    assert (source.mean, source.longest) == (13.5, 42)  # (42 + 6 + 3 + 3) / 4
    assert (target.mean, target.longest) == (20.75, 42)  # (42 + 4 + 3 + 34) / 4
    assert filled(source.histogram) == {"2–3": 2, "4–7": 1, "32–63": 1}
    assert filled(target.histogram) == {"2–3": 1, "4–7": 1, "32–63": 2}

    # With closings: 43, 43 + 7, 7 + 4, and 4 in a document of its own; 43, 43 + 5, 5 + 4, and 35.
    source, target = figures.window_lengths["source"], figures.window_lengths["target"]
    assert (source.mean, source.longest) == (27.0, 50)
    assert (target.mean, target.longest) == (33.75, 48)
    assert filled(source.histogram) == {"4–7": 1, "8–15": 1, "32–63": 2}
    assert (figures.windows_shortened, figures.sentences_too_long) == (0, 0)


def test_a_damaged_store_is_refused(store: Store, tmp_path: Path) -> None:
    """Not decoded to pieces that are not there."""
    shutil.copytree(store.path, tmp_path / "store")
    (tokens,) = (tmp_path / "store" / "train").glob("source.tokens*")
    tokens.write_bytes(bytes(255 for _ in tokens.read_bytes()))
    with pytest.raises(FocatError, match=f"{tokens.name} does not match its checksum; run `focat prepare` again"):
        inspect_split(Store(tmp_path / "store"), "train", WindowSettings(), 3)


def test_lengths_on_both_edges_of_each_bin() -> None:
    histogram = length_result(np.array([0, 1, 2, 3, 4, 7, 8, 511, 512, 1023, 1024, 5000])).histogram
    assert filled(histogram) == {"0–1": 2, "2–3": 2, "4–7": 2, "8–15": 1, "256–511": 1, "512–1023": 2, "1024–": 2}


def test_what_does_not_fit_is_counted(store: Store) -> None:
    # 8 tokens: the alphabet and the greeting never fit, and nobody can have a neighbour.
    figures = inspect_split(store, "train", WindowSettings(before=1, max_tokens=8), 9).results
    assert (figures.windows_shortened, figures.sentences_too_long) == (2, 2)


def test_suspicious_pairs(store: Store) -> None:
    odd, same = inspect_split(store, "train", WindowSettings(), 0).results.suspicious
    assert odd == SuspiciousPair(pair=3, why="3 to 34 tokens", source="hi", target=GREETING)
    assert same == SuspiciousPair(pair=0, why="both sides are the same", source=ALPHABET, target=ALPHABET)


def test_windows_are_coloured_by_segment(store: Store) -> None:
    windows = inspect_split(store, "train", WindowSettings(before=2), 4).windows
    source, target = windows[2]
    assert by_style(source) == [
        ("cyan", f"{ALPHABET} <S> "),  # the separator belongs to the sentence it closes
        ("magenta", " go on <S> "),
        ("bold green", " ok <E> "),
    ]
    assert by_style(target) == [("cyan", f"{ALPHABET} <S> "), ("magenta", " los <S> "), ("bold green", " ok <E> ")]
    assert by_style(windows[3][0]) == [("bold green", "hi <E> ")]


def test_the_current_sentence_stands_out_wherever_it_is(store: Store) -> None:
    windows = inspect_split(store, "train", WindowSettings(before=1, after=1, target_before=0), 4).windows
    source, target = windows[1]
    assert [style for style, _ in by_style(source)] == ["cyan", "bold green", "yellow"]
    assert by_style(target) == [("bold green", "los <S> "), ("magenta", " ok <E> ")]


@pytest.mark.parametrize(("samples", "shown"), [(0, []), (1, [2]), (2, [1, 3]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])])
def test_samples_are_spread_over_the_corpus_and_never_repeated(store: Store, samples: int, shown: list[int]) -> None:
    windows = inspect_split(store, "train", WindowSettings(before=0), samples).windows
    sentences = [source for source, _ in (PAIRS[0], PAIRS[1], PAIRS[2], PAIRS[5])]
    assert [coloured_window(source).plain for source, _ in windows] == [f"{sentences[row]} <E> " for row in shown]


def test_a_split_where_nothing_fits_has_no_windows_to_show(store: Store) -> None:
    found = inspect_split(store, "dev", WindowSettings(max_tokens=8), 3)
    assert found.windows == []
    assert found.results.window_lengths["source"].longest == 0
    show_inspection(found, Console(file=io.StringIO()))


def test_what_a_terminal_shows(store: Store) -> None:
    out = io.StringIO()
    found = inspect_split(store, "train", WindowSettings(before=1), 4)
    show_inspection(found, Console(file=out, width=120, force_terminal=True, color_system="standard", highlight=False))
    shown = out.getvalue()
    assert f"\x1b[1m{store.path}\x1b[0m, train: 2 documents, 4 of 5 pairs (removed: 1 too long)" in shown
    assert "13.5 tokens a sentence, 27.0 a window; longest 42 and 50" in shown
    assert f"      2–3 {'█' * 40} 2\n" in shown  # the longest bar, and one half as long
    assert f"      4–7 {'█' * 20} 1\n" in shown
    assert "both sides are the same" in shown
    assert "\x1b[36m" in shown  # cyan: context
    assert "\x1b[1;32m" in shown  # bold green: current


def run_focat(*arguments: str) -> int:
    """The exit code of a command, run in this process: a new one would load torch again."""
    with patch.object(sys, "argv", ["focat", *arguments]), pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def test_a_pipe_gets_plain_text_and_json_gets_the_figures(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    assert run_focat("inspect", str(store.path), "--before", "1", "--json", str(figures)) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "window 3" in shown
    expected = inspect_split(store, "train", WindowSettings(before=1), 3).results.to_json()
    assert json.loads(figures.read_text(encoding="utf-8")) == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["STORE", "--split", "test"], "has no test split (it has train, dev)"), (["nowhere"], "is no finished token")],
)
def test_an_error_is_one_line_and_exit_code_2(
    store: Store, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    named = [str(store.path) if argument == "STORE" else argument for argument in arguments]
    assert run_focat("inspect", *named) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_lines_of_a_window_are_indented_where_they_are_broken(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show_inspection(inspect_split(store, "train", WindowSettings(before=3), 3))
    lines = capsys.readouterr().out.partition("window 1\n")[2].splitlines()
    assert len(lines) > 12  # some are broken
    assert all(line.startswith("  ") or not line or line.startswith("window ") for line in lines)


def test_the_picture_holds_the_windows_and_needs_no_network(store: Store, tmp_path: Path) -> None:
    found = inspect_split(store, "train", WindowSettings(before=1), 2)
    draw_windows(found, tmp_path / "windows.svg")
    picture = (tmp_path / "windows.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "url(" not in picture.replace("url(#", "")  # nothing but parts of itself
    for source, target in found.windows:
        for text in (source, target):
            assert coloured_window(text).plain.split()[0] in picture
