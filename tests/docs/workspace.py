"""The folder that the commands of the documentation run in: small corpora, suites, texts and barely trained systems."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import docx

from focat.corpus.document import Document
from focat.corpus.generated import contrapro_suite, generate, voita_suite
from tests.docs.shell import Shell
from tests.training.runs import settings_tree

SYSTEMS = {  # systems that pages name, and the setting in which each differs
    "base": "windows.before=0",
    "plain": "objective.discount=1",
    "focused": "training.seed=2",
}
COPIES = {"run": "focused", "run2": "plain", "RUN": "focused", "runs/1": "base", "runs/7": "focused"}
COPIES |= {"demo/runs/base-seed1": "base", "demo/runs/s4to4-shift-cd-seed1": "focused"}
SUITES = {
    "deixis.json": "deixis",
    "deixis_test.json": "deixis",
    "lex_cohesion_test.json": "lex_cohesion",
    "ellipsis_infl.json": "ellipsis_vp",
    "ellipsis_vp.json": "ellipsis_vp",
}
TEXTS = {
    "talk.txt": "Where is the cat?\nIt is old.\n\nTom sleeps.\n",
    "book.txt": "Tom sleeps. He is old.\n",
    "film.srt": "1\n00:00:01,000 --> 00:00:02,000\nWhere is the cat?\n\n2\n00:00:02,500 --> 00:00:04,000\nIt is old.\n",
    "film.ass": "[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\i1}Where{\\i0} is\\Nthe cat?\n",
    "talks.jsonl": '{"id": 7, "sentences": ["Where is the cat?", "It is old."]}\n',
    "app.po": 'msgid "Where is the cat?"\nmsgstr "Wo ist die Katze?"\n\nmsgid "It is <b>old</b>."\nmsgstr ""\n',
    "app.xlf": "<xliff><file><trans-unit id='1'><source>It is <g id='1'>old</g>.</source></trans-unit></file></xliff>",
    "page.html": "<!DOCTYPE html>\n<html lang=en><p>Where is the cat? It is <b>old</b>.</html>\n",
    "page.md": "# The cat\n\nWhere is the cat?\nIt is **old**.\n",
    "films/one.srt": "1\n00:00:01,000 --> 00:00:02,000\nTom sleeps.\n",
    "films/two.ass": "[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,He is old.\n",
    "base.txt": "0.5\n0.7\n0.6\n",
    "focused.txt": "0.4\n0.7\n0.5\n",
}


def build(folder: Path, shell: Shell) -> None:
    """Write all files and train the systems; takes seconds."""
    write_texts(folder)
    (folder / "old.srt").write_text(TEXTS["film.srt"].replace("It is old", "“It” is old"), encoding="cp1252")
    corpora = {"train": list(generate(60, 1)), "dev": list(generate(4, 2)), "test": list(generate(2, 3))}
    for name, documents in corpora.items():
        write_corpus(folder, name, documents)
    for name in ("own", "source", "target"):
        write_corpus(folder, name, corpora["test"])
    for name in ("base.de", "focused.de"):
        shutil.copy(folder / "test.de", folder / name)
    _write_suites(folder)
    _write_folder(folder / "FOLDER")
    _train(folder, shell)


def write_texts(folder: Path) -> None:
    """Write the texts and documents that pages translate."""
    (folder / "films").mkdir()
    (folder / "reports").mkdir()
    report = docx.Document()
    report.add_heading("The cat")
    report.add_paragraph("Where is the cat? It is ").add_run("old").bold = True
    for name in ("report.docx", "reports/one.docx"):
        report.save(str(folder / name))
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")


def _train(folder: Path, shell: Shell) -> None:
    tree = settings_tree(Path("store"), Path("run"))
    for name in ("train", "dev", "test"):
        tree["data"][name] = [{"format": "text", "source": f"{name}.en", "target": f"{name}.de"}]
    tree["data"] |= {"source_language": "en", "target_language": "de"}
    tree["windows"] = {"before": 3}
    tree["training"]["budget"] = {"updates": 4}
    tree["decoding"] = {
        "beam": 2,
        "max_length_ratio": 0.5,
        "max_length_offset": 3,
    }  # barely trained systems hardly ever end a sentence
    (folder / "my.yaml").write_text(json.dumps(tree), encoding="utf-8")  # JSON is YAML
    trains = (f"focat train my.yaml training.output_dir={name} {override}" for name, override in SYSTEMS.items())
    contrasts = (f"focat contrast {name} --suite deixis.json --instances {name}.jsonl" for name in ("base", "focused"))
    marian = "focat train my.yaml training.output_dir=marian windows.before=0 model.sinusoids=marian"
    export = "focat export marian --to hf -o opus-mt-en-de"
    done = shell.run("\n".join(["focat prepare my.yaml", *trains, *contrasts, marian, export]), folder)
    assert done.returncode == 0, done.stderr
    for name, system in COPIES.items():
        shutil.copytree(folder / system, folder / name)


def write_corpus(folder: Path, name: str, documents: Sequence[Document]) -> None:
    """Write two text files, with a blank line between documents."""
    for language, side in (("en", "source"), ("de", "target")):
        text = "\n\n".join("\n".join(getattr(document, side)) for document in documents)
        (folder / f"{name}.{language}").write_text(text + "\n", encoding="utf-8")


def _write_folder(folder: Path) -> None:
    """Write the corpora that the plans of the paper need, as empty files."""
    for pair in ("en-ru", "en-de"):
        (folder / pair).mkdir(parents=True)
        for name in ("train", "dev", "test"):
            for language in pair.split("-"):
                (folder / pair / f"{name}.{language}").touch()


def _write_suites(folder: Path) -> None:
    for name, phenomenon in SUITES.items():
        (folder / name).write_text(json.dumps(voita_suite(phenomenon, 6, 1000)), encoding="utf-8")
    entries, source, target = contrapro_suite(12, 1000)
    for name in ("contrapro.json", "pronouns.json"):
        (folder / name).write_text(json.dumps(entries), encoding="utf-8")
    for prefix in ("contrapro.", ""):
        _write_lines(folder / f"{prefix}context.en", source)
        _write_lines(folder / f"{prefix}context.de", target)
    (folder / "documents").mkdir()
    each = len(source) // len(entries)  # lines of an entry: its context, once for each candidate
    for i, entry in enumerate(entries):
        stem = entry["document id"].removesuffix(".de")
        before = entry["segment id"] - 1
        for language, lines, segment in (("en", source, "src segment"), ("de", target, "ref segment")):
            context = lines[i * each : i * each + 3][3 - before :]
            _write_lines(folder / "documents" / f"{stem}.{language}", [*context, entry[segment]])
    form = {"src segment": "It is new.", "ref segment": "Sie ist neu.", "expected": "sie", "rule": "NOM.FEM.SING"}
    name = "gender.opensubtitles.en-de.test"
    (folder / f"{name}.json").write_text(json.dumps([form]), encoding="utf-8")
    _write_lines(folder / name, ["Where is the lamp?<eos> It is new."])
    suite = {"source": ["Where is the lamp?", "It is new."], "target": ["Wo ist die Lampe?"], "right": 0}
    suite |= {"candidates": ["Sie ist neu.", "Er ist neu."]}
    (folder / "suite.jsonl").write_text(json.dumps(suite) + "\n", encoding="utf-8")


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
