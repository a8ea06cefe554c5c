"""Arguments and options that several commands share, and how their text is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from focat.choices import Precision, ScoringRule, TargetContext
from focat.errors import FocatError, ParameterError
from focat.files import check_output_file

if TYPE_CHECKING:
    from focat.progress import Progress

Choice = TypeVar("Choice", bound=str)


def flag(name: str, help: str) -> Any:
    """Declare an option that is either given or not."""
    return typer.Option(name, help=help)


def file(help: str, *names: str) -> Any:
    """Declare an option that names a file."""
    return typer.Option(*names, metavar="FILE", help=help)


def _new_file(context: typer.Context, path: Path | None) -> Path | None:
    """Refuse a file that exists, unless --overwrite is given, which is read before other options."""
    check_output_file(path, context.params.get("overwrite", False))
    return path


ConfigFile = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="Settings file (YAML), or a recipe such as focat:s4to4.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Settings to override, as in windows.before=3."),
]
DecodingOverrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Settings of decoding to override, as in decoding.beam=8."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `focat train` or `focat import` made.")]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", callback=_new_file, help="Also write the figures to a file, as JSON."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", is_eager=True, help="Replace what exists.")]
OverwriteJson = Annotated[bool, typer.Option("--overwrite", is_eager=True, help="Replace the file of --json.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
# Named, because some versions of typer take a metavar that is the name in capitals for the option itself.
DeviceName = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:1.")]
EnsembleRuns = Annotated[
    list[Path] | None,
    typer.Option("--ensemble", metavar="RUN", help="Another run, to average probabilities with. Repeatable."),
]
WindowSize = Annotated[int | None, typer.Option(min=1, help="Sentences in a window; as in training if not given.")]
ContextOption = Annotated[
    TargetContext | None,
    typer.Option(help="Target context: reuse (our own translations), regenerate (the paper) or none."),
]
Unconstrained = Annotated[
    bool,
    typer.Option("--unconstrained", help="Let a window have any number of sentences, and keep the last (paper)."),
]
Int8 = Annotated[bool, flag("--int8", "On a CPU: up to twice as fast with eight-bit integers, a little less exact.")]
Bfloat16 = Annotated[bool, flag("--bfloat16", "On a CPU that has bfloat16: faster, and more exact than --int8.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses kept at each step; 1 is greedy.")]
ContextSource = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Source context of a suite like ContraPro, as text.")
]
ContextTarget = Annotated[Path | None, typer.Option(metavar="FILE", help="Its target context, as text.")]
RuleOption = Annotated[
    ScoringRule,
    typer.Option(metavar="RULE", help="Score of a candidate: current-sum, current-mean or window-mean (the paper's)."),
]
DocumentNames = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The document of each line; else a blank line ends one.")
]
TrialSeed = Annotated[int, typer.Option(min=0, help="Seed of the random trials.")]
PrecisionOption = Annotated[Precision, typer.Option(help="bfloat16 is faster on GPUs, and less exact.")]


def progress_shown(quiet: bool) -> Progress:
    """Progress on standard error, or none."""
    from focat.progress import NULL_PROGRESS, Progress

    return NULL_PROGRESS if quiet else Progress()


def check_second_file(path: Path | None, json_file: Path | None, overwrite: bool) -> None:
    """Refuse an output beside that of `--json`: one that exists, or that is the same file."""
    check_output_file(path, overwrite)
    if path is not None and json_file is not None and path.resolve() == json_file.resolve():
        raise FocatError(f"--json {json_file}: is the other output, too; give another file")


def write_figures(path: Path | None, content: Any) -> None:
    """Write the file of `--json`, if there is to be one."""
    if path is not None:
        from focat.files import write_json

        write_json(path, content)


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part arguments into files or folders and overrides such as decoding.beam=8; what exists is a file."""
    overrides = [a for a in arguments if re.match(r"[a-z]+(\.[a-z0-9_]+)+=", a) and not Path(a).exists()]
    for argument in arguments:
        if "=" in argument and argument not in overrides and not Path(argument).exists():
            _check_section(argument)
    return [a for a in arguments if a not in overrides], overrides


def _check_section(argument: str) -> None:
    """Refuse a setting of decoding without its section, as in beam=8, which would be taken for a file."""
    from focat.config.schema import DecodingSettings

    if argument.partition("=")[0] in DecodingSettings.model_fields:
        raise FocatError(f"{argument}: no such file; a setting needs its section, as in decoding.{argument}")


def shard(parameter: str, text: str | None) -> tuple[int, int] | None:
    """Read a shard such as `2/8`."""
    if text is None:
        return None
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal()):
        raise ParameterError(parameter, text, "should be two numbers, as 2/8")
    return int(index), int(count)


def names_between_commas(parameter: str, text: str, choices: Sequence[Choice]) -> list[Choice]:
    """Read a list such as `attention,losses`; the result is in the order of the choices."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    for part in given:
        if part not in choices:
            raise ParameterError(parameter, part, f"choose from {', '.join(choices)}")
    if not given:
        raise ParameterError(parameter, text, f"is empty; choose from {', '.join(choices)}")
    return [name for name in choices if name in given]


def window_sizes(parameter: str, text: str) -> list[int]:
    """Read window sizes: numbers between commas, and ranges, as in `1,2,4` and `1-6`."""
    sizes: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ParameterError(parameter, text, f"{part!r} is no window size; give sizes such as 1,2,4 or 1-6")
        sizes |= set(range(int(first), int(last if dash else first) + 1))
    if not sizes or min(sizes) < 1 or max(sizes) > 1000:
        raise ParameterError(parameter, text, "give window sizes from 1 to 1000, such as 1,2,4 or 1-6")
    return sorted(sizes)
