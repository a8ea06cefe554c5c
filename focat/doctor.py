"""`focat doctor`: whether this machine has what focat needs and what it can use, and what to run if not."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from focat._version import __version__
from focat.errors import FocatError
from focat.evaluation import comet
from focat.model import decode_attention
from focat.progress import Progress
from focat.reporting.table import Table, print_table, row

CheckState = Literal["ready", "optional", "missing"]
_MIN_DISK = 5  # GiB; a corpus of a million pairs and a run fit into it
_EXTRAS = {  # of focat: a package that each installs, and what it is for
    "serve": ("starlette", "focat serve"),
    "parquet": ("pyarrow", "corpora in Parquet files and in datasets of Hugging Face"),
    "interop": ("ctranslate2", "focat export --to ct2, and benchmarks beside other toolkits"),
    "ray": ("ray", "focat.ray, which translates and scores documents on a cluster"),
}


@dataclass(frozen=True)
class Check:
    """Result of one check of the machine."""

    name: str
    state: CheckState  # `optional`: focat works without it
    found: str
    remedy: str = ""


def run_checks(progress: Progress, quick: bool = False) -> list[Check]:
    """Check everything; `quick` leaves out what takes seconds."""
    checks = [_system(), _python(), *_torch(), _c_compiler(), _disk(), *_extras()]
    if not quick:
        with progress.bar("compiling a small function"):
            checks.append(_compile())
        with progress.bar("starting COMET"):
            checks.append(_comet())
    return checks


def show_checks(checks: list[Check], console: Console) -> None:
    """Print a row for each check, and below it what to run."""
    colours: dict[CheckState, str] = {"ready": "green", "optional": "yellow", "missing": "red"}
    rows = [row(check.name, Text(check.state, colours[check.state]), check.found) for check in checks]
    remedies = [f"{check.name}: {check.remedy}" for check in checks if check.remedy]
    print_table(Table(f"focat {__version__}", ("check", "state", "found"), rows, remedies, labels=3), console)


def record(checks: list[Check]) -> dict[str, Any]:
    """Return all checks, to be written as JSON."""
    return {"focat": __version__, "checks": [asdict(check) for check in checks]}


def _system() -> Check:
    return Check("system", "ready", f"{platform.platform(terse=True)}")


def _python() -> Check:
    return Check("Python", "ready", f"{platform.python_version()}, {sys.executable}")


def _torch() -> Iterator[Check]:
    import torch

    yield Check("torch", "ready", torch.__version__)
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(number)
            yield Check(f"GPU {number}", "ready", f"{device.name}, {device.total_memory / 2**30:.0f} GiB")
    else:
        yield Check(
            "GPU",
            "optional",
            f"none that torch can use; threads of the CPU: {torch.get_num_threads()}",
            "a GPU needs a driver and a torch built for it: https://pytorch.org/get-started",
        )


def _c_compiler() -> Check:
    """Load the kernel of attention, compiled if it has not been before."""
    if decode_attention.is_available():
        return Check("C compiler", "ready", "kernels for translation on the CPU are compiled")
    remedy = "translation on the CPU works without, only slower; install gcc or clang"
    return Check("C compiler", "optional", "none that works", remedy)


def _compile() -> Check:
    """Compile a small function: a compiler that is installed may still not work."""
    import torch

    def small(x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).relu().sum()

    x = torch.randn(64, device="cuda" if torch.cuda.is_available() else "cpu")
    try:
        compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(small)
        correct = torch.allclose(compiled(x), small(x), atol=1e-4)
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        remedy = "training works without, only slower (training.compile=never); a C++ compiler may be all it needs"
        return Check("torch.compile", "optional", reason[:100], remedy)
    return Check("torch.compile", "ready" if correct else "missing", "works" if correct else "gives wrong results")


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    enough = free >= _MIN_DISK
    remedy = "" if enough else "make room, or work in another folder: stores and checkpoints are large"
    return Check("disk", "ready" if enough else "missing", f"{free:,.0f} GiB free in {Path.cwd()}", remedy)


def _extras() -> Iterator[Check]:
    for extra, (package, purpose) in _EXTRAS.items():
        try:
            yield Check(package, "ready", f"{version(package)}, for {purpose}")
        except PackageNotFoundError:
            yield Check(package, "optional", f"not installed; for {purpose}", f"pip install 'focat[{extra}]'")


def _comet() -> Check:
    try:
        found = comet.check()
    except FocatError as error:
        return Check("COMET", "optional", "not ready", str(error))
    return Check("COMET", "ready", f"{found['comet']} with torch {found['torch']}, {comet.environment()}")
