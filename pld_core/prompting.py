"""What a person typed to what the model reads: chat template, begun answer, control tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Sequence

from pld_core.decoder import PromptError
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
    prompt gives no tokens. A beginning-of-sequence token is never added twice. Raises
    PromptError for a chat that the model's template cannot make.
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
    before, after = _chat_ids(tokenizer, ask, notices) if chat else _raw_ids(tokenizer, ask)
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
    spelled = (
        _ids(tokenizer, before + text, as_text=True)
        for text in filter(None, texts)
        for before in ("", " ")
    )
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
    def ids(text: str) -> list[int]:
        found = tokenizer(text)["input_ids"]
        twice = len(found) > 1 and found[0] == found[1] == tokenizer.bos_token_id
        return found[1:] if twice else found  # typed, and added to what was typed

    return ids(ask.prompt), ids(ask.prompt + ask.answer_prefix)


def _chat_ids(tokenizer, ask: Ask, notices: list[str]) -> tuple[list[int], list[int]]:
    typed = [ask.prompt] if ask.system is None else [ask.system, ask.prompt]
    try:
        rendered = _render(tokenizer, typed)
    except PromptError:
        if ask.system is None:
            raise
        typed = [f"{ask.system}\n\n{ask.prompt}"]
        rendered = _render(tokenizer, typed)
        notices.append(
            "This model's chat template takes no system message, so it stands before the prompt."
        )
    marks = _marks(len(typed), rendered)
    marked = _render(tokenizer, marks)
    if _render(tokenizer, [*typed[:-1], marks[-1]]) == rendered:
        raise PromptError("This model's chat template leaves the prompt out: run it raw.")
    if typed[:-1] and _render(tokenizer, [marks[0], typed[-1]]) == rendered:
        notices.append("This model's chat template leaves the system message out.")

    control = set(control_tokens(tokenizer)) - {tokenizer.unk_token_id}

    def controls(ids: list[int]) -> list[int]:
        return [i for i in ids if i in control]

    own = controls(_ids(tokenizer, marked))
    before, after = _ids(tokenizer, rendered), _ids(tokenizer, rendered + ask.answer_prefix)
    if controls(after) == own:
        return before, after
    parts = _parts(marked, marks, typed, rendered)
    begun = [*parts, (ask.answer_prefix, True)]
    for spell in (_spell_names, _spell_typed):
        before, after = spell(tokenizer, parts), spell(tokenizer, begun)
        if controls(after) == own:
            return before, after
    raise PromptError(_ENTANGLED)


_ENTANGLED = (
    "This model's chat template rewrites the prompt, so control tokens that were typed cannot be "
    "told from its own: take them out, or run the prompt raw."
)


def _render(tokenizer, typed: Sequence[str]) -> str:
    roles = ("system", "user")[-len(typed) :]
    messages = [{"role": role, "content": text} for role, text in zip(roles, typed)]
    try:
        return tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # templates are programs, and any may fail
        raise PromptError("This model's chat template fails: run the prompt raw.") from error


def _marks(count: int, text: str) -> list[str]:
    """Words that stand nowhere in `text`, to find out where a template puts what was typed."""
    marks: list[str] = []
    number = 0
    while len(marks) < count:
        number += 1
        if (mark := f"Typed{number}Text") not in text:
            marks.append(mark)
    return marks


def _parts(
    marked: str, marks: Sequence[str], typed: Sequence[str], rendered: str
) -> list[tuple[str, bool]]:
    """The rendered chat in parts, each with whether it was typed."""
    cut = re.split(f"({'|'.join(marks)})", marked)
    for read in (str, str.strip):  # many templates strip what was typed
        text = dict(zip(marks, map(read, typed)))
        parts = [(text.get(part, part), part in text) for part in cut]
        if "".join(part for part, _ in parts) == rendered:
            return parts
    raise PromptError(_ENTANGLED)


def _spell_names(tokenizer, parts: Sequence[tuple[str, bool]]) -> list[int]:
    """Only the names of control tokens that were typed stand apart, so the rest is cut into
    tokens as ever."""
    names = sorted(control_tokens(tokenizer).values(), key=len, reverse=True)
    name = re.compile("|".join(map(re.escape, filter(None, names))) or "(?!)")
    ids: list[int] = []
    run = ""
    for text, typed in parts:
        end = 0
        for found in name.finditer(text) if typed else ():
            ids += _ids(tokenizer, run + text[end : found.start()])
            ids += _ids(tokenizer, found[0], as_text=True)
            run, end = "", found.end()
        run += text[end:]
    return ids + _ids(tokenizer, run)


def _spell_typed(tokenizer, parts: Sequence[tuple[str, bool]]) -> list[int]:
    """All that was typed stands apart."""
    return [i for text, typed in parts for i in _ids(tokenizer, text, as_text=typed)]


def _ids(tokenizer, text: str, as_text: bool = False) -> list[int]:
    if not text:
        return []
    return tokenizer(text, add_special_tokens=False, split_special_tokens=as_text)["input_ids"]
