"""Windows in flight: given to a decoder, and finished when their translations are there.

The translator of files and the server both decode through it. They differ in what they submit, and when.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from focat.translation.document_stream import JobBuilder, WindowJob
from focat.translation.sentence_decoder import SentenceDecoder


@dataclass
class Wave:
    """Windows that are submitted together."""

    max_tokens: int  # source tokens, padding included
    jobs: list[WindowJob] = field(default_factory=list)
    longest: int = 0

    @property
    def full(self) -> bool:
        """Whether another window of the greatest length would be too much."""
        return (len(self.jobs) + 1) * self.longest > self.max_tokens

    def add(self, job: WindowJob) -> None:
        """Add a window."""
        self.jobs.append(job)
        self.longest = max(self.longest, len(job.request.source))


class WindowDriver:
    """Submits windows to a decoder, and stores their results in their documents."""

    def __init__(self, jobs: JobBuilder, decoder: SentenceDecoder, max_chained: int = 1) -> None:
        """`max_chained`: sentences of a document that are decoded one after the other without being submitted anew."""
        self._jobs, self._decoder, self._max_chained = jobs, decoder, max_chained
        self._in_flight: dict[int, tuple[WindowJob, int]] = {}

    @property
    def idle(self) -> bool:
        """Whether no window is in flight."""
        return not self._in_flight

    def submit(self, job: WindowJob) -> None:
        """Give a window to the decoder."""
        self._submit(job, 1)

    def step(self) -> list[WindowJob]:
        """Do some of the work; returns the windows that have finished since.

        Raises:
            FocatError: out of memory, or the model's scores are NaN; all windows are dropped.
        """
        finished = []
        try:
            decoded_windows = self._decoder.step()
        except BaseException:
            self._in_flight.clear()
            raise
        for id, decoded in decoded_windows:
            job, chained = self._in_flight.pop(id)
            self._jobs.finish(job, decoded)
            finished.append(job)
            following = self._jobs.next_job(job.document) if chained < self._max_chained else None
            if following:
                self._submit(following, chained + 1)
        return finished

    def _submit(self, job: WindowJob, chained: int) -> None:
        self._in_flight[self._decoder.submit(job.request, job.position)] = job, chained
