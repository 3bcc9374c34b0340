"""The settings of a lookup as other engines write them, and how their rules differ."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from pld_core.settings import Settings

NAME = "MODEL"  # stands for the model in every command
TIES = {
    "recent": "the most recent",
    "oldest": "the oldest",
    "nearest": "the one nearest to the last copy",
    "vote": "the most common continuation",
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """`text` is ready to be pasted; `note` says where the engine's rule is not the one shown."""

    engine: str
    text: str
    note: str


def configurations(settings: Settings) -> list[Configuration]:
    """One for every engine that is known here. Raises ValueError without a draft length."""
    if settings.k < 1:
        raise ValueError("Plain decoding drafts nothing, so there is nothing to configure.")
    return [make(settings) for make in (_transformers, _vllm, _sglang, _llama_cpp, _tensorrt_llm)]


def _transformers(s: Settings) -> Configuration:
    text = (
        "model.generate(\n"
        "    **inputs,\n"
        f"    prompt_lookup_num_tokens={s.k},\n"
        f"    max_matching_ngram_size={s.n_max},\n"
        ")"
    )
    ends = "drafts stop before an end-of-sequence token"
    differs = [_tie(s, "oldest"), _down_to_one(s), _one_branch(s), _whole(s), ends]
    return Configuration("transformers", text, _note(differs))


def _vllm(s: Settings) -> Configuration:
    speculative = {
        "method": "ngram",
        "num_speculative_tokens": s.k,
        "prompt_lookup_max": s.n_max,
        "prompt_lookup_min": s.n_min,
    }
    text = f"vllm serve {NAME} --speculative-config {shlex.quote(json.dumps(speculative))}"
    alone = "its mean acceptance length leaves out passes without a draft, so it reads higher"
    return Configuration("vLLM", text, _note([_tie(s, "oldest"), _no_period(s), _one_branch(s), _whole(s), alone]))


def _sglang(s: Settings) -> Configuration:
    text = _command(
        f"python -m sglang.launch_server --model-path {NAME}",
        "--speculative-algorithm NGRAM",
        f"--speculative-num-draft-tokens {s.k + 1}",
        f"--speculative-ngram-max-trie-depth {s.n_max + s.k}",
        f"--speculative-ngram-max-bfs-breadth {s.branches}",
    )
    differs = [
        "it looks up what all requests generated, and of a prompt no more than the last tokens, so "
        "a first request with a long document copies little from it",
        f"it counts the token before the draft too, hence {s.k + 1}; match and draft share the depth",
        "" if s.n_min == 1 else "it has no shortest match",
        "" if s.branches == 1 else "its draft tokens are those of all branches together",
        _tie(s, "recent"),
        _whole(s),
    ]
    return Configuration("SGLang", text, _note(differs))


def _llama_cpp(s: Settings) -> Configuration:
    text = _command(
        f"llama-server -m {NAME}.gguf",
        "--spec-type ngram-simple",
        f"--spec-ngram-simple-size-n {s.n_max}",
        f"--spec-ngram-simple-size-m {s.k}",
    )
    differs = [
        "" if s.n_min == s.n_max else f"it matches exactly {s.n_max} tokens and tries nothing shorter",
        _tie(s, "recent"),
        _one_branch(s),
        _whole(s),
        "it drafts nothing when too few tokens follow the match",
    ]
    return Configuration("llama.cpp", text, _note(differs))


def _tensorrt_llm(s: Settings) -> Configuration:
    text = (
        "speculative_config:\n"
        "  decoding_type: NGram\n"
        f"  max_draft_len: {s.k}\n"
        f"  max_matching_ngram_size: {s.n_max}\n"
        "  is_keep_all: true\n"
        f"  is_use_oldest: {'true' if s.policy == 'oldest' else 'false'}\n"
        "  is_public_pool: false\n"
        "disable_overlap_scheduler: true"
    )
    tie = _tie(s, "oldest" if s.policy == "oldest" else "recent")
    own = "a file for trtllm-serve --config; every request has its own pool"
    differs = [tie, _down_to_one(s), _one_branch(s), _whole(s), own]
    return Configuration("TensorRT-LLM", text, _note(differs))


def _command(*parts: str) -> str:
    return " \\\n  ".join(parts)


def _tie(s: Settings, own: str) -> str:
    """An engine whose tie rule is the policy `own`."""
    if s.policy == "longest":
        return f"no match is longer than {s.n_max} tokens, and of equal ones it copies {TIES[own]}"
    return "" if s.policy == own else f"of equal matches it copies {TIES[own]}, not {TIES[s.policy]}"


def _down_to_one(s: Settings) -> str:
    return "" if s.n_min == 1 else f"it goes down to matches of 1 token, not {s.n_min}"


def _one_branch(s: Settings) -> str:
    return "" if s.branches == 1 else f"it drafts one continuation, not {s.branches}"


def _whole(s: Settings) -> str:
    """No other engine here cuts a draft to what is expected to pay."""
    return f"it drafts {s.k} tokens at every match, whether they pay or not" if s.adaptive else ""


def _no_period(s: Settings) -> str:
    return "a match near the end gives a short draft" if s.periodic else ""


def _note(differs: list[str]) -> str:
    told = "; ".join(difference for difference in differs if difference)
    return f"{told[0].upper()}{told[1:]}." if told else "The same rule."
