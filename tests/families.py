"""Tiny transformers models of many families in float32: the table that the README shows."""

import random
from functools import cache
from types import SimpleNamespace

import torch
import transformers
from transformers import GenerationConfig

from pld_core.models.model import Model

LETTERS = 16
LIMIT = 160

SMALL = dict(
    vocab_size=LETTERS,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=LIMIT,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
    tie_word_embeddings=False,
)
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4}
BLOCKS = {
    **{"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "decoder_start_token_id": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "forced_eos_token_id": None},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48},
}

FAMILIES = {
    "Llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "Qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 8}),
    "Mistral, window 8": ("MistralConfig", "MistralForCausalLM", {"sliding_window": 8}),
    "Gemma2, window 8": ("Gemma2Config", "Gemma2ForCausalLM", {"sliding_window": 8, "head_dim": 8}),
    "Gemma3, window 8": (
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {
            "sliding_window": 8,
            "head_dim": 8,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "Phi": ("PhiConfig", "PhiForCausalLM", {}),
    "Phi3": ("Phi3Config", "Phi3ForCausalLM", {}),
    "Phi3, window 8": ("Phi3Config", "Phi3ForCausalLM", {"sliding_window": 8}),
    "GPT-2": ("GPT2Config", "GPT2LMHeadModel", GPT),
    "GPT-NeoX": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {}),
    "GPT-J": ("GPTJConfig", "GPTJForCausalLM", {**GPT, "n_positions": LIMIT, "rotary_dim": 8}),
    "OLMo": ("OlmoConfig", "OlmoForCausalLM", {}),
    "OLMo2": ("Olmo2Config", "Olmo2ForCausalLM", {}),
    "OLMo3, window 8": (
        "Olmo3Config",
        "Olmo3ForCausalLM",
        {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "Mixtral": ("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 4}),
    "Qwen2-MoE": (
        "Qwen2MoeConfig",
        "Qwen2MoeForCausalLM",
        {**EXPERTS, "shared_expert_intermediate_size": 16},
    ),
    "Qwen3-MoE": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", {**EXPERTS, "head_dim": 8}),
    "GPT-OSS, window 8": (
        "GptOssConfig",
        "GptOssForCausalLM",
        {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8, "head_dim": 8},
    ),
    "DeepSeek-V3": (
        "DeepseekV3Config",
        "DeepseekV3ForCausalLM",
        {
            **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
            **{"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
            **{"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8},
            **{"qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4},
        },
    ),
    "Llama 4, chunks of 8": (
        "Llama4TextConfig",
        "Llama4ForCausalLM",
        {
            **{"num_local_experts": 2, "intermediate_size_mlp": 48, "head_dim": 8},
            **{"attention_chunk_size": 8},
            "layer_types": ["chunked_attention", "full_attention"],
        },
    ),
    "Granite": ("GraniteConfig", "GraniteForCausalLM", {}),
    "Cohere": ("CohereConfig", "CohereForCausalLM", {}),
    "Cohere2, window 8": (
        "Cohere2Config",
        "Cohere2ForCausalLM",
        {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "Falcon": ("FalconConfig", "FalconForCausalLM", {}),
    "Falcon, ALiBi": ("FalconConfig", "FalconForCausalLM", {"alibi": True}),
    "StableLM": ("StableLmConfig", "StableLmForCausalLM", {}),
    "StarCoder2, window 8": ("Starcoder2Config", "Starcoder2ForCausalLM", {"sliding_window": 8}),
    "SmolLM3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}),
    "OPT": (
        "OPTConfig",
        "OPTForCausalLM",
        {"ffn_dim": 48, "word_embed_proj_dim": 32, "do_layer_norm_before": True},
    ),
    "Bloom": ("BloomConfig", "BloomForCausalLM", {"n_layer": 2, "n_head": 4}),
    "MPT": (
        "MptConfig",
        "MptForCausalLM",
        {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": LIMIT},
    ),
    "LFM2": ("Lfm2Config", "Lfm2ForCausalLM", {"layer_types": ["conv", "full_attention"]}),
}
"""Decoder-only families: name -> (config class, model class, what their config adds)."""

ENCODER_DECODER = {
    "T5": (
        "T5Config",
        "T5ForConditionalGeneration",
        {
            **{"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
            **{"decoder_start_token_id": 0, "pad_token_id": 0},
        },
    ),
    "BART": ("BartConfig", "BartForConditionalGeneration", BLOCKS),
    "Pegasus": ("PegasusConfig", "PegasusForConditionalGeneration", {**BLOCKS, "pad_token_id": 0}),
    "Marian": ("MarianConfig", "MarianMTModel", {**BLOCKS, "pad_token_id": 0}),
}

NO_LIMIT = {"Bloom", "T5"}  # positions that are relative alone
NOT_STRICT = {
    **dict.fromkeys(ENCODER_DECODER, "its decoder reads a second cache"),
    "LFM2": "it keeps more than keys and values",
    **dict.fromkeys(["Falcon, ALiBi", "MPT"], "its ALiBi positions fit no cache of fixed length"),
    **dict.fromkeys(
        [name for name, family in FAMILIES.items() if any("experts" in key for key in family[2])],
        "its experts round a token by which others share its pass",
    ),
}
"""name -> why strict mode refuses it"""

STATES = {
    **{"layer_types": ["linear_attention", "full_attention"], "head_dim": 8},
    **{"linear_num_value_heads": 4, "linear_num_key_heads": 2},
    **{"linear_key_head_dim": 8, "linear_value_head_dim": 8},
}
REFUSED = {
    "Mamba": ("MambaConfig", "MambaForCausalLM", {"state_size": 4}),
    "Mamba2": (
        "Mamba2Config",
        "Mamba2ForCausalLM",
        {"state_size": 4, "num_heads": 8, "head_dim": 8, "n_groups": 1},
    ),
    "FalconMamba": ("FalconMambaConfig", "FalconMambaForCausalLM", {"state_size": 4}),
    "Jamba": (
        "JambaConfig",
        "JambaForCausalLM",
        {
            **{"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2},
            **{"num_experts": 2, "mamba_d_state": 4, "mamba_dt_rank": 4},
            "use_mamba_kernels": False,
        },
    ),
    "RecurrentGemma": (
        "RecurrentGemmaConfig",
        "RecurrentGemmaForCausalLM",
        {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 8, "head_dim": 8},
    ),
    "Qwen3-Next": ("Qwen3NextConfig", "Qwen3NextForCausalLM", {**EXPERTS, **STATES}),
    "Qwen3.5": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM", STATES),
    "RWKV": ("RwkvConfig", "RwkvForCausalLM", {"attention_hidden_size": 32}),
    "GPT": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel", {**GPT, "n_positions": LIMIT}),
    "BERT": ("BertConfig", "BertLMHeadModel", {"pad_token_id": 0}),
}
"""Recurrent and hybrid ones, one without a cache, one that is no language model."""


@cache
def network(family, seed=0):
    """Random weights, large enough that the next token depends on the whole context."""
    config_class, model_class, more = {**FAMILIES, **ENCODER_DECODER, **REFUSED}[family]
    small = {k: v for k, v in SMALL.items() if family not in NO_LIMIT or "position" not in k}
    config = getattr(transformers, config_class)(**{**small, **more})
    return _made(config, model_class, seed)


@cache
def wide(family):
    """The same with matrices that come in multiples of 32."""
    config_class, model_class, more = FAMILIES[family]
    sizes = {"vocab_size": 64, "intermediate_size": 96}
    config = getattr(transformers, config_class)(**{**SMALL, **more, **sizes})
    return _made(config, model_class)


@cache
def stray_window():
    """A Llama with a window in its config that its architecture does not know, as one has that
    was made out of a Mistral."""
    config = transformers.LlamaConfig(**SMALL, sliding_window=8)
    return _made(config, "LlamaForCausalLM")


def dynamic():
    """A Llama whose angles change when more positions are read than it has; its weights may be
    taken."""
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    return _made(transformers.LlamaConfig(**SMALL, rope_parameters=rope), "LlamaForCausalLM")


@cache
def longrope(border=40):
    """A Phi3 that turns prompts of more positions than `border` by other angles."""
    more = {"rope_parameters": _longrope(border), "original_max_position_embeddings": border}
    return _made(transformers.Phi3Config(**SMALL, **more), "Phi3ForCausalLM")


@cache
def longrope_in_some_layers(border=40):
    """A Gemma3 that does so in its layers without a window alone."""
    own = FAMILIES["Gemma3, window 8"][2]
    ropes = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": _longrope(border),
    }
    config = transformers.Gemma3TextConfig(**SMALL, **own, rope_parameters=ropes)
    return _made(config, "Gemma3ForCausalLM")


def _longrope(border):
    return {
        **{"rope_type": "longrope", "rope_theta": 10000.0, "factor": 4.0},
        **{"long_factor": [4.0] * 4, "short_factor": [1.0] * 4},
        "original_max_position_embeddings": border,
    }


def _made(config, model_class, seed=0):
    torch.manual_seed(seed)
    made = getattr(transformers, model_class)(config).eval().float()
    with torch.no_grad():
        for name, weights in made.named_parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.35 if "embed" in name or "wte" in name else 0.4)
    # no length, token or penalty of the family's own
    start = getattr(config, "decoder_start_token_id", None)
    made.generation_config = GenerationConfig(pad_token_id=0, decoder_start_token_id=start)
    return made


def model(family, seed=0):
    """A Model without a tokenizer: it makes targets, and runs no prompts."""
    return model_of(network(family, seed), family)


def model_of(network, name="one"):
    return Model(f"tiny {name}", "", network, SimpleNamespace(eos_token_id=None))


@torch.inference_mode()
def recompute(network, context):
    """Logits [len(context), V] without any cache."""
    return network(torch.tensor([context]), use_cache=False).logits[0].float()


def prompt_of(family, seed, length=20):
    """Repetitive, so that there is something to match: a few words in random order."""
    random_ = random.Random(f"{family} {seed}")
    words = [[random_.randrange(LETTERS) for _ in range(random_.randint(1, 4))] for _ in range(3)]
    ids = []
    while len(ids) < length:
        ids += random_.choice(words)
    return ids[:length]


def reference(network, ids, limit, eos=None):
    """transformers' own greedy search."""
    config = GenerationConfig(
        max_new_tokens=limit,
        do_sample=False,
        eos_token_id=eos,
        pad_token_id=0,
        bos_token_id=None,
        decoder_start_token_id=network.generation_config.decoder_start_token_id,
    )
    prompt = torch.tensor([ids])
    out = network.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
    return out[0, 1 if network.config.is_encoder_decoder else len(ids) :].tolist()
