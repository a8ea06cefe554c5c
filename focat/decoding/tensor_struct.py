"""Dataclasses of tensors with one row for each window, and what all of them can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

from torch import Tensor

Struct = TypeVar("Struct", bound="TensorStruct")


class TensorStruct:
    """Base of dataclasses of tensors whose first dimension is the window."""

    def map(self: Struct, function: Callable[[Tensor], Tensor]) -> Struct:
        """Apply a function to every tensor."""
        return type(self)(*(function(getattr(self, field.name)) for field in fields(self)))  # type: ignore[arg-type]

    def copy_(self: Struct, other: Struct) -> None:
        """Copy the values of another of the same shape, in place."""
        for field in fields(self):  # type: ignore[arg-type]
            getattr(self, field.name).copy_(getattr(other, field.name))


def gather_beams(values: Tensor, beams: Tensor) -> Tensor:
    """Values (windows, beam, …) of the chosen hypotheses, (windows, count)."""
    index = beams.view(*beams.shape, *(1 for _ in values.shape[2:]))
    return values.gather(1, index.expand(-1, -1, *values.shape[2:]))
