"""Logits to the target's own choice: greedy, or sampled with noise keyed by position.

What a choice depends on is its position, the tokens before it and the seed, never how many
positions the pass had. So plain decoding and PLD choose the same tokens, and a draft token is
accepted exactly when the target itself would have chosen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Iterator

import torch
from transformers import (
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    LogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from pld_core import tree
from pld_core.largest import Ranking
from pld_core.settings import Sampling, Settings

MARGIN_LIMIT = 1e4
"""A margin is at most this, also where a single token was allowed."""

NOISE_RANGE = 42.0
"""Noise lies between -3.7 and 37.5, so a token further below the second best score is neither
the choice nor its runner-up."""

_MIX = (-0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)  # splitmix64's constants


class PresenceFrequencyPenalty(LogitsProcessor):
    """OpenAI's penalties over the generated tokens: score - count * frequency - presence."""

    def __init__(self, presence: float, frequency: float, prompt_length: int) -> None:
        self.presence, self.frequency, self.prompt_length = presence, frequency, prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        counts = torch.zeros_like(scores)
        generated = input_ids[:, self.prompt_length :]
        counts.scatter_add_(1, generated, torch.ones_like(generated, dtype=scores.dtype))
        return scores - counts * self.frequency - (counts > 0) * self.presence


class Chooser:
    """Chooses the next token after each position of one lane's passes.

    The processors are transformers' own classes in transformers' own order, each applied to
    the prefix that its position really has (sgl-project/sglang#21258, vllm-project/vllm#32642
    are what happens otherwise). prompt_length is in tokens.
    """

    def __init__(
        self, settings: Settings, prompt_length: int, eos: Sequence[int], device: torch.device
    ) -> None:
        self._sampling = settings.sampling
        limit = prompt_length + settings.max_new_tokens
        self._processors = list(
            _processors(settings.sampling, prompt_length, limit, list(eos), device)
        )

    @property
    def takes_the_largest(self) -> bool:
        """Whether the largest logit is the choice, whatever the position and the context."""
        return self._sampling.greedy and not self._processors

    def scores(
        self, logits: torch.Tensor, ids: Sequence[int], parents: Sequence[int] = ()
    ) -> ChosenScores:
        """logits [W, V]; ids: the whole context up to and with the W forwarded tokens, of which
        the last W - 1 are the nodes of a tree where there are `parents`."""
        logits = logits.float()
        if self.takes_the_largest:
            ranking = Ranking(logits)
            return ChosenScores(logits, ranking.argmax().tolist(), ranking, ranking)
        # one tensor for all rows, of which each sees its prefix
        context = torch.tensor([ids if self._processors else []], device=logits.device)
        first = len(ids) - len(logits) + 1  # the position of the first row's choice
        positions = range(first, first + len(logits))
        if parents:
            positions = [first + depth for depth in (0, *tree.depths(parents))]

        def prefix(row: int) -> torch.Tensor:
            if not parents or not self._processors:
                return context[:, : first + row]
            nodes = [first + node for node in tree.path(parents, row - 1)]
            return torch.cat((context[:, :first], context[:, nodes]), 1)

        return _LazyScores(logits, positions, prefix, self._processed, self._noisy)

    def _processed(self, logits: torch.Tensor, prefix: torch.Tensor) -> torch.Tensor:
        scores = logits[None]
        for processor in self._processors:
            scores = processor(prefix, scores)
        return scores[0]

    def _noisy(self, scores: torch.Tensor, position: int) -> torch.Tensor:
        if self._sampling.greedy:
            return scores
        second = Ranking(scores[None]).top(2)[0][0, -1]
        # >=: at a tiny temperature the scores are so large that the range rounds away
        near = (scores >= second - NOISE_RANGE) & (scores > float("-inf"))
        allowed = near.nonzero()[:, 0]
        noisy = torch.full_like(scores, float("-inf"))
        noisy[allowed] = scores[allowed] + gumbel(self._sampling.seed, position, allowed)
        return noisy


class ChosenScores:
    """The choices of one pass and what stood behind them; see Scores.

    Probabilities are those of the distribution that was chosen from, so after temperature,
    cut-offs and penalties; margins are between the two best of what was maximised, noise
    included: how little would have changed the choice.
    """

    def __init__(
        self,
        logits: torch.Tensor,
        choices: Sequence[int],
        processed: Ranking | Sequence[torch.Tensor],
        maximised: Ranking | Sequence[torch.Tensor],
    ) -> None:
        self.logits = logits
        self.width = len(logits)
        self.choices = choices
        self._processed = processed
        self._maximised = maximised

    def kept(self, rows: int) -> tuple[list[float], list[float]]:
        processed = _ranking(self._processed, slice(rows)).rows
        chosen = torch.tensor(list(self.choices[:rows]), device=processed.device)[:, None]
        probabilities = processed.softmax(-1).gather(1, chosen)
        best, second = _ranking(self._maximised, slice(rows)).top(2)[0].split(1, -1)
        margins = (best - second).clamp(max=MARGIN_LIMIT)
        # where no token is allowed, or the logits are no numbers, there is neither
        both = torch.cat((probabilities, margins), 1).nan_to_num(0.0)
        return tuple(both.t().tolist())

    def along(self, rows: Sequence[int]) -> ChosenScores:
        def taken(of: Ranking | Sequence) -> Ranking | Sequence:
            return of[rows] if isinstance(of, Ranking) else [of[row] for row in rows]

        chosen = ChosenScores(
            self.logits[rows],
            taken(self.choices),
            taken(self._processed),
            taken(self._maximised),
        )
        chosen.width = self.width
        return chosen

    def favourites(self, row: int, count: int) -> list[tuple[int, float]]:
        ranking = _ranking(self._processed, slice(row, row + 1))
        scores, tokens = ranking.top(count)
        best = scores[:, :1]  # differences to it are exact where the scores are large
        probabilities = (scores - best).exp() / (ranking.rows - best).exp().sum(-1, keepdim=True)
        pairs = zip(tokens[0].tolist(), probabilities[0].tolist())
        return [(token, probability) for token, probability in pairs if probability > 0]


class _LazyScores(ChosenScores):
    """Chooses row by row, as far as somebody asks: behind a rejected token nobody does.
    positions [W] are those of the rows' choices, prefix(row) [1, position] the ids before one."""

    def __init__(self, logits, positions, prefix, process, add_noise) -> None:
        rows = len(logits)
        processed = _Lazy(rows, lambda i: process(logits[i], prefix(i)))
        maximised = _Lazy(rows, lambda i: add_noise(processed[i], positions[i]))
        choices = _Lazy(rows, lambda i: int(Ranking(maximised[i][None]).argmax()))
        super().__init__(logits, choices, processed, maximised)


class _Lazy(Sequence):
    def __init__(self, length: int, make) -> None:
        self._made: dict[int, object] = {}
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        if not 0 <= index < self._length:
            raise IndexError(index)
        if index not in self._made:
            self._made[index] = self._make(index)
        return self._made[index]


def gumbel(seed: int, position: int, tokens: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise [len(tokens)] for one position, a function of (seed, position,
    token) alone: the same on every device, whatever was drawn before (splitmix64's finaliser,
    Steele et al. 2014). The token that maximises log p + noise is a sample from p (Gumbel
    1954), and is unchanged when other tokens are cut off or the vocabulary is padded.
    """
    key = _mix(torch.tensor([seed], device=tokens.device))
    key = _mix(key + torch.tensor([position], device=tokens.device) * _MIX[0])
    bits = _mix(key + (tokens + 1) * _MIX[0])
    uniform = ((bits >> 11 & (1 << 53) - 1).double() + 0.5) * 2.0**-53
    uniform = uniform.clamp(max=1 - 2.0**-53)  # the last one rounds to 1, and its noise to inf
    return -(-uniform.log()).log().float()


def _mix(x: torch.Tensor) -> torch.Tensor:
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * _MIX[1]  # >> of an int64 drags its sign along
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * _MIX[2]
    return x ^ (x >> 31 & (1 << 33) - 1)


def _ranking(rows: Ranking | Sequence[torch.Tensor], taken: slice) -> Ranking:
    taken = rows[taken]
    return taken if isinstance(taken, Ranking) else Ranking(torch.stack(list(taken)).float())


def _processors(
    s: Sampling, prompt_length: int, limit: int, eos: list[int], device: torch.device
) -> Iterator[LogitsProcessor]:
    if s.repetition_penalty != 1:
        yield RepetitionPenaltyLogitsProcessor(float(s.repetition_penalty))
    if s.presence_penalty or s.frequency_penalty:
        yield PresenceFrequencyPenalty(s.presence_penalty, s.frequency_penalty, prompt_length)
    if s.no_repeat_ngram:
        yield NoRepeatNGramLogitsProcessor(s.no_repeat_ngram)
    if s.banned:
        yield NoBadWordsLogitsProcessor([list(sequence) for sequence in s.banned], eos or None)
    if s.min_new_tokens and eos:
        yield MinNewTokensLengthLogitsProcessor(prompt_length, s.min_new_tokens, eos, str(device))
    if s.forced_first is not None:
        yield _AtLength(prompt_length, ForcedBOSTokenLogitsProcessor(s.forced_first))
    if s.forced_last is not None:
        yield ForcedEOSTokenLogitsProcessor(limit, s.forced_last, str(device))
    if not s.greedy:
        yield from _warpers(s)


def _warpers(s: Sampling) -> Iterator[LogitsProcessor]:
    if s.temperature != 1:
        yield TemperatureLogitsWarper(float(s.temperature))
    if s.top_k:
        yield TopKLogitsWarper(s.top_k)
    if s.top_p < 1:
        yield TopPLogitsWarper(float(s.top_p))
    if s.min_p > 0:
        yield MinPLogitsWarper(float(s.min_p))


class _AtLength(LogitsProcessor):
    """transformers forces the first token of a decoder that holds one; a prompt holds more."""

    def __init__(self, length: int, processor: LogitsProcessor) -> None:
        self._length, self._processor = length, processor

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[-1] != self._length:
            return scores
        return self._processor(input_ids[:, :1], scores)
