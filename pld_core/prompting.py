"""What a person typed to what the model reads: chat template, begun answer, control tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Sequence

from pld_core.events import Prompt
from pld_core.text import REPLACEMENT, pieces_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt as typed. chat: through the model's chat template, with `system` if given;
    otherwise raw. answer_prefix: the answer's beginning, which becomes part of the prompt; it
    should end where a token does, so not in a space or newline. reference: a text to copy from
    that the model does not read, such as a file's last version or a predicted output."""

    prompt: str
    answer_prefix: str = ""
    chat: bool = True
    system: str | None = None
    reference: str = ""


def encode(tokenizer: PreTrainedTokenizerBase, ask: Ask) -> tuple[Prompt, list[str]]:
    """The prompt's tokens and notices for whoever asked.

    In a chat, control tokens that were typed are plain text: they cannot end a turn or open
    one. A raw prompt is read as the tokenizer reads it, control tokens included. An empty
    prompt gives no tokens. A beginning-of-sequence token is never added twice.
    """
    notices: list[str] = []
    chat = ask.chat
    if chat and not tokenizer.chat_template:
        chat = False
        notices.append("This model has no chat template, so the prompt runs raw.")
    ask = replace(
        ask,
        prompt=_whole(ask.prompt, notices),
        answer_prefix=_whole(ask.answer_prefix, notices),
        chat=chat,
        system=None if ask.system is None else _whole(ask.system, notices),
    )
    if not (ask.prompt.strip() if chat else ask.prompt + ask.answer_prefix):
        return Prompt([], [], 0), notices
    before, after = (_chat_ids if chat else _raw_ids)(tokenizer, ask)
    shared = next(
        (i for i, (a, b) in enumerate(zip(before, after)) if a != b), min(len(before), len(after))
    )
    pieces = pieces_of(after, decoder(tokenizer), control_tokens(tokenizer))
    return Prompt(after, pieces, shared), notices


def encode_reference(tokenizer: PreTrainedTokenizerBase, text: str) -> Prompt:
    """A reference text's tokens, without control tokens."""
    ids = _ids(tokenizer, _whole(text, []), as_text=True)
    return Prompt(ids, pieces_of(ids, decoder(tokenizer), control_tokens(tokenizer)), len(ids))


def banned(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Token sequences that spell the texts, at the start of a text and after a space."""
    spelled = (_ids(tokenizer, before + text, as_text=True) for text in texts for before in ("", " "))
    return tuple(dict.fromkeys(tuple(ids) for ids in spelled if ids))


def control_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """id -> name of the tokens that are no text."""
    added = {i: token.content for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    named = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens))
    return {**added, **named}


def decoder(tokenizer: PreTrainedTokenizerBase):
    """decode(ids) -> str, nothing skipped and no spaces tidied."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        return lambda ids: backend.decode(ids, skip_special_tokens=False)
    return lambda ids: tokenizer.decode(
        ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
    )


def _whole(text: str, notices: list[str]) -> str:
    whole = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if whole == text:
        return text
    notice = "Broken characters (lone surrogates) were replaced."
    if notice not in notices:
        notices.append(notice)
    return "".join(REPLACEMENT if "\ud800" <= c <= "\udfff" else c for c in text)


def _raw_ids(tokenizer, ask: Ask) -> tuple[list[int], list[int]]:
    return (
        tokenizer(ask.prompt)["input_ids"],
        tokenizer(ask.prompt + ask.answer_prefix)["input_ids"],
    )


def _chat_ids(tokenizer, ask: Ask) -> tuple[list[int], list[int]]:
    system = [] if ask.system is None else [{"role": "system", "content": ask.system}]
    messages = [*system, {"role": "user", "content": ask.prompt}]
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    names = list(control_tokens(tokenizer).values())
    typed = [t for t in (ask.system or "", ask.prompt, ask.answer_prefix) if t]
    if not any(name in text for text in typed for name in names):
        return _ids(tokenizer, rendered), _ids(tokenizer, rendered + ask.answer_prefix)
    ids: list[int] = []
    rest = rendered
    for text in (ask.system or "", ask.prompt):
        head, found, tail = rest.partition(text.strip())
        if text.strip() and found:
            ids += _ids(tokenizer, head) + _ids(tokenizer, found, as_text=True)
            rest = tail
    ids += _ids(tokenizer, rest)
    return ids, ids + _ids(tokenizer, ask.answer_prefix, as_text=True)


def _ids(tokenizer, text: str, as_text: bool = False) -> list[int]:
    return tokenizer(text, add_special_tokens=False, split_special_tokens=as_text)["input_ids"]
