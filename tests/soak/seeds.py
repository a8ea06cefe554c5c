"""The files that fuzzing starts from, made on the spot by focat itself: corpora, a store, a run, suites, results.

With a folder of real data, some of its files, cut small, are used beside them.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from focat.config import load_settings
from tests.soak.processes import fork, run_main
from tests.soak.seed_corpora import srt, write, write_corpora
from tests.soak.seed_documents import write_documents

MODEL = {"preset": "tiny", "d_model": 16, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "heads": 2}
TRAINING = {
    **{"device": "cpu", "budget": {"updates": 6}, "batch_tokens": 400, "learning_rate": 0.005, "warmup": 2},
    **{"validate_every": 2, "log_every": 2, "log_samples": 0, "keep_checkpoints": 2},
}
DECODING = {"beam": 2, "max_length_ratio": 0.1, "max_length_offset": 4}  # no translation gets long
SETTINGS: dict[str, Any] = {
    "data": {
        "store": "store",
        "train": [{"format": "generated", "documents": 30}],
        "dev": [{"format": "generated", "documents": 3, "seed": 2}],
        "test": [{"format": "generated", "documents": 2, "seed": 3}],
        "tokenizer": {"vocabulary": 340},
    },
    "windows": {"before": 2, "max_tokens": 128},
    "model": MODEL,
    "objective": {"discount": 0.01},
    "training": {"output_dir": "run", **TRAINING},
    "decoding": DECODING,
}
PLAN: dict[str, Any] = {
    "title": "Tiny",
    "data": {name: value for name, value in SETTINGS["data"].items() if name != "store"},
    "settings": {
        "model": MODEL,
        "training": {**TRAINING, "budget": {"updates": 4}},
        "decoding": {**DECODING, "beam": 1},
    },
    "systems": {
        "base": {"recipe": "focat:base"},
        "focused": {"recipe": "focat:s2to2-cd", "init_from": "base", "settings": {"windows": {"max_tokens": 128}}},
    },
    "budget": {"updates": 4},
    "average": 2,
    "against": ["base"],
    "suites": {"deixis": {"generated": "deixis", "instances": 4}},
    "tests": {"test": {"metrics": "bleu", "contexts": ["reuse"]}},
    "analyses": ["losses"],
}


class Seeds:
    """The folder of these files."""

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        self.folder, self.data = folder.resolve(), data

        self.corpora, self.inputs, self.suites = (self.folder / name for name in ("corpora", "inputs", "suites"))
        self.store, self.run, self.results = (self.folder / name for name in ("store", "run", "results"))
        self.settings, self.plan = self.folder / "settings.yaml", self.folder / "plan.yaml"
        self.reproduced, self.journal = self.folder / "reproduced", self.folder / "journaled.txt.journal"

    def make(self) -> None:
        """Make all of them, in a child, so that this process stays free to fork."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        log = self.folder.parent / "seeds.txt"
        log.unlink(missing_ok=True)
        for function in (self._texts, self._commands, self._journal):
            child = fork(function, log)
            code = child.wait(600)
            if code not in (0, -signal.SIGKILL if function == self._journal else 0):
                child.end()
                raise RuntimeError(f"the files to start from could not be made (exit code {code}):\n{child.output}")
        for leftover in self.folder.glob("*.focat-unfinished"):
            leftover.unlink()
        load_settings(self.run / "config.yaml")  # once, for all processes that are forked from this one

    def files(self, pattern: str) -> list[Path]:
        """Files that match, in a fixed order."""
        return sorted(path for path in self.folder.glob(pattern) if path.is_file())

    # ---------------------------------------------------------------------------------------------------- texts

    def _texts(self) -> int:
        from focat.corpus.generated import generate, write_suites

        os.chdir(self.folder)
        documents = list(generate(4, 5))
        write_corpora(Path("corpora"), documents)

        inputs = Path("inputs")
        inputs.mkdir()
        sentences = [source for document in documents for source in document.source][:6]
        write(inputs / "talk.txt", "\n".join(sentences[:4]) + "\n\n" + "\n".join(sentences[4:]) + "\n")
        write(inputs / "running", " ".join(sentences[:3]) + "\n\n" + " ".join(sentences[3:]) + "\n")
        records = [{"id": i, "source": s, "document": f"d{i // 3}", "n": 1.10} for i, s in enumerate(sentences[:4])]
        lines = [
            *map(json.dumps, records),
            json.dumps({"sentences": sentences[:2]}),
            json.dumps(sentences[2:4]),
            '"It ends."',
        ]
        write(inputs / "talk.jsonl", "\n".join(lines) + "\n")
        write(inputs / "film.srt", srt(sentences))
        write(inputs / "film.vtt", _vtt(sentences))
        write(inputs / "film.ass", _ass(sentences))
        write(inputs / "page.html", _html(sentences))
        write(inputs / "terms/terms.tsv", "# terms\nknow\tkennen\tkennt\nwhere\tWo|wo\nsick\tkrank\n")
        write(inputs / "terms/names.txt", "Anna\nPeter\n")
        write(inputs / "page.md", _markdown(sentences))
        shutil.copy("corpora/messages.po", inputs / "app.po")
        write(inputs / "one.xlf", _xliff_1(sentences))
        write(inputs / "two.xliff", _xliff_2(sentences))
        write_documents(inputs, sentences)

        write_suites(Path("suites"), 4, 7)
        own = [
            {
                "source": sentences[i : i + 3],
                "target": ["A.", "B."],
                "candidates": ["C.", "D."],
                "right": i % 2,
                "distance": i,
            }
            for i in range(4)
        ]
        write(Path("suites/own.jsonl"), "".join(json.dumps(entry) + "\n" for entry in own))
        write(Path("settings.yaml"), json.dumps(SETTINGS, indent=1))
        write(Path("plan.yaml"), json.dumps(PLAN, indent=1))
        if self.data is not None:
            self._real_texts(self.data)
        return 0

    def _real_texts(self, data: Path) -> None:
        for pair in ("en-de", "en-ru"):
            for side in pair.split("-"):
                for lines in islice(_decompressed(data / pair / f"test.{side}.xz"), 1):
                    name = "en" if side == "en" else "de"
                    write(self.folder / "corpora" / f"text-{pair}.{name}", "".join(lines.splitlines(True)[:30]))
                    if side == "en":
                        write(self.folder / "inputs" / f"{pair}.txt", "".join(lines.splitlines(True)[:12]))
        for path in sorted((data / "suites" / "voita").glob("*.json.xz")):
            for text in _decompressed(path):
                write(
                    self.folder / "suites" / f"real-{path.stem}", json.dumps(json.loads(text)[:4], ensure_ascii=False)
                )

    # ------------------------------------------------------------------------------------------------- commands

    def _commands(self) -> int:
        os.chdir(self.folder)
        suite, instances = (
            ["--suite", "suites/deixis.json"],
            ["--instances", "results/a.jsonl", "--json", "results/contrast.json"],
        )
        translated = ["corpora/ids.en", "-o", "results/hypothesis.txt"]
        Path("results").mkdir()
        lines = [
            ["prepare", "settings.yaml"],
            ["train", "settings.yaml"],
            ["average", "run", "--count", "2"],
            ["contrast", "run", *suite, *instances],
            ["contrast", "run", *suite, "--window", "1", "--instances", "results/b.jsonl"],
            ["evaluate", "run", "--json", "results/evaluate.json", "--metrics", "bleu"],
            ["analyse", "run", "--json", "results/analyse.json", "--analyses", "attention,losses", "--limit", "4"],
            ["translate", "run", *translated, "--json", "results/translate.json"],
            ["translate", "run", "inputs/talk.txt", "-o", "results/journaled.txt", "--batch-tokens", "60"],
            ["reproduce", "plan.yaml", "--folder", "reproduced", "--no-report"],
        ]
        for line in lines:
            code = run_main([*line, "--quiet"] if line[0] != "average" else line)
            if code:
                print(f"focat {' '.join(line)}: exit code {code}", file=sys.stderr)
                return code
        shutil.copytree("results", "run/results", ignore=shutil.ignore_patterns("b.jsonl", "*.txt", "translate.json"))
        write(Path("results/numbers.txt"), "".join(f"{i / 7}\n" for i in range(12)))
        write(Path("results/window.txt"), "Where is the cat?\nIt is here.\n\nWo ist die Katze?\nSie ist hier.\n")
        return 0

    def _journal(self) -> int:
        """Translate until the output is about to appear, and die: the journal of all results is left."""
        os.chdir(self.folder)

        def die(event: str, details: tuple[Any, ...]) -> None:
            if event == "os.rename" and str(details[1]).endswith("journaled.txt"):
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die)
        return run_main(
            ["translate", "run", "inputs/talk.txt", "-o", "journaled.txt", "--quiet", "--batch-tokens", "60"]
        )


def _decompressed(path: Path) -> Iterator[str]:
    """The text of a file, or nothing if there is no such file."""
    if path.exists():
        yield lzma.decompress(path.read_bytes()).decode()


def _vtt(sentences: list[str]) -> str:
    cues = [f"00:{i:02d}.000 --> 00:{i + 1:02d}.500\n{text}\n" for i, text in enumerate(sentences, 1)]
    cues[1] = "intro\n00:02.000 --> 01:00:03.000 align:start position:10%\n<v Anna>Is it <b>here</b>?</v>\n"
    head = "WEBVTT - a film\nKind: captions\n\nNOTE\nof the author\n\nSTYLE\n::cue { color: red }\n\n"
    return head + "\n".join(cues)


def _ass(sentences: list[str]) -> str:
    style = "Style: Default,Arial,20,&H00FFFFFF,&H0,&H0,&H0,0,0,0,0,100,100,0,0,1,2,2,2,10,10,10,1"
    head = "[Script Info]\nTitle: A film\nScriptType: v4.00+\n\n[V4+ Styles]\nFormat: Name, Fontname, Fontsize\n"
    events = "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    texts = [*sentences[:4], r"{\an8\i1}Is it{\i0} here?\NNo.", r"{\p1}m 0 0 l 100 0{\p0}"]
    lines = [f"Dialogue: 0,0:00:0{i}.00,0:00:0{i}.90,Default,Anna,0,0,0,,{text}\n" for i, text in enumerate(texts)]
    return f"{head}{style}\n\n{events}{''.join(lines)}Comment: 0,0:00:09.00,0:00:09.90,Default,,0,0,0,,a note\n"


def _html(sentences: list[str]) -> str:
    one, two, *others = sentences
    items = "".join(f"<li>{text}</li>\n" for text in others)
    head = f"<!DOCTYPE html>\n<html lang=en><head><title>{one}</title><script>let a = '<p>';</script></head>\n"
    body = f'<h1 title="{two}">{one}</h1>\n<!-- a note -->\n<p>{two} <b>Is it <i>here</i>?</b> &amp; so<br>on.</p>\n'
    return f"{head}<body>\n{body}<ul>\n{items}</ul>\n<pre>x  y</pre><p translate=no>No.</p></body></html>\n"


def _markdown(sentences: list[str]) -> str:
    one, two, *others = sentences
    items = "".join(f"{i}. {text}\n" for i, text in enumerate(others, 1))
    head = f"---\ntitle: {one}\n---\n\n# {one}\n\n{two} *Is it [here](http://x/y)?* `a <b>`\n\n"
    return f"{head}{items}\n> {two}\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| {one} | {two} |\n"


def _xliff_1(sentences: list[str]) -> str:
    units = [f'<trans-unit id="{i}"><source>{text}</source></trans-unit>\n' for i, text in enumerate(sentences[:4])]
    units += ['<trans-unit id="x"><source><g id="1">Where</g> is %s?</source><target>Wo?</target></trans-unit>\n']
    file = '<file original="a" source-language="en" target-language="de" datatype="plaintext"><body>\n'
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
    )
    return f"{head}{file}{''.join(units)}</body></file>\n</xliff>\n"


def _xliff_2(sentences: list[str]) -> str:
    segments = [f"<segment><source>{text}</source></segment>\n" for text in sentences[:4]]
    segments += ['<segment state="initial"><source><pc id="1">Where</pc> is <ph id="2"/>?</source></segment>\n']
    head = '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">\n'
    return f'{head}<file id="f"><unit id="u">\n{"".join(segments)}</unit></file>\n</xliff>\n'
