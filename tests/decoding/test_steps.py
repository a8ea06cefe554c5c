"""Single steps of the search, with numbers worked out by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from focat.corpus.vocabulary import END, SEPARATOR
from focat.decoding.beam import BeamSearch, BeamState
from focat.decoding.constraints import NextTokenMask
from focat.decoding.selection import TopTokens, beam_topk, within_limits


def logits(*rows: dict[int, float]) -> torch.Tensor:
    """(1, beam, 8) of the probabilities given; what is left over goes to the start symbol, which never comes."""
    table = torch.zeros(1, len(rows), 8)
    for row, shares in enumerate(rows):
        for token, share in {1: 1 - sum(shares.values()), **shares}.items():
            table[0, row, token] = share
    return table.clamp(min=1e-30).log()


def test_ended_candidates_make_room_for_live_ones() -> None:
    """Of 0.30 <E>, 0.24, 0.20, 0.12, 0.06 <E>, two and three continue and one ends; the other end is too low."""
    free = torch.ones(1, 2, dtype=torch.bool)
    totals = torch.tensor([[0.6, 0.4]]).log()
    table = logits({END: 0.5, 4: 0.4, 5: 0.1}, {6: 0.5, SEPARATOR: 0.3, END: 0.15})
    ends, on = beam_topk(TopTokens.of(table, 4), totals, NextTokenMask(free, free, free, ~free))
    assert ends.total.exp()[0].tolist() == pytest.approx([0.30, 0.0])
    assert ends.token[0, 0] == END
    assert on.token.tolist() == [[4, 6]]
    assert on.parent.tolist() == [[0, 1]]
    assert on.total.exp()[0].tolist() == pytest.approx([0.24, 0.20])
    assert on.log_probability.exp()[0].tolist() == pytest.approx([0.4, 0.5])


@pytest.mark.parametrize(("live", "finished"), [(0.30, False), (0.26, False), (0.24, True), (0.10, True)])
def test_a_window_is_finished_when_nothing_better_can_come(live: float, finished: bool) -> None:
    """An end of probability 0.5 scores log 0.5; with a limit of 2 and a penalty of 1, 0.25 may still come to that."""
    state = BeamState(
        request_id=torch.tensor([0]),
        step=torch.tensor([[0]]),
        max_length=torch.tensor([[2]]),
        sentences=torch.tensor([[1]]),
        closed=torch.zeros(1, 2, dtype=torch.long),
        empty=torch.zeros(1, 2, dtype=torch.bool),  # after a prefix, so that END may come first
        lengths=torch.zeros(1, 2, dtype=torch.long),
        finished=torch.tensor([False]),
        uniforms=torch.zeros(1, 2, 0),
    )
    search = BeamSearch(state, max_length=2, nbest=1, length_penalty=1.0, single_start=True)
    table = logits({END: 0.5, 4: live}, {})
    select = within_limits(partial(beam_topk, TopTokens.of(table, 4)))
    assert search.advance(select).tolist()[0] == 0
    assert float(search.ended.rank[0, 0]) == pytest.approx(math.log(0.5))
    assert search.state.finished.tolist() == [finished]
