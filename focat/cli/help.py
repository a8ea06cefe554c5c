"""How the help of commands looks: plain usage, no types where there is nothing to type, examples at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand, TyperGroup

from focat.printing import print_line

EXAMPLES = {
    "demo": ["focat demo", "focat demo --folder try --json demo.json"],
    "doctor": ["focat doctor --quick"],
    "config": ["focat config focat:s4to4-shift-cd", "focat config my.yaml windows.before=2"],
    "prepare": ["focat prepare my.yaml", "focat prepare my.yaml data.store=small data.tokenizer.vocabulary=8000"],
    "inspect": ["focat inspect my-store", "focat inspect my-store --split dev --svg windows.svg"],
    "train": ["focat train my.yaml", "focat train my.yaml windows.before=0 model.shift=0 training.output_dir=alone"],
    "average": ["focat average my-run"],
    "translate": [
        "focat translate my-run film.srt -o film.de.srt",
        "focat translate my-run films -o films.de",
        "cat talk.txt | focat translate my-run > talk.de.txt",
    ],
    "serve": ["focat serve my-run", "focat serve my-run --host 0.0.0.0 --keys keys.txt"],
    "contrast": ["focat contrast my-run --suite suite.jsonl --instances answers.jsonl", "focat contrast --list"],
    "score": ["focat score my-run test.en test.de -o scores.jsonl"],
    "evaluate": ["focat evaluate my-run --json quality.json", "focat evaluate --hypothesis out.de --reference test.de"],
    "compare": ["focat compare base.json focused.json", "focat compare base.json focused.json --table table.tex"],
    "analyse": ["focat analyse base focused --analyses attention,losses --json analysis.json"],
    "reproduce": ["focat reproduce", "focat reproduce demo --list", "focat reproduce my-plan.yaml seeds=1,2"],
    "report": ["focat report base focused -o report.html"],
    "import": ["focat import opus-mt-en-de -o opus"],
    "export": ["focat export my-run --to ct2 -o my-run.ct2"],
}
_HEADINGS = {  # of options, where there are too many for one list
    "translate": {
        "Formats": ("format", "encoding", "output_encoding", "split", "all_entries"),
        "Subtitles": ("line_length", "max_lines", "reading_speed", "keep_sounds"),
        "Terms": ("glossary", "keep"),
        "Context": ("context", "unconstrained", "window", "formality"),
        "Search": ("ensemble", "beam", "length_penalty", "nbest", "scores", "sample", "temperature", "top_p", "seed"),
        "Speed": ("int8", "bfloat16", "batch_tokens", "device"),
    }
}
_TYPES = {"int": "N", "int range": "N", "float": "N", "float range": "N", "str": "TEXT", "path": "PATH"}  # of typer


class Command(TyperCommand):
    """A command whose help is as this module has it."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = _with_types(super().get_params(ctx))
        for heading, names in _HEADINGS.get(self.name or "", {}).items():
            for param in params:
                if param.name in names:
                    param.rich_help_panel = heading
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        lines = EXAMPLES[self.name or ""]
        for line in [f" Example{'s' * (len(lines) > 1)}:", *(f"   {line}" for line in lines), ""]:
            print_line(line)


class Group(TyperGroup):
    """The whole of the commands, whose help is as this module has it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_types(super().get_params(ctx))


def _with_types(params: list[Any]) -> list[Any]:
    """Let an argument and an option that is either given or not show no type, and others a placeholder.

    Newer versions of typer show Python's types there; older ones do not ask.
    """
    for param in params:
        shown = getattr(type(param), "display_type_rich", None)
        if shown is not None:
            vars(param)["display_type_rich"] = _shown_type(param, shown)
    return params


def _shown_type(param: Any, shown: Callable[[Any, Any], str | None]) -> Callable[..., str | None]:
    if param.param_type_name == "argument" or getattr(param, "is_flag", False):
        return lambda ctx: None

    def placeholder(ctx: Any) -> str | None:
        text = shown(param, ctx)
        return text if text is None else _TYPES.get(text.strip("<>"), text)

    return placeholder
