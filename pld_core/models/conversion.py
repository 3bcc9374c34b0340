"""Convert the embedded model's GGUF file to a transformers folder: `python -m` this, FILE FOLDER.

It is a program of its own because it is done once: the page's process is spared transformers'
progress bars, two cores' worth of threads and a gigabyte of memory.
"""

import sys
from pathlib import Path

import torch
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def convert(gguf: Path, folder: Path) -> None:
    """Write the SmolLM2 model in `gguf` to `folder`: bfloat16 weights, tokenizer, chat template."""
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        # Without this the weights stay packed, and packed weights cannot be saved.
        quantization_config=GgufConfig(dequantize=True),
        local_files_only=True,
        trust_remote_code=False,
    )
    tokenizer = AutoTokenizer.from_pretrained(
        gguf.parent, gguf_file=gguf.name, local_files_only=True, trust_remote_code=False
    )
    # The file calls its way of cutting text "smollm", which transformers reads as plain byte
    # level. The model was trained with every digit on its own.
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # the weights come out readable by their owner alone


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
