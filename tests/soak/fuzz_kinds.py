"""What is fuzzed: for every kind of file that focat reads, the file to change, a command, and what must then hold."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

from tests.soak.fuzz_case import Build, FuzzCase, Mutate
from tests.soak.fuzz_corpora import CORPORA, changed_copy
from tests.soak.fuzz_http import HTTP
from tests.soak.fuzz_translation import (
    documents,
    journal,
    same_blocks,
    same_code,
    same_events,
    same_lines,
    same_messages,
    same_records,
    same_timings,
    same_units,
    terms,
    translate,
)
from tests.soak.mutations import (
    compressed,
    mutate_json,
    mutate_json_lines,
    mutate_text,
    mutate_yaml,
    odd_text,
    odd_value,
)
from tests.soak.seeds import Seeds

# ----------------------------------------------------------------------------------------------- settings and plans


def config(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    seed = draw.choice([seeds.settings, seeds.run / "config.yaml", *_recipes()])
    text = re.sub(rb"base: (\S+)\.yaml", rb"base: focat:\1", seed.read_bytes())  # found from anywhere
    (folder / "c.yaml").write_bytes(mutate_yaml(draw, text))
    return FuzzCase(["config", "c.yaml"])


def _recipes() -> list[Path]:
    from focat.config.loading import RECIPES

    return sorted(RECIPES.glob("*.yaml"))


def overrides(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    shutil.copy(seeds.run / "config.yaml", folder / "c.yaml")
    keys = (
        "windows.before",
        "model.shift",
        "data.train",
        "training.betas",
        "objective.discount",
        "decoding.beam",
        "data",
    )
    given = []
    for _ in range(draw.randint(1, 3)):
        key = draw.choice(keys) if draw.random() < 0.8 else f"{draw.choice(keys)}.{odd_text(draw)}"
        value = draw.choice([odd_text(draw), json.dumps(odd_value(draw)), str(odd_value(draw))])
        text = (
            f"{key}={value}"
            if draw.random() < 0.9
            else mutate_text(draw, f"{key}={value}".encode()).decode(errors="replace")
        )
        given.append(text.replace("\0", "")[:3000])  # no argument can hold a NUL
    return FuzzCase(["config", "c.yaml", "--", *given])


def plan(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    from focat.experiments.plan import PLANS

    seed = draw.choice([seeds.plan, seeds.plan, *sorted(PLANS.glob("*.yaml"))])
    (folder / "p.yaml").write_bytes(mutate_yaml(draw, seed.read_bytes()))
    return FuzzCase(["reproduce", "p.yaml", "--list", "--folder", "out"])


# ---------------------------------------------------------------------------------------------------------- corpora


# ----------------------------------------------------------------------------------------------------------- suites


def suite(pattern: str, mutate: Mutate) -> Build:
    """Suites of a format."""

    def build(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
        path = draw.choice(seeds.files(pattern))
        name, data = compressed(draw, path.name, mutate(draw, path.read_bytes()))
        (folder / name).write_bytes(data)
        more = ["--translate"] if draw.random() < 0.1 else []
        return FuzzCase(
            ["contrast", str(seeds.run), "--suite", name, *more, "--instances", "i.jsonl", "--quiet"], ("i.jsonl",)
        )

    return build


def contrapro(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    names = ("contrapro.json", "contrapro.context.en", "contrapro.context.de")
    changed = draw.choice(names)
    for name in names:
        data = (seeds.suites / name).read_bytes()
        mutate: Mutate = mutate_json if name.endswith(".json") else mutate_text
        (folder / name).write_bytes(mutate(draw, data) if name == changed else data)
    context = ["--context-source", names[1], "--context-target", names[2]]
    return FuzzCase(
        ["contrast", str(seeds.run), "--suite", names[0], *context, "--json", "j.json", "--quiet"], ("j.json",)
    )


def context_folder(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """ContraPro with the documents that its context is in, as files of a folder."""
    documents = folder / "documents" / "a"
    documents.mkdir(parents=True)
    changed = draw.choice(("suite", "en", "de"))
    sources = (seeds.corpora / "text.en").read_text().split("\n\n")[0].splitlines()
    targets = (seeds.corpora / "text.de").read_text().split("\n\n")[0].splitlines()
    for language, lines in (("en", sources), ("de", targets)):
        data = ("\n".join(lines) + "\n").encode()
        (documents / f"doc.{language}").write_bytes(mutate_text(draw, data) if changed == language else data)
    entries = [
        {
            **{"document id": "doc", "segment id": i + 1, "src segment": sources[i], "ref segment": targets[i]},
            **{"ante distance": 1, "ref pronoun": "er", "errors": [{"contrastive": "Nein.", "replacement": "sie"}]},
        }
        for i in range(2, min(5, len(sources)))
    ]
    data = json.dumps(entries).encode()
    (folder / "s.json").write_bytes(mutate_json(draw, data) if changed == "suite" else data)
    return FuzzCase(["contrast", str(seeds.run), "--suite", "s.json", "--context-folder", "documents", "--quiet"])


# --------------------------------------------------------------------------------------------------- stores and runs


def store(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    changed_copy(draw, seeds.store, folder / "store")
    shutil.copy(seeds.settings, folder / "c.yaml")
    match draw.choice(("inspect", "inspect", "inspect", "prepare", "train")):
        case "inspect":
            split = draw.choice(("train", "dev", "test"))
            return FuzzCase(["inspect", "store", "--split", split, "--json", "i.json"], ("i.json",))
        case "prepare":
            return FuzzCase(
                ["prepare", "c.yaml", "--quiet"],
                ("store/*",),
                lambda code: [] if code else _differences(folder / "store", seeds.store),
                ("store/*",),
                ("store/*",),
            )
        case _:
            return FuzzCase(["train", "c.yaml", "training.budget.updates=1", "--quiet"], ("run*",))


def _content(path: Path) -> Any:
    """What a file holds; blanks between the values of JSON do not count."""
    try:
        return json.loads(path.read_bytes()) if path.suffix == ".json" else path.read_bytes()
    except ValueError:
        return path.read_bytes()


def _differences(found: Path, expected: Path) -> list[str]:
    def content(folder: Path) -> dict[str, Any]:
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): _content(path) for path in files}

    one, other = content(found), content(expected)
    wrong = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return [f"prepare said that all is well, but {', '.join(wrong)} is not what it was"] if wrong else []


def run(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    changed = changed_copy(draw, seeds.run, folder / "run")
    if draw.random() < 0.4:  # or a changed file would never be read any further
        for sums in (folder / "run").rglob("checksums.json"):
            if str(sums.relative_to(folder / "run")) != changed:
                sums.unlink()
    shutil.copy(seeds.inputs / "talk.txt", folder / "talk.txt")
    commands = ("translate", "translate", "translate", "train", "average", "score", "contrast", "analyse")
    match draw.choice(commands):
        case "translate":
            return FuzzCase(["translate", "run", "talk.txt", "-o", "out.txt", "--quiet"], ("out.txt",))
        case "train":
            shutil.copy(seeds.settings, folder / "c.yaml")
            shutil.copytree(seeds.store, folder / "store")
            more = draw.choice(
                ([], ["training.budget.updates=7"], ["training.init_from=run", "training.output_dir=new"])
            )
            return FuzzCase(
                ["train", "c.yaml", *more, "--quiet"], ("run/*", "new*"), replaces=("run/*",), kept_if_refused=("new*",)
            )
        case "average":
            return FuzzCase(["average", "run", "--count", "2"], ("run/averaged*",), replaces=("run/averaged/*",))
        case "score":
            return FuzzCase(["score", "run", "talk.txt", "talk.txt", "-o", "s.jsonl", "--quiet"], ("s.jsonl",))
        case "contrast":
            return FuzzCase(["contrast", "run", "--suite", str(seeds.suites / "own.jsonl"), "--quiet"])
        case _:
            texts = ["--source", "talk.txt", "--target", "talk.txt", "--analyses", "losses", "--json", "a.json"]
            return FuzzCase(["analyse", "run", *texts, "--quiet"], ("a.json",))


def report(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """A page about a run of which a file is changed: its log, its settings, its results."""
    changed_copy(draw, seeds.run, folder / "run")
    return FuzzCase(["report", "run", "-o", "page.html", "--examples", "0", "--quiet"], ("page.html",))


def reproduced(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """The folder of a plan of which a result is changed."""
    shutil.copytree(seeds.reproduced, folder / "out", ignore=shutil.ignore_patterns("*.safetensors", "store"))
    shutil.copy(seeds.plan, folder / "plan.yaml")
    path = draw.choice(sorted((folder / "out/results").glob("*.json")))
    path.write_bytes(mutate_json(draw, path.read_bytes(), 2))
    return FuzzCase(["reproduce", "plan.yaml", "--folder", "out", "--list"])


# ---------------------------------------------------------------------------------------------------------- results


def _changed_result(draw: Random, seeds: Seeds, folder: Path, name: str) -> None:
    mutates: dict[str, Mutate] = {".json": mutate_json, ".jsonl": mutate_json_lines}
    mutate = mutates.get(Path(name).suffix, mutate_text)
    (folder / name).write_bytes(mutate(draw, (seeds.results / name).read_bytes()))


def results(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """What `compare`, `evaluate` and `score` read."""
    name = draw.choice(("a.jsonl", "a.jsonl", "evaluate.json", "evaluate.json", "numbers.txt", "hypothesis.txt"))
    _changed_result(draw, seeds, folder, name)
    trials = ["--trials", "20", "--resamples", "20", "--json", "c.json", "--quiet"]
    if name == "hypothesis.txt":
        reference = str(seeds.corpora / "ids.de")
        match draw.randrange(3):
            case 0:
                others = [f"o={seeds.results / name}", "--reference", reference]
                return FuzzCase(["compare", name, *others, *trials], ("c.json",))
            case 1:
                files = ["--hypothesis", name, "--reference", reference, "--json", "c.json"]
                return FuzzCase(["evaluate", *files, "--quiet"], ("c.json",))
            case _:
                files = [str(seeds.run), str(seeds.corpora / "ids.en"), name, "-o", "s.tsv"]
                return FuzzCase(["score", *files, "--quiet"], ("s.tsv",))
    other = "b.jsonl" if name == "a.jsonl" else name
    by = draw.choice(([], [], ["--by", "distance"], ["--by", "phenomenon"])) if name == "a.jsonl" else []
    return FuzzCase(["compare", name, f"other={seeds.results / other}", *by, *trials], ("c.json",))


def report_results(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """Results that a page is to show."""
    name = draw.choice(("contrast.json", "contrast.json", "evaluate.json"))
    _changed_result(draw, seeds, folder, name)
    arguments = ["report", f"x={seeds.run}", "--results", f"x={name}", "-o", "page.html", "--examples", "0", "--quiet"]
    return FuzzCase(arguments, ("page.html",))


def report_window(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    data = mutate_text(draw, (seeds.results / "window.txt").read_bytes())
    (folder / "w.txt").write_bytes(b"".join(data[:1500].splitlines(keepends=True)[:40]))
    arguments = ["report", str(seeds.run), "--window", "w.txt", "-o", "page.html", "--examples", "0", "--quiet"]
    return FuzzCase(arguments, ("page.html",))


KINDS: dict[str, tuple[Build, int]] = {  # with how many inputs of it in a round, which one child runs
    "config": (config, 50),
    "overrides": (overrides, 40),
    "plan": (plan, 40),
    **CORPORA,
    "suite-voita": (suite("suites/[delr]*.json", mutate_json), 30),
    "suite-own": (suite("suites/own.jsonl", mutate_json_lines), 30),
    "suite-contrapro": (contrapro, 30),
    "suite-context-folder": (context_folder, 20),
    "store": (store, 40),
    "run": (run, 40),
    "report": (report, 1),
    "report-results": (report_results, 1),
    "report-window": (report_window, 1),
    "reproduced": (reproduced, 15),
    "translate-text": (translate("*.txt", same_lines, mutate_text), 30),
    "translate-running-text": (translate("running", None, mutate_text, "--split"), 15),
    "translate-jsonl": (translate("talk.jsonl", same_records, mutate_json_lines), 40),
    "translate-srt": (translate("film.srt", same_timings, mutate_text), 50),
    "translate-vtt": (translate("film.vtt", same_timings, mutate_text), 50),
    "translate-po": (translate("app.po", same_messages, mutate_text), 40),
    "translate-xliff": (translate("*.xl*", same_units, mutate_text), 40),
    "translate-ass": (translate("film.ass", same_events, mutate_text), 40),
    "translate-html": (translate("page.html", same_blocks, mutate_text), 40),
    "translate-markdown": (translate("page.md", same_code, mutate_text), 40),
    "translate-document": (documents, 40),
    "terms": (terms, 30),
    "journal": (journal, 15),
    "results": (results, 40),
    **HTTP,
}
