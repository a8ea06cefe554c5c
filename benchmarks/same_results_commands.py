"""What `same_results` runs, and what it keeps of it: the part to adapt when names, options or result files change."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

Item = dict[str, Any]  # names and digests, numbers or texts

# ------------------------------------------------------------------------------------------------ what is run

# Commands below are written as `before` spells them; a dialect says what is spelled otherwise. For `model.norm=post` in
# a line that begins with `train`, this is looked up, and the first that is there counts:
#   "train model.norm=post", "model.norm=post"   the whole word; instead of it may stand several words, or none
#   "train model.norm", "model.norm"             what stands before =; the value stays
# The same holds for --options and for plain words. Also looked up: modules in scripts (focat.corpus.generated), the
# patterns of files, and "line NAME" or "script NAME" for a command line or script as a whole.
DIALECTS: dict[str, dict[str, str]] = {
    "before": {},
    "after": {
        "training.run": "training.output_dir",
        "training.batches_per_update": "training.gradient_accumulation",
        "windows.sizes": "windows.sampling",
        "--with": "--ensemble",
        "--uneven": "--missing-target",
        "--fill": "--pad-context",
    },
}

_ALL_SUITES = (
    "--suite=suites/deixis.json --suite=suites/lex_cohesion.json --suite=suites/ellipsis_vp.json "
    "--suite=suites/contrapro.json --context-source=suites/contrapro.context.en "
    "--context-target=suites/contrapro.context.de"
)
_CONTRAST = f"contrast main {_ALL_SUITES} --instances=@.jsonl --json=@.json"
_TRAIN = "train focat:demo data.store=store --json=@.json training.run="
_TRANSLATE = "translate main test.en --output=@.txt --json=@.json"
_EVALUATE = "--metrics=bleu,chrf,chrf++,ter --fragments=4 --json=@.json"
_FEW = "--trials=1000 --resamples=200"
_OTHER = (
    f"{_TRAIN}other training.validate_every=20 training.optimizer=adam training.schedule=inverse-sqrt "
    "training.criterion=bleu training.ema=0.9 training.batches_per_update=2 training.weight_decay=0.01 "
    "model.norm=post model.shift=0 model.segment_embeddings=learned model.segment_embeddings_at=every-layer "
    "model.attention=long-short model.activation=swiglu model.embeddings=tied model.dropout=0.1 "
    "model.attention_dropout=0.1 model.activation_dropout=0.1 model.word_dropout=0.1 windows.sizes=random "
    "objective.discount.start=1 objective.discount.end=0.01"
)

# In this order, in the work folder; @ is the command's name. What a command writes to @.json, @.jsonl and @.txt becomes
# items of the record, and so does what it prints.
COMMANDS = {
    "prepare": "prepare focat:demo data.store=store data.train.0.documents=3000 --json=@.json",
    "inspect": "inspect store --split=dev --windows=2 --json=@.json",
    "train.main": f"{_TRAIN}main training.budget.updates=400 training.validate_every=200",
    "train.other.begun": f"{_OTHER} training.budget.updates=30",
    "train.other": f"{_OTHER} training.budget.updates=60",  # goes on from there
    "train.third": f"{_TRAIN}third training.budget.updates=30 training.validate_every=15 training.schedule=cosine "
    "model.positions=rotary model.attention=group model.activation=gelu model.embeddings=separate model.shift=0 "
    "windows.before=2 windows.after=1 windows.target_after=0",
    "train.tuned": f"{_TRAIN}tuned training.budget.updates=10 training.validate_every=5 training.init_from=main "
    "model.segment_embeddings=learned",
    "average.other": "average other --count=2",
    "translate.reuse": f"{_TRANSLATE} --context=reuse --beam=4",
    "translate.regenerate": f"{_TRANSLATE} --context=regenerate --beam=4",
    "translate.none": f"{_TRANSLATE} --context=none --beam=4",
    "translate.greedy": f"{_TRANSLATE} --beam=1",
    "translate.penalty": f"{_TRANSLATE} --beam=6 --length-penalty=1.2 --batch-tokens=500",
    "translate.window": f"{_TRANSLATE} --window=2",
    "translate.int8": f"{_TRANSLATE} --int8",
    "translate.int8.regenerate": f"{_TRANSLATE} --int8 --context=regenerate",
    "translate.unconstrained": f"{_TRANSLATE} --context=regenerate --unconstrained",
    "translate.nbest": f"{_TRANSLATE} --nbest=3 --scores",
    "translate.nbest.regenerate": f"{_TRANSLATE} --nbest=3 --scores --context=regenerate",
    "translate.sample": f"{_TRANSLATE} --sample --temperature=0.8 --top-p=0.95 --seed=7 --nbest=2 --scores",
    "translate.ensemble": f"{_TRANSLATE} --with=tuned",
    "translate.jsonl": "translate main test.jsonl --output=@.jsonl --nbest=3 --scores",
    "translate.srt": "translate main test.srt --output=@.txt --format=srt",
    "translate.split": "translate main running.txt --output=@.txt --split",
    "translate.other": "translate other test.en --output=@.txt --context=regenerate --beam=2 --scores",
    "translate.third": "translate third test.en --output=@.txt --beam=2 --scores",
    "contrast.main": _CONTRAST,
    "contrast.mean": f"{_CONTRAST} --rule=current-mean",
    "contrast.window-mean": f"{_CONTRAST} --rule=window-mean",
    "contrast.own": f"{_CONTRAST} --target-context=own --translate",
    "contrast.alone": f"{_CONTRAST} --target-context=none --window=2",
    "contrast.filled": f"{_CONTRAST} --fill=... --uneven=source --lowercase --detokenise",
    "contrast.other": f"contrast other {_ALL_SUITES} --instances=@.jsonl --json=@.json",
    "score.main": "score main test.en test.de --output=@.jsonl --json=@.json",
    "score.table": "score main test.en test.de --output=@.txt --format=tsv --window=3",
    "score.ensemble": "score main test.en test.de --output=@.jsonl --with=tuned --json=@.json",
    "evaluate.main": f"evaluate main --split=test --output=@.txt {_EVALUATE}",
    "evaluate.other": f"evaluate other --split=test --context=regenerate --unconstrained --beam=2 {_EVALUATE}",
    "evaluate.files": "evaluate --hypothesis=translate.none.txt --reference=test.de --lowercase --json=@.json",
    "compare.quality": f"compare evaluate.main.json evaluate.other.json {_FEW} --json=@.json",
    "compare.suites": f"compare contrast.main.jsonl contrast.other.jsonl --by=distance {_FEW} --json=@.json",
    "compare.bootstrap": "compare translate.reuse.txt translate.regenerate.txt translate.none.txt --reference=test.de "
    f"--all-pairs --test=bootstrap --correction=benjamini-hochberg {_FEW} --json=@.json",
    "analyse": "analyse main other --limit=60 --windows=1,2,4 --bleu --by=head --drop=both,source,target "
    "--suite=suites/deixis.json --trials=200 --items=@.jsonl --json=@.json",
    "demo": "demo --folder=demo --json=@.json 'data.train=[{format: generated, documents: 300, seed: 1}]' "
    "'data.test=[{format: generated, documents: 4, seed: 3}]' data.tokenizer.vocabulary=500 "
    "settings.training.budget.updates=20 settings.decoding.beam=2 systems.base.budget.updates=20 "
    "suites.pronouns.instances=24 suites.deixis.instances=12 suites.lex_cohesion.instances=12 "
    "suites.ellipsis_vp.instances=15",
}

# Files to work on: the first of the test documents in several formats, and suites.
INPUTS = """
import json
from pathlib import Path
from focat.corpus.generated import generate, write_suites

write_suites(Path("suites"), 120, 1000)
documents = list(generate(12, 3))
for side, language in (("source", "en"), ("target", "de")):
    text = "\\n\\n".join("\\n".join(getattr(document, side)) for document in documents) + "\\n"
    Path(f"test.{language}").write_text(text, encoding="utf-8")
lines = [json.dumps({"id": i, "sentences": list(document.source)}) for i, document in enumerate(documents)]
Path("test.jsonl").write_text("\\n".join(lines) + "\\n", encoding="utf-8")
cues = [f"{i + 1}\\n00:00:{i:02},000 --> 00:00:{i:02},900\\n{text}\\n" for i, text in enumerate(documents[0].source)]
Path("test.srt").write_text("\\n".join(cues), encoding="utf-8")
Path("running.txt").write_text("\\n\\n".join(" ".join(d.source) for d in documents[:4]) + "\\n", encoding="utf-8")
"""
# What only Python can be asked for.
PYTHON = """
import hashlib, json, focat

texts = [open(f"test.{language}", encoding="utf-8").read() for language in ("en", "de")]
source, target = (text.split("\\n\\n")[0].splitlines()[:4] for text in texts)
found = {}
for run in ("main", "other", "third"):
    model = focat.load(run, device="cpu")
    found[f"{run}.translate"] = model.translate([source, source[:2]], context="regenerate", beam=3)
    (streamed,) = model.stream([source], nbest=2)
    found[f"{run}.stream"] = [[t.text, t.score, [[a.text, a.score] for a in t.alternatives]] for t in streamed]
    scored = model.score(source, target)
    found[f"{run}.score"] = [[s.log_probability, s.mean, list(s.tokens), list(s.token_scores)] for s in scored]
    seen = model.attention(source, target)
    for unit, attention in (("token", seen), ("word", seen.by_word())):
        for name in ("encoder", "decoder", "cross"):
            shares = getattr(attention, name)
            digest = hashlib.sha256(shares.tobytes()).hexdigest()
            found[f"{run}.attention.{unit}.{name}"] = f"{shares.shape} {shares.dtype} {digest}"
json.dump(found, open("python.json", "w", encoding="utf-8"))
"""
SCRIPTS = {"inputs": INPUTS, "python": PYTHON}

RUNS = ("main", "other", "third", "tuned")
WEIGHTS, AVERAGED = "checkpoints/*/weights.safetensors", "averaged/weights.safetensors"
OPTIMIZER, LOG = "checkpoints/*/training.safetensors", "log.jsonl"
STORE = ("*/*.tokens", "*/*.offsets", "*/documents", "tokenizer/*.model")
PAGE, BUILD, TABLES = "docs/results.md", "results/build.py", "tables.md"

# ------------------------------------------------------------------------------------------------ what is kept of it

# Figures that are not results: times, places, versions, and digests in which names of settings or tensors take part.
NOT_RESULTS = re.compile(
    r"(^|\.)(focat|version|seconds|minutes|minutes_left|\w+_per_second|hardware|date|report|run|runs|store|weights"
    r"|weights_sha256|keys|inputs|identity)(\.|$)"
)
# What is replaced in texts: in figures and in what is printed, and in what is printed alone.
NORMAL = {r"\bversion:[^|\s]+": "version:*", r"\bweights:[0-9a-f+]+": "weights:*"}
PRINTED = {
    r"\bfocat \d+\.\d+[\w.+]*": "focat *",
    r"\b\d{4}-\d\d-\d\d(T[\d:.+Z-]+)?": "DATE",
    r"\b\d+(\.\d+)? (s|seconds|minutes)\b": "TIME",
    r"[\s─-╿]+": " ",  # tables are as wide as their labels
}


def flat(tree: Any, prefix: str = "") -> Item:
    """All figures of a tree, by their paths."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if pairs is None:
        return {prefix: tree}
    return {k: v for key, value in pairs for k, v in flat(value, f"{prefix}.{key}" if prefix else str(key)).items()}


def named(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Entries by names that must differ, or one would hide another."""
    pairs = list(entries)
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"names are not unique: {sorted(name for name, _ in pairs)[:20]}")
    return found


def _contrast(found: Any) -> Item:
    kept = ("sha256", "accuracy", "signature")
    suites = {suite["name"]: {key: suite[key] for key in kept} for suite in found["suites"]}
    sections = {
        f"{i}.{section['title']}": named((figure["name"], figure) for figure in section["figures"])
        | {"other_rules": section["other_rules"], "remarks": section["remarks"], "signature": section["signature"]}
        for i, section in enumerate(found["sections"])
    }
    return flat({"suites": suites, "sections": sections})


def _instances(lines: list[Any]) -> Item:
    return flat(named((f"{line['suite']}.{line['id']}", line) for line in lines))


def _evaluate(found: Any) -> Item:
    figures = {
        figure["name"]: {
            "score": figure["score"],
            "interval": figure["interval"],
            "signature": figure["signature"],
            "statistics": digest(figure["statistics"]),
        }
        for figure in found["figures"]
    }
    translations = {"translations": found["translations"], "translated": found["translated"]}
    return flat({"figures": figures, "reference": found["reference"]} | translations)


def _compare(found: Any) -> Item:
    findings = named((f"{each['system']} - {each['baseline']}: {each['column']}", each) for each in found["findings"])
    return flat({key: found[key] for key in ("systems", "items", "signatures", "correction")} | {"findings": findings})


def _analyse(found: Any) -> Item:
    findings = named((f"{each['system']}: {each['column']}", each) for each in found["findings"])
    return flat({key: found[key] for key in ("systems", "corpus", "suites", "significance")} | {"findings": findings})


def _log(lines: list[Any]) -> Item:
    return flat(named((f"{line['kind']}.{line['update']}", line) for line in lines))


# By the first part of a command's name, and the file that was written.
EXTRACT: dict[str, Callable[[Any], Item]] = {
    "contrast.json": _contrast,
    "contrast.jsonl": _instances,
    "evaluate.json": _evaluate,
    "compare.json": _compare,
    "analyse.json": _analyse,
    "log.jsonl": _log,
}


def digest(content: Any) -> str:
    """Of anything that JSON can hold, in whatever order its names come."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
