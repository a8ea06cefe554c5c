"""Documents in, documents out, each sentence translated in its context (section 2.2 of the paper).

Sentences stream through: as many as fill a batch are decoded together, and come out in the order they went in. What
is in memory does not depend on how long a document is, nor on how many there are.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from focat.choices import TargetContext
from focat.config.schema import SearchSettings, WindowSettings
from focat.corpus.tokenizer import Tokenizer
from focat.corpus.vocabulary import END, SEPARATOR
from focat.decoding.engine import Searcher
from focat.decoding.requests import Hypothesis, Request
from focat.errors import FocatError
from focat.model.transformer import Transformer
from focat.translation.chunks import Piece, pieces_of
from focat.translation.result import Alternative, Translation, on_one_line

AHEAD = 1 << 16  # sentences read that have not come out yet: enough for many documents side by side
_POOL = 4  # batches that are asked for together; not on a CPU where windows wait for each other
_IN_A_ROW = 8  # sentences of a document that a GPU translates one after the other before any of them comes out
_SHORTEST_PIECE = 4  # tokens


@dataclass(frozen=True)
class Candidate:
    """What was decoded for one sentence."""

    tokens: list[int]
    log_probability: float
    finished: bool


Answers = list[list[list[Candidate]]]  # for each request, and those that followed from it: the best first
Recall = Callable[[Sequence[Request], Callable[[], Answers]], Answers]


class _Over:
    """Comes after the last line."""


_OVER: Final = _Over()


def compute(_: Sequence[Request], answer: Callable[[], Answers]) -> Answers:
    """Recalls nothing: every answer is computed."""
    return answer()


@dataclass
class _Slot:
    """The place of one sentence in the output."""

    number: int
    source: str
    text: str  # what the model is shown of it
    pieces: list[Piece] = field(default_factory=list)  # none until it is its turn
    answers: list[list[Candidate]] = field(default_factory=list)  # of each piece
    missing: int = 1  # answers that are still to come
    shortened: bool = False


@dataclass(frozen=True)
class _Unit:
    """A sentence or a piece of one: what windows are made of."""

    slot: _Slot
    piece: int
    tokens: list[int]

    @property
    def number(self) -> int:
        """Of no other unit, however the work is cut."""
        return self.slot.number + (self.piece << 40)


@dataclass(frozen=True)
class _Known:
    """A sentence that is context by now."""

    source: list[int]
    target: list[int]  # empty unless translations are reused


@dataclass
class _Document:
    """A document that is being translated."""

    past: deque[_Known]  # what may be context of the next sentence, oldest first
    waiting: deque[_Slot] = field(default_factory=deque)
    units: deque[_Unit] = field(default_factory=deque)  # the next ones, encoded
    closed: bool = False  # whether all of it has been read
    busy: bool = False  # whether a sentence is being translated that the next one needs

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.closed and not (self.waiting or self.units or self.busy)


@dataclass(frozen=True)
class _Task:
    """A request, and where its answer belongs."""

    document: _Document
    unit: _Unit
    request: Request
    place: int  # of the current sentence among those that are decoded


@dataclass
class _Chain:
    """A task, and then the next of the same document, as often as it is gone on with."""

    task: _Task
    answers: list[list[Candidate]] = field(default_factory=list)


@dataclass
class _Round:
    """Requests that are searched together."""

    room: int  # tokens, padding included
    tasks: list[_Task] = field(default_factory=list)
    longest: int = 0

    @property
    def full(self) -> bool:
        """Whether another like the longest would be too much."""
        return (len(self.tasks) + 1) * self.longest > self.room

    def add(self, task: _Task) -> None:
        """One more."""
        self.tasks.append(task)
        self.longest = max(self.longest, len(task.request.source))


class Translator:
    """Translates documents with one model, or an ensemble of several."""

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizer: Tokenizer,
        windows: WindowSettings,
        search: SearchSettings,
        context: TargetContext = "reuse",
        constrained: bool = True,
        ahead: int = AHEAD,
    ) -> None:
        """`windows` may differ from those of training; `constrained` windows have as many sentences as their source.

        `ahead` is how many sentences may be read before the first of them comes out: 1 answers each at once.
        """
        if ahead < 1:
            raise FocatError(f"ahead = {ahead}: at least one sentence has to be read before it can come out")
        for model in models:
            _check_positions(model, windows)
        if not constrained and windows.target[1] > 0:
            raise FocatError("--unconstrained keeps the last sentence, but here others stand behind the current one")
        if context == "none" and windows.target != (0, 0):
            # A model that has not seen source context without its translation is shown neither.
            windows = WindowSettings(before=0, max_tokens=windows.max_tokens)
        self.tokenizer, self.windows, self.settings = tokenizer, windows, search
        self.constrained, self.ahead = constrained, ahead
        self.reuses = context == "reuse" and windows.target[0] > 0
        """Whether sentences of a document wait for each other."""
        self._searcher = Searcher([_told_of(model, windows) for model in models], search)
        self.batch_tokens = self._searcher.batch_tokens
        """Source tokens of a batch, padding included."""
        go_on = self.reuses and self._searcher.static
        self._in_a_row = _IN_A_ROW if go_on else 1
        self._room = self.batch_tokens * (_POOL if go_on or not self.reuses else 1)

    def translate(self, documents: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
        """Each document's translations, in order, as soon as they are there."""
        lengths: deque[int] = deque()

        def lines() -> Iterator[str | None]:
            for document in documents:
                if isinstance(document, str):
                    raise FocatError(f"{document[:40]!r}: a document is a list of sentences; give [sentence, …]")
                lengths.append(len(document))
                yield from document
                yield None

        found: list[Translation] = []
        for translation in self.sentences(lines()):
            while lengths[0] == 0:
                yield []
                lengths.popleft()
            found.append(translation)
            if len(found) == lengths[0]:
                yield found
                lengths.popleft()
                found = []
        for _ in lengths:  # what is left are documents without sentences
            yield []

    def sentences(self, lines: Iterable[str | None], recall: Recall = compute) -> Iterator[Translation]:
        """One translation for each sentence, in order; None ends a document.

        `recall` stands between this and the search, and may know answers from an earlier time.
        """
        feed = iter(lines)
        slots: deque[_Slot] = deque()  # what has been read and has not come out
        documents: deque[_Document] = deque()
        numbers = itertools.count()
        reading = True
        while reading or slots:
            chosen = _Round(self._room)
            for document in documents:
                self._choose(document, chosen)
            while reading and len(slots) < self.ahead and not chosen.full:
                line = next(feed, _OVER)
                if isinstance(line, str):
                    self._read(line, next(numbers), slots, documents)
                elif documents:
                    documents[-1].closed = True
                reading = line is not _OVER
                if documents:
                    self._choose(documents[-1], chosen)
            self._answer(chosen.tasks, recall)
            documents = deque(document for document in documents if not document.over)
            while slots and slots[0].missing == 0:
                yield self._translation(slots.popleft())

    def _read(self, line: str, number: int, slots: deque[_Slot], documents: deque[_Document]) -> None:
        """A sentence takes its place; one that is blank is in no window."""
        slot = _Slot(number, line, on_one_line(line.encode("utf-8", "replace").decode()))
        slots.append(slot)
        if not slot.text:
            slot.missing = 0
            return
        if not documents or documents[-1].closed:
            documents.append(_Document(deque(maxlen=self.windows.before)))
        documents[-1].waiting.append(slot)

    def _choose(self, document: _Document, chosen: _Round) -> None:
        """Add what can be translated of a document now."""
        while not (document.busy or chosen.full):
            task = self._next(document)
            if task is None:
                return
            chosen.add(task)

    def _next(self, document: _Document) -> _Task | None:
        """The next sentence of a document, once all of its window has been read."""
        after = self.windows.after
        while len(document.units) <= after and document.waiting:
            self._encode(document.waiting.popleft(), document)
        if not document.units or (len(document.units) <= after and not document.closed):
            return None
        unit = document.units.popleft()
        task = self._task(document, unit)
        if self.reuses:
            document.busy = True
        else:
            document.past.append(_Known(unit.tokens, []))
        return task

    def _encode(self, slot: _Slot, document: _Document) -> None:
        most = self.windows.max_tokens - 1
        size = min(max(self.windows.max_tokens // self.windows.size - 1, _SHORTEST_PIECE), most)
        slot.pieces = pieces_of(slot.text, self.tokenizer.source, most, size)
        slot.missing = len(slot.pieces)
        slot.answers = [[] for _ in slot.pieces]
        document.units.extend(_Unit(slot, i, piece.tokens) for i, piece in enumerate(slot.pieces))

    def _task(self, document: _Document, unit: _Unit) -> _Task:
        """The window of a sentence. If it is too long, the farthest sentence goes first, as in training."""
        before = list(document.past)
        after = list(itertools.islice(document.units, self.windows.after))
        while before or after:
            source = sum(len(known.source) + 1 for known in before) + sum(len(each.tokens) + 1 for each in after)
            target = sum(len(known.target) + 1 for known in self._on_target(before))
            if max(source, target) + len(unit.tokens) + 1 <= self.windows.max_tokens:
                break
            unit.slot.shortened = True
            if len(after) >= len(before):
                after.pop()
            else:
                before.pop(0)
        sentences = [*(known.source for known in before), unit.tokens, *(each.tokens for each in after)]
        tokens = [token for sentence in sentences for token in (*sentence, SEPARATOR)]
        context = self._on_target(before)
        behind = min(len(after), self.windows.target[1])
        prefix = [token for known in context for token in (*known.target, SEPARATOR)] if self.reuses else []
        first = len(before) if self.reuses else len(before) - len(context)  # of the sentences that are decoded
        decoded = sum(len(sentence) + 1 for sentence in sentences[first : len(before) + 1 + behind])
        request = Request(
            source=[*tokens[:-1], END],
            prefix=prefix,
            sentences=len(context) + 1 + behind if self.constrained else None,
            longest=int(self.settings.max_length_ratio * decoded) + self.settings.max_length_offset,
            current=len(before),
            number=unit.number,
        )
        return _Task(document, unit, request, 0 if self.reuses else len(context))

    def _on_target(self, before: list[_Known]) -> list[_Known]:
        """Which of the source's context sentences the target has."""
        return before[max(len(before) - self.windows.target[0], 0) :]

    def _answer(self, tasks: Sequence[_Task], recall: Recall) -> None:
        """Search, and put everything where it belongs."""
        if not tasks:
            return
        chains = [_Chain(task) for task in tasks]
        requests = [task.request for task in tasks]

        def follow(i: int, hypotheses: list[Hypothesis]) -> Request | None:
            place = chains[i].task.place
            return self._go_on(chains[i], [current_sentence(each, place, self.constrained) for each in hypotheses])

        def search() -> Answers:
            self._searcher.chains(requests, follow)
            return [chain.answers for chain in chains]

        for chain, answers in zip(chains, recall(requests, search), strict=True):
            for candidates in answers[len(chain.answers) :]:  # those that were recalled instead
                self._go_on(chain, candidates)

    def _go_on(self, chain: _Chain, candidates: list[Candidate]) -> Request | None:
        """Put an answer where it belongs. Returns what can be asked now, if it is to be asked at once."""
        chain.answers.append(candidates)
        document, unit = chain.task.document, chain.task.unit
        unit.slot.answers[unit.piece] = candidates
        unit.slot.missing -= 1
        if not self.reuses:
            return None
        document.busy = False
        if candidates[0].tokens:
            document.past.append(_Known(unit.tokens, candidates[0].tokens))
        task = self._next(document) if len(chain.answers) < self._in_a_row else None
        if task is None:
            return None
        chain.task = task
        return task.request

    def _translation(self, slot: _Slot) -> Translation:
        if not slot.text:
            return Translation(slot.source, "")
        alternatives = tuple(self._alternative(slot, choice) for choice in zip(*slot.answers, strict=False))
        return Translation(
            slot.source,
            alternatives[0].text,
            alternatives[0].score,
            alternatives,
            pieces=len(slot.pieces),
            cut=not all(candidates[0].finished for candidates in slot.answers),
            shortened=slot.shortened,
        )

    def _alternative(self, slot: _Slot, choice: tuple[Candidate, ...]) -> Alternative:
        texts = [self.tokenizer.target.decode(candidate.tokens).strip() for candidate in choice]
        joints = [piece.joint for piece in slot.pieces[:-1]]
        text = "".join(itertools.chain(*zip(texts, [*joints, ""], strict=True)))
        tokens = sum(len(candidate.tokens) + 1 for candidate in choice)
        total = sum(candidate.log_probability for candidate in choice)
        return Alternative(on_one_line(text), total / tokens**self.settings.length_penalty)


def current_sentence(hypothesis: Hypothesis, place: int, constrained: bool) -> Candidate:
    """What is kept of a decoded window: the sentence at its place, or after the last separator (the paper's rule)."""
    ends = [i for i, token in enumerate(hypothesis.tokens) if token in (SEPARATOR, END)]
    if not hypothesis.tokens or hypothesis.tokens[-1] != END:
        ends.append(len(hypothesis.tokens))
    place = place if constrained else len(ends) - 1
    start, end = ends[place - 1] + 1 if place else 0, ends[place]
    scores = hypothesis.token_scores[start : end + 1]
    return Candidate(hypothesis.tokens[start:end], sum(scores), hypothesis.finished)


def _check_positions(model: Transformer, windows: WindowSettings) -> None:
    """Refuse windows of more sentences than a table of learned positions was made for."""
    if model.settings.positions == "learned" and windows.size > model.windows.size:
        raise FocatError(
            f"--window {windows.size}: this model has learned positions, for windows of at most "
            f"{model.windows.size} sentences; ask for {model.windows.size} or fewer"
        )


def _told_of(model: Transformer, windows: WindowSettings) -> Transformer:
    """The same model, with the same weights, that expects target context as these windows have it."""
    if model.windows == windows:
        return model
    told = copy.copy(model)
    told.windows = windows
    return told
