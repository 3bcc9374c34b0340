"""What happens at the model: a visitor's run, a program's, a measurement."""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Callable, Iterator

import gradio as gr

from pld_core import trace
from pld_core.events import dumps
from pld_core.hosting.calls import checked, records
from pld_core.hosting.leftovers import Leftovers
from pld_core.hosting.line import Outlook, Visitor
from pld_core.hosting.service import Service, TimeUp
from pld_core.links import FORM
from pld_core.page.values import requested
from pld_core.page.words import Words
from pld_core.serving import Request, RequestError
from pld_core.trace import TraceError, endings

log = logging.getLogger(__name__)


class Runs:
    """The handlers. about: what is to be seen of a prompt's run, if that is known."""

    def __init__(self, service: Service, leftovers: Leftovers, about: Callable[[str], str]) -> None:
        self._service = service
        self._leftovers = leftovers
        self._about = about

    def run(self, asked: gr.Request, *inputs: Any) -> Iterator[tuple[Any, ...]]:
        """The form's run: for the view, the notice, the recorded run, what it is about."""
        self._leftovers.sweep()
        request = requested(dict(zip(FORM, inputs, strict=True)))
        # Gradio cannot close a generator that is cancelled before its first yield, so that one
        # comes before the slot is taken.
        keep = gr.skip()
        yield keep, "", keep, keep
        about = self._about(request.prompt) if request.temperature == 0 else ""
        stream = ""
        try:
            for update in self._service.run(request, _visitor(asked)):
                if isinstance(update, Outlook):
                    yield keep, Words.waiting(update), keep, keep
                else:
                    stream = update
                    yield stream, "", None, about
        except TimeUp as error:
            yield completed(stream, "cancelled"), str(error), None, about
        except RequestError as error:
            yield keep, str(error), keep, keep
        except gr.Error as error:  # ZeroGPU's
            log.warning("no GPU for a run: %s: %s", error.title, error.message)
            told = Words.zero_gpu.get(error.title, Words.broken)
            if stream:
                yield completed(stream, "error"), told, None, about
            else:
                yield keep, told, keep, keep
        except Exception:
            log.exception("a run broke off")
            yield completed(stream, "error"), Words.broken, None, about

    def run_trace(
        self,
        asked: gr.Request,
        prompt: str,
        answer_prefix: str = "",
        system: str = "",
        reference: str = "",
        chat: bool = True,
        plain: bool = True,
        n_max: int = 3,
        n_min: int = 1,
        k: int = 31,
        branches: int = 1,
        policy: str = "nearest",
        adaptive: bool = True,
        strict: bool = False,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Iterator[dict]:
        """Answer a prompt with prompt lookup decoding and tell what every forward pass did: what
        was drafted, from where it was copied, how much of it stood. Use it to see whether
        n-gram speculation pays on a text: it does where the answer repeats its prompt (code
        edits, summaries, quotes). Streams one record per event: `start`, `prefill`, one `pass`
        each, `end`; with `plain` also those of plain decoding, and `compare`; `waiting` while
        other runs come first. The last record, `summary`, has the text, tokens_per_pass, time_speedup, same_text and `copies`.

        Args:
            prompt: The text to answer.
            answer_prefix: How the answer begins; the model goes on from there.
            system: The system message of the chat; empty for none.
            reference: A text to copy from that the model does not read.
            chat: Send the prompt as a chat message; false continues it as raw text.
            plain: Run plain decoding as well and compare. It takes the longer part of the time.
            n_max: Longest match, 1 to 64 tokens.
            n_min: Shortest match, 1 to n_max tokens.
            k: Longest draft, 1 to 512 tokens; 0 is plain decoding.
            branches: Continuations checked at once, 1 to 8, merged into a tree.
            policy: Of equal matches, copy the recent, oldest, nearest, longest, or by vote.
            adaptive: Cut drafts to the length that is expected to pay, at most k.
            strict: Run every pass at one width, so that half precision is exact too.
            max_new_tokens: Most tokens to generate.
            temperature: 0 always takes the likeliest token.
            top_k: Sample from so many likeliest tokens; 0 keeps all.
            top_p: Sample from the likeliest tokens that hold this much probability.
            seed: One seed gives one text, with and without lookup.
        """
        request = Request(
            prompt=prompt,
            answer_prefix=answer_prefix,
            system=system,
            reference=reference,
            chat=chat,
            plain=plain,
            n_max=n_max,
            n_min=n_min,
            k=k,
            branches=branches,
            policy=policy,
            adaptive=adaptive,
            strict=strict,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
        self._leftovers.sweep()
        try:
            yield from records(self._service.run(checked(request), _visitor(asked)))
        except RequestError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except gr.Error as error:  # ZeroGPU's
            told = Words.zero_gpu.get(error.title, Words.broken)
            raise gr.Error(told, print_exception=False) from None
        except Exception:
            log.exception("a run broke off")
            raise gr.Error(Words.broken, print_exception=False) from None

    def measure(self, asked: gr.Request) -> Iterator[str]:
        """JSON for the view: a sentence while it waits or why not, then what was measured."""
        try:
            for update in self._service.measure(_visitor(asked)):
                if isinstance(update, Outlook):
                    told = Words.waiting(update) if update.ahead else Words.measuring
                    yield json.dumps({"note": told})
                else:
                    where = self._service.runner.status.text
                    yield json.dumps({"seconds": update, "where": where})
        except RequestError as error:
            yield json.dumps({"note": str(error)})
        except Exception:
            log.exception("a measurement broke off")
            yield json.dumps({"note": Words.broken_measurement})

    def status(self) -> Iterator[str]:
        """What the model is doing, until it has loaded."""
        runner = self._service.runner
        while runner.status.state == "loading":
            yield runner.status.text
            time.sleep(0.25)
        yield runner.status.text


def completed(stream: str, reason: str) -> str:
    """The stream with an `end` for every lane that lacks one."""
    try:
        ends = endings(trace.read(stream.splitlines()), reason)
    except TraceError:
        return stream
    return stream + "".join(f"{dumps(end)}\n" for end in ends)


def _visitor(asked: gr.Request) -> Visitor:
    address = asked.client.host if asked.client else ""
    return Visitor(asked.session_hash or address, address)
