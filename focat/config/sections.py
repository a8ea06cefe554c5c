"""What all sections of settings share: strict fields with documentation, and paths relative to the settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, field_validator

INTEGER_LIMIT = 2**53  # far above any setting; tensors hold 63 bits, and sums and products must fit, too


class SettingsSection(BaseModel):
    """A group of settings. Unknown names are refused; the docstring under a field is its help text."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )

    @field_validator("*")
    @classmethod
    def _check_size(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
            raise ValueError("should have 15 digits at most")
        return value


class FileString(str):
    """A string read from a settings file, with the folder of that file."""

    folder: Path

    def __new__(cls, text: str, folder: Path) -> FileString:
        string = super().__new__(cls, text)
        string.folder = folder
        return string


def _relative_to_file(path: object) -> object:
    """Resolve a relative path of a settings file from the folder of that file, not from the working directory."""
    if isinstance(path, FileString):
        return path.folder / Path(path).expanduser()
    return Path(path).expanduser() if isinstance(path, str) else path


FilePath = Annotated[Path, BeforeValidator(_relative_to_file)]
