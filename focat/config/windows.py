"""Settings of windows: which sentences the model sees around the current one (section 2.2 of the paper)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, model_validator

from focat.choices import ContextControl
from focat.config.sections import SettingsSection
from focat.errors import ParameterError

MAX_WINDOW = 1000  # sentences in a window; no model can take as many


class WindowSettings(SettingsSection):
    """Which sentences surround the current one. s4to4 is `before: 3`; s4to1 adds `target_before: 0`."""

    before: NonNegativeInt = 3
    """Sentences in front of the current one, on the source."""
    after: NonNegativeInt = 0
    """Sentences behind the current one, on the source."""
    target_before: NonNegativeInt | None = None
    """The same on the target; as many as on the source if not given."""
    target_after: NonNegativeInt | None = None
    """The same on the target; as many as on the source if not given."""
    sampling: Literal["fixed", "random"] = "fixed"
    """`random` draws the number of context sentences of each window anew in each epoch, from none to all
    (multi-resolution training)."""
    context: ContextControl = "real"
    """Context of training and of losses: that of the document; or, to find out what a system gains from the context
    itself, that of another window drawn at random in each epoch, or of one and the same window (Li et al., 2020)."""
    max_tokens: Annotated[int, Field(ge=8)] = 1024
    """Longest window, in tokens of one side. A longer one loses its farthest context sentences first."""

    @model_validator(mode="after")
    def _target_within_source(self) -> WindowSettings:
        if self.context != "real" and self.after:
            raise ValueError(f"context: {self.context} needs after: 0")
        for name in ("before", "after"):
            wanted, limit = getattr(self, f"target_{name}"), getattr(self, name)
            if wanted is not None and wanted > limit:
                raise ValueError(
                    f"target_{name} is {wanted} but {name} is {limit}: the target has the same sentences or fewer"
                )
        return self

    @property
    def target(self) -> tuple[int, int]:
        """Context sentences on the target: (before, after)."""
        before = self.before if self.target_before is None else self.target_before
        after = self.after if self.target_after is None else self.target_after
        return before, after

    @property
    def size(self) -> int:
        """K: the most sentences a window can have."""
        return self.before + 1 + self.after

    def of_size(self, size: int | None) -> WindowSettings:
        """Return these windows with `size` sentences; sentences behind the current one stay.

        A target as long as its source stays as long; a shorter one stays as it is, unless the source gets shorter.

        Args:
            size: sentences in a window; None leaves the windows as they are.
        """
        if size is None:
            return self
        if not isinstance(size, int) or isinstance(size, bool):
            raise ParameterError("window", repr(size), "should be a whole number")
        if size > MAX_WINDOW:
            raise ParameterError("window", size, f"ask for {MAX_WINDOW:,} sentences at most")
        before = size - 1 - self.after
        if before < 0:
            raise ParameterError("window", size, f"must be larger than windows.after, {self.after}")
        target = None if self.target[0] == self.before else min(self.target[0], before)
        return self.model_copy(update={"before": before, "target_before": target})

    def __str__(self) -> str:
        """4to4."""
        return f"{self.size}to{sum(self.target) + 1}"
