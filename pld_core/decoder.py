"""The one loop. Plain decoding is the same loop with draft length 0."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Callable, Iterator, Sequence

from pld_core import accept, tree
from pld_core.ends import Ends
from pld_core.events import Candidate, End, Event, Pass, Prefill, Seconds, Start
from pld_core.lookup import Draft, Lookup
from pld_core.models.target import Scores, Target
from pld_core.settings import Settings
from pld_core.text import Text

FAVOURITES = 5


class PromptError(ValueError):
    """A prompt that cannot be run; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Reading:
    """So many tokens of a long prompt are read. It is no event of a stream, but the place where
    a run can be left before its first token."""

    lane: str
    tokens: int


def check_prompt(tokens: int, limit: int | None) -> None:
    """Raises PromptError when a prompt of so many tokens is empty or beyond the context."""
    if tokens == 0:
        raise PromptError("The prompt is empty.")
    if limit is not None and tokens > limit:
        raise PromptError(
            f"The prompt is longer than the model's context: {tokens:,} of "
            f"{limit:,} tokens."
        )


def decode(
    start: Start,
    target: Target,
    lookup: Lookup,
    text: Text,
    settings: Settings,
    ends: Ends | None = None,
    clock: Callable[[], float] = perf_counter,
    parts: bool = False,
) -> Iterator[Event | Reading]:
    """Yields `start`, then one event per forward pass as it happens, then `End`; with `parts`
    also a Reading between the parts of a long prompt.

    The target checks every draft, so a lookup, even a hostile one, cannot change the text:
    ids outside the vocabulary, tokens beyond the room that is left and whatever stands behind an
    end-of-sequence token are cut off its draft; of a tree that the target cannot check at once the
    first branch is drafted.
    Time is taken inside, never around a `yield`. Raises PromptError before the first event;
    an error of the target ends the stream with reason "error" and is raised after it.
    """
    ids = start.prompt.ids
    check_prompt(len(ids), target.context_limit)
    ends = ends or Ends(start.eos, settings.stop, settings.max_new_tokens)
    yield start
    yield from _Lane(start, target, lookup, text, settings, ends, clock).run(ids, parts)


class _Lane:
    def __init__(self, start, target, lookup, text, settings, ends, clock) -> None:
        self.name: str = start.lane
        self.eos = frozenset(start.eos)
        self.target: Target = target
        self.lookup: Lookup = lookup
        self.text: Text = text
        self.settings: Settings = settings
        self.ends: Ends = ends
        self.clock: Callable[[], float] = clock
        self.tokens = 0
        self.passes = 0
        self.read_seconds = 0.0

    def run(self, ids: Sequence[int], parts: bool) -> Iterator[Event | Reading]:
        try:
            if parts:
                yield from self.read(ids)
            event, reason = self.prefill(ids)
            while True:
                yield event
                if reason is None and self.target.room < 1:
                    reason = "context_full"
                if reason is not None:
                    break
                event, reason = self.step(event.kept)
        except Exception as error:
            yield self.end("error", _sentence(error))
            raise
        yield self.end(reason)

    def read(self, ids: Sequence[int]) -> Iterator[Reading]:
        """Reads all but the last part of the prompt."""
        reading = self.target.read(ids) if hasattr(self.target, "read") else iter(())
        while True:
            began = self.clock()
            tokens = next(reading, None)
            self.read_seconds += self.clock() - began
            if tokens is None:
                return
            yield Reading(self.name, tokens)

    def prefill(self, ids: Sequence[int]) -> tuple[Prefill, str | None]:
        began = self.clock()
        self.lookup.extend(ids)
        scores = self.target.prefill(ids)
        seconds = self.read_seconds + self.clock() - began
        kept, pieces, reason = self.keep(scores.choices)
        self.passes += 1
        return Prefill(self.name, seconds, kept, pieces, *scores.kept(1)), reason

    def step(self, newest: Sequence[int]) -> tuple[Pass, str | None]:
        began = self.clock()
        self.lookup.extend(newest)
        draft = self.draft()
        looked = self.clock()
        tokens = [newest[-1], *draft.tokens]
        if draft.parents:
            scores = self.target.forward(tokens, draft.parents)
        else:
            scores = self.target.forward(tokens)
        started = self.clock()
        previews = self.previews(draft)  # while a device may still be at it
        previewed = self.clock()
        choices = scores.choices
        forwarded = self.clock()
        previewing = 0.0 if getattr(scores, "late", False) else previewed - started
        if draft.parents:
            path = accept.walk(draft.tokens, draft.parents, choices)
            scores = scores.along([0, *(1 + node for node in path)])
        else:
            path = list(range(accept.agreement(draft.tokens, choices)))
        agreed = len(path)
        kept, pieces, reason = self.keep([draft.tokens[node] for node in path])
        own = reason is None
        stood = self.clock()
        # told before the model's own token is taken: they stand in the same place
        wanted = self.candidates(scores, agreed) if own and draft.after(path) else []
        told = self.clock()
        if own:
            last, piece, reason = self.keep([scores.choices[agreed]])
            kept, pieces = kept + last, pieces + piece
        self.passes += 1
        # the cache holds all but the newest token, as after a plain pass
        if draft.parents:
            self.target.commit(len(kept), [1 + node for node in path])
        else:
            self.target.commit(len(kept))
        accepted = self.clock()
        path = path[: len(kept)]
        probabilities, margins = scores.kept(len(kept))
        recorded = self.clock()
        event = Pass(
            lane=self.name,
            index=self.passes,
            match=draft.match_of(path),
            draft=draft.tokens,
            draft_pieces=previews,
            accepted=len(path),
            bonus=kept[-1] if own else None,
            kept=kept,
            pieces=pieces,
            width=scores.width,
            seconds=Seconds(
                looked - began,
                forwarded - looked - previewing,
                (stood - forwarded) + (accepted - told),
                previewing + (told - stood) + (recorded - accepted),
            ),
            alternatives=draft.alternatives,
            gain=draft.gain,
            probabilities=probabilities,
            margins=margins,
            wanted=wanted,
            parents=draft.parents,
            branches=draft.branches,
            path=path if draft.parents else [],
        )
        return event, reason

    def draft(self) -> Draft:
        longest = min(self.settings.k, self.ends.remaining - 1, self.target.room - 1)
        if longest < 1:
            return Draft()
        draft = self.lookup.propose(longest)
        if draft.parents:
            draft = self.tree(draft, longest)
        if draft.parents:
            return draft
        tokens = draft.tokens[:longest]
        for place, token in enumerate(tokens):
            if not 0 <= token < self.target.vocabulary:
                tokens = tokens[:place]
                break
            if token in self.eos:
                tokens = tokens[: place + 1]
                break
        return replace(draft, tokens=tokens) if tokens else Draft(gain=draft.gain)

    def tree(self, draft: Draft, longest: int) -> Draft:
        """The tree as far as it can be checked here; a chain where that is none."""
        most = min(max(tree.NODES, longest), self.target.room - 1)
        draft = draft.only(
            lambda node, depth: node < most
            and depth <= longest
            and 0 <= draft.tokens[node] < self.target.vocabulary
            and (depth == 1 or draft.tokens[draft.parents[node]] not in self.eos)
        )
        if not getattr(self.target, "trees", False):
            return draft.chain(0)
        return draft.chain(-1) if tree.is_chain(draft.parents) else draft

    def previews(self, draft: Draft) -> list[str]:
        """The text of every draft token, behind those that it follows."""
        if not draft.parents:
            return self.text.preview(draft.tokens)
        pieces: dict[int, str] = {}
        for branch in draft.branches:
            nodes = tree.path(draft.parents, branch.leaf)
            shown = self.text.preview([draft.tokens[node] for node in nodes])
            pieces = {**dict(zip(nodes, shown)), **pieces}
        return [pieces[node] for node in range(len(draft.tokens))]

    def keep(self, tokens: Sequence[int]) -> tuple[list[int], list[str], str | None]:
        """Keeps tokens up to the one that ends the answer."""
        kept: list[int] = []
        pieces: list[str] = []
        reason = None
        for token in tokens:
            kept.append(token)
            pieces.append(self.text.push(token))
            reason = self.ends.after(token, pieces[-1])
            if reason is not None:
                break
        self.tokens += len(kept)
        return kept, pieces, reason

    def candidates(self, scores: Scores, row: int) -> list[Candidate]:
        """A token that completes no character is shown as the replacement mark."""
        return [
            Candidate(token, "".join(self.text.preview([token])), probability)
            for token, probability in scores.favourites(row, FAVOURITES)
        ]

    def end(self, reason: str, message: str = "") -> End:
        rest = self.text.flush()
        return End(
            self.name, reason, self.tokens, self.passes, [rest] if rest else [], message
        )


def _sentence(error: Exception) -> str:
    kind = type(error).__name__
    if isinstance(error, MemoryError) or "OutOfMemory" in kind:
        return "The device ran out of memory."
    return f"The model failed ({kind})."
