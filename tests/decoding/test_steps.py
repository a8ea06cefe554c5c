"""Single steps of the search, with numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from focat.corpus.vocabulary import END, SEPARATOR
from focat.decoding.beam import Hypotheses, Windows
from focat.decoding.constraints import Allowed
from focat.decoding.selection import likeliest


def logits(*rows: dict[int, float]) -> torch.Tensor:
    """(1, beam, 8) of the probabilities given; what is left over goes to the start symbol, which never comes."""
    table = torch.zeros(1, len(rows), 8)
    for row, shares in enumerate(rows):
        for token, share in {1: 1 - sum(shares.values()), **shares}.items():
            table[0, row, token] = share
    return table.clamp(min=1e-30).log()


def test_what_ends_makes_room_for_what_goes_on() -> None:
    """Of 0.30 <E>, 0.24, 0.20, 0.12, 0.06 <E>, the second, third and first are chosen; an end too low is lost."""
    free = torch.ones(1, 2, dtype=torch.bool)
    totals = torch.tensor([[0.6, 0.4]]).log()
    table = logits({END: 0.5, 4: 0.4, 5: 0.1}, {6: 0.5, SEPARATOR: 0.3, END: 0.15})
    ends, on = likeliest(totals, table, Allowed(free, free, free, ~free))
    assert ends.total.exp()[0].tolist() == pytest.approx([0.30, 0.0])
    assert ends.token[0, 0] == END
    assert on.token.tolist() == [[4, 6]]
    assert on.parent.tolist() == [[0, 1]]
    assert on.total.exp()[0].tolist() == pytest.approx([0.24, 0.20])
    assert on.log_probability.exp()[0].tolist() == pytest.approx([0.4, 0.5])


@pytest.mark.parametrize(("going_on", "over"), [(0.30, False), (0.26, False), (0.24, True), (0.10, True)])
def test_a_window_is_over_when_nothing_better_can_come(going_on: float, over: bool) -> None:
    """An end of probability 0.5 scores log 0.5; with a limit of 2 and a penalty of 1, 0.25 may still come to that."""
    windows = Windows(
        number=torch.tensor([0]),
        step=torch.tensor([[0]]),
        limit=torch.tensor([[2]]),
        sentences=torch.tensor([[0]]),
        closed=torch.zeros(1, 2, dtype=torch.long),
        empty=torch.ones(1, 2, dtype=torch.bool),
        lengths=torch.zeros(1, 2, dtype=torch.long),
        over=torch.tensor([False]),
        luck=torch.zeros(1, 2, 0),
    )
    hypotheses = Hypotheses(windows, longest=2, nbest=1, length_penalty=1.0, alike=True)
    table = logits({END: 0.5, 4: going_on}, {})
    assert hypotheses.advance(table, likeliest).tolist()[0] == 0
    assert float(hypotheses.ended.rank[0, 0]) == pytest.approx(math.log(0.5))
    assert hypotheses.windows.over.tolist() == [over]
