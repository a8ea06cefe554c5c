"""Whether a real model of CTranslate2 or Argos Translate translates in focat as it does in CTranslate2.

    python -m benchmarks.import_check MODEL.argosmodel --sentences FILE
    python -m benchmarks.import_check MODEL.argosmodel --messages /usr/share/locale/zh_CN/LC_MESSAGES

The model is imported, and both translate the same pieces with the same beam and length penalty: CTranslate2 as it is
(weights in int8 are multiplied as integers), CTranslate2 with the same weights in float32, and focat, whose weights are
those in float32. A translation of focat that differs from that of the integers, but not from that of CTranslate2 in
float32, differs by int8 alone. Sentences are lines of a file, or messages in a folder of `.mo` files.
"""

from __future__ import annotations

import argparse
import gettext
import json
import re
import shutil
import tempfile
import zipfile
from pathlib import Path

import ctranslate2

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.interop.import_model import import_model
from focat.run import TrainedSystem, load_system

_LONGEST = 256  # tokens of a translation, as CTranslate2 has it
_PLACEHOLDER = re.compile(r"[%{<\\$&|\n\x00-\x1f]|--?[a-z]")


def sentences_of_messages(folder: Path, count: int) -> list[str]:
    """Translated messages that are sentences without placeholders, spread evenly over all files."""
    found: dict[str, None] = {}
    for path in sorted(folder.glob("*.mo")):
        with path.open("rb") as file:
            catalogue = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        for original, text in catalogue.items():
            whole = isinstance(original, str) and 12 <= len(text) <= 120 and text[-1] in "。！？.!?"
            if whole and not _PLACEHOLDER.search(text):
                found[text] = None
    return [list(found)[i * len(found) // count] for i in range(min(count, len(found)))]


def ctranslate2_translations(
    folder: Path, sources: list[list[str]], compute_type: str, beam: int, length_penalty: float
) -> list[list[str]]:
    """Pieces of the best translations by CTranslate2, a sentence at a time, so that no padding matters."""
    translator = ctranslate2.Translator(str(folder), compute_type=compute_type)
    return [
        translator.translate_batch(
            [source],
            beam_size=beam,
            length_penalty=length_penalty,
            max_decoding_length=_LONGEST - 1,
            min_decoding_length=1,
        )[0].hypotheses[0]
        for source in sources
    ]


def focat_translations(
    system: TrainedSystem, sources: list[list[int]], beam: int, length_penalty: float
) -> list[tuple[list[str], float]]:
    """Pieces of the best translations by focat, and their mean log-probability."""
    engine = Engine(system.models, SearchSettings(beam=beam, length_penalty=length_penalty))
    best = [hypotheses[0] for hypotheses in engine([Request(s, sentences=1, max_length=_LONGEST) for s in sources])]
    target = system.tokenizer.target
    return [([target.piece(t) for t in b.tokens[:-1]], b.log_probability / len(b.tokens)) for b in best]


def model_folder(model: Path, temporary: Path) -> Path:
    """The folder of CTranslate2; unpacked, if it is in a package."""
    if model.is_dir():
        return model
    with zipfile.ZipFile(model) as archive:
        for name in archive.namelist():
            if Path(name).parent.name == "model" and not name.endswith("/"):
                with archive.open(name) as packed, (temporary / Path(name).name).open("wb") as file:
                    shutil.copyfileobj(packed, file)
    return temporary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--sentences", type=Path, help="a file, one sentence a line")
    parser.add_argument("--messages", type=Path, help="a folder of .mo files")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--length-penalty", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="write every sentence and its translations")
    arguments = parser.parse_args()
    if arguments.messages:
        texts = sentences_of_messages(arguments.messages, arguments.count)
    else:
        texts = arguments.sentences.read_text(encoding="utf-8").splitlines()[: arguments.count]
    search = arguments.beam, arguments.length_penalty
    with tempfile.TemporaryDirectory() as temporary:
        imported = import_model(arguments.model, Path(temporary) / "run")
        for note in imported.notes:
            print(note)
        system = load_system(imported.run.path, "cpu")
        vocabulary = system.tokenizer.source
        sources = [vocabulary.encode(text) for text in texts]
        found = focat_translations(system, [[*source, END] for source in sources], *search)
        folder = Path(temporary) / "model"
        folder.mkdir()
        folder = model_folder(arguments.model, folder)
        adds_end = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("add_source_eos")
        pieces = [[*map(vocabulary.piece, source), *([] if adds_end else ["</s>"])] for source in sources]
        integers, floats = (ctranslate2_translations(folder, pieces, kind, *search) for kind in ("default", "float32"))
    rows = [
        {"source": text, "focat": ours, "ctranslate2": theirs, "ctranslate2 float32": exact}
        for text, (ours, _), theirs, exact in zip(texts, found, integers, floats, strict=True)
    ]
    same = sum(row["focat"] == row["ctranslate2"] for row in rows)
    same_exact = sum(row["focat"] == row["ctranslate2 float32"] for row in rows)
    by_int8 = sum(row["focat"] == row["ctranslate2 float32"] != row["ctranslate2"] for row in rows)
    print(f"{len(rows)} sentences, beam {search[0]}, length penalty {search[1]:g}")
    print(f"equal to CTranslate2 as it is: {same} ({same / len(rows):.1%})")
    print(f"equal to CTranslate2 in float32: {same_exact} ({same_exact / len(rows):.1%})")
    print(f"different by int8 alone: {by_int8}; otherwise: {len(rows) - same - by_int8}")
    print(f"mean log-probability of a token: {sum(mean for _, mean in found) / len(found):.4f}")
    for row in rows:
        if row["focat"] != row["ctranslate2 float32"]:
            print(*(f"{name}: {''.join(value)}" for name, value in row.items()), sep="\n  ")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
