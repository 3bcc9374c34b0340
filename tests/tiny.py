"""Tiny transformers models with real tokenizers: random weights, ASCII text."""

import string
from functools import cache

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast

from pld_core import trace
from pld_core.decoder import decode
from pld_core.events import Match
from pld_core.lookup import Draft, build
from pld_core.models.model import Model
from pld_core.prompting import Ask, control_tokens, decoder
from pld_core.text import Pieces

CORPUS = [
    "step one ok ###END### step two ok ###END### step three ok\n",
    "the red fox and the grey fox walk to the north gate\n",
    "def area(width, height):\n    return width * height\n",
    string.printable,
]
PROMPT = CORPUS[1] + CORPUS[0] + CORPUS[1]

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

LIMIT = 192

SMALL = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    bos_token_id=None,
    pad_token_id=None,
    eos_token_id=None,
    tie_word_embeddings=False,
)
FAMILIES = {
    "Llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "GPT-2": ("GPT2Config", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
}


@cache
def tokenizer(kind="byte level"):
    """A byte-pair encoding of ASCII, byte-level or SentencePiece-like, with a chat template."""
    backend = Tokenizer(models.BPE())
    if kind == "byte level":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=150, show_progress=False))
    whole = PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False)
    names = ["<|im_start|>", "<|im_end|>"]
    whole.add_special_tokens({"additional_special_tokens": names})
    whole.chat_template = TEMPLATE
    return whole


@cache
def network(family, seed=0, vocabulary=24, limit=LIMIT):
    """Weights large enough that the next token depends on the whole context."""
    config_class, model_class, more = FAMILIES[family]
    torch.manual_seed(seed)
    sizes = {"vocab_size": vocabulary, "max_position_embeddings": limit}
    config = getattr(transformers, config_class)(**{**SMALL, **sizes, **more})
    made = getattr(transformers, model_class)(config).eval().float()
    with torch.no_grad():
        for name, weights in made.named_parameters():
            if weights.dim() == 2:
                weights.normal_(0, 0.35 if "embed" in name or "wte" in name else 0.4)
    return made


def model(family="Llama", seed=0, kind="byte level", limit=LIMIT):
    """A Model that speaks ASCII; nothing ends its answers unless its network is told."""
    words = tokenizer(kind)
    return Model(f"tiny {family}", "test", network(family, seed, len(words), limit), words)


class Right:
    """A lookup that knows the answer, whole [P + T]: the next `right()` tokens of each draft
    are right, the one after is not."""

    def __init__(self, whole, right=lambda: 10**9, vocabulary=2):
        self._whole, self._right, self._vocabulary = list(whole), right, vocabulary
        self._length = 0

    def extend(self, tokens):
        self._length += len(tokens)

    def propose(self, k):
        draft = self._whole[self._length : self._length + k]
        right = self._right()
        if right < len(draft):
            draft[right] = (draft[right] + 1) % self._vocabulary
        return Draft(draft, Match(0, 1, "prompt")) if draft else Draft()


def run(model, ask, settings, lookup=None):
    """(trace, target) of one lane."""
    ask = Ask(ask, chat=False) if isinstance(ask, str) else ask
    start = model.start("pld", ask, settings)
    target = model.target(settings, len(start.prompt.ids))
    text = Pieces(decoder(model.tokenizer), control_tokens(model.tokenizer))
    (lane,) = trace.lanes(
        decode(start, target, lookup or build(settings), text, settings)
    ).values()
    assert lookup or list(lane.laws()) == []
    return lane, target


def generated(network, ids, limit, eos=None, words=None, **more):
    """transformers' own greedy search."""
    config = GenerationConfig(
        max_new_tokens=limit, do_sample=False, eos_token_id=eos, pad_token_id=0, **more
    )
    prompt = torch.tensor([ids])
    out = network.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        generation_config=config,
        **({"tokenizer": words} if words else {}),
    )
    return out[0, len(ids) :].tolist()
