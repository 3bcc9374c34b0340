"""A model by its name: a folder that is whole loads, every other one is refused in one sentence
that gives the right reason, and leaves nothing behind."""

import gc
import json
import shutil
from copy import deepcopy

import pytest
import tiny
import torch
import transformers
from families import LETTERS, SMALL, network, recompute, wide

from pld_core import trace
from pld_core.models import products
from pld_core.models.errors import ModelError
from pld_core.models.loading import load
from pld_core.models.quantization import quantize
from pld_core.prompting import Ask
from pld_core.settings import Settings

WORDS = len(tiny.tokenizer())


@pytest.fixture(scope="module", autouse=True)
def offline():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        yield


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return save(tiny.network("GPT-2", 1, WORDS), tmp_path_factory.mktemp("models") / "good")


def save(network, folder):
    network.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return folder


def refusal(name, **options):
    with pytest.raises(ModelError) as caught:
        load(str(name), **options)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence.replace(str(name), "MODEL")


def changed(config):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **config}))

    return change


def cut(end):
    def change(folder):
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:end])

    return change


def without(*names):
    def change(folder):
        for name in names:
            (folder / name).unlink(missing_ok=True)

    return change


def bert(kind):
    def change(folder):
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = transformers.BertConfig(vocab_size=WORDS, intermediate_size=48, **sizes)
        getattr(transformers, kind)(config).save_pretrained(folder)

    return change


def own_code(model_type):
    def change(folder):
        (folder / "evil.py").write_text("raise SystemExit('this was run')")
        where = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
        changed({"model_type": model_type, "auto_map": where})(folder)

    return change


CUT = "The weights of MODEL cannot be read: a file is cut short or damaged."
KINDS = "is not a causal language model."
BROKEN = {
    "no config": (without("config.json"), "The folder MODEL holds no model: it has no config.json."),
    "config that is no JSON": (
        lambda folder: (folder / "config.json").write_text("{nope"),
        "The folder MODEL holds no model that transformers can read.",
    ),
    "config without an architecture": (
        lambda folder: (folder / "config.json").write_text("{}"),
        "MODEL says no architecture: its config.json has no model_type.",
    ),
    "unknown architecture": (
        changed({"model_type": "flurb"}),
        f"MODEL has an architecture that transformers {transformers.__version__} does not know.",
    ),
    "code of its own": (
        own_code("flurb"),
        "MODEL needs code of its own to run, and such code is never run here.",
    ),
    "weights cut in the header": (cut(60), CUT),
    "weights cut at the end": (cut(-100), CUT),
    "weights of no bytes": (cut(0), CUT),
    "no weights": (without("model.safetensors"), "MODEL has no weights."),
    "fewer weights than layers": (
        changed({"n_layer": 3}),
        "The weights of MODEL are incomplete: transformer.h.2.attn.c_attn.bias and 11 more "
        "cannot be found.",
    ),
    "weights of another shape": (
        changed({"n_embd": 48}),
        "The weights of MODEL are of another shape than its config.json says.",
    ),
    "no tokenizer": (
        without("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
        "MODEL has no tokenizer.",
    ),
    "damaged tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        "The tokenizer of MODEL cannot be read.",
    ),
    "encoder": (bert("BertModel"), f"MODEL {KINDS}"),
    "encoder with a head": (bert("BertForMaskedLM"), f"MODEL {KINDS}"),
    "quantised": (
        changed({"quantization_config": {"quant_method": "gptq", "bits": 4}}),
        "MODEL needs a package that is not installed here, as some quantised models do.",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_folder_that_cannot_run_is_refused_for_what_it_is(good, tmp_path, fault, capfd):
    folder = shutil.copytree(good, tmp_path / "model")
    change, sentence = BROKEN[fault]
    change(folder)
    capfd.readouterr()
    assert refusal(folder) == sentence
    said = capfd.readouterr()
    assert said.out + said.err == ""
    load(str(good))  # the next one is none the worse


def test_a_vision_model_is_no_language_model(tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = transformers.ViTConfig(intermediate_size=48, image_size=32, **sizes)
    folder = save(transformers.ViTModel(config), tmp_path / "model")
    assert refusal(folder) == f"MODEL {KINDS}"


def test_code_beside_a_known_architecture_is_not_run(good, tmp_path):
    folder = shutil.copytree(good, tmp_path / "model")
    own_code("gpt2")(folder)
    assert type(load(str(folder)).network) is transformers.GPT2LMHeadModel


@pytest.mark.parametrize("name", ["nobody/nothing", "a b", "../x", "/no/folder", "x" * 300, "n\0l"])
def test_a_name_that_is_no_folder_and_not_on_the_hub(name):
    reason = "it is no folder here, and the Hugging Face hub has none of that name"
    assert refusal(name).startswith(f"There is no model MODEL: {reason}")


@pytest.mark.parametrize("name", ["", "  "])
def test_a_name_of_nothing(name):
    with pytest.raises(ModelError, match="The model has no name"):
        load(name)


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "file").write_text("x")
    assert refusal(tmp_path / "file").startswith("There is no model MODEL")


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"dtype": "int8"}, "The dtype is one of float32, bfloat16, float16, int4, not 'int8'."),
        ({"device": "nonsense"}, "There is no device called 'nonsense'."),
        ({"device": ""}, "There is no device called ''."),
        ({"device": "meta"}, "The device meta cannot be used here."),
    ],
)
def test_device_and_dtype_are_refused_in_words(good, options, sentence):
    assert refusal(good, **options) == sentence


@pytest.mark.skipif(torch.cuda.is_available(), reason="only without a CUDA device")
def test_cuda_where_there_is_none(good):
    assert refusal(good, device="cuda").startswith("There is no CUDA device here")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_device_and_dtype_are_those_that_were_asked_for(good, dtype):
    model = load(str(good), "cpu", dtype)
    assert (model.device, model.dtype, model.revision) == ("cpu", dtype, "local")
    assert {weights.dtype for weights in model.network.parameters()} == {getattr(torch, dtype)}


def test_int4_is_for_the_llama_family(good):
    assert refusal(good, device="cpu", dtype="int4") == (
        "MODEL cannot run in int4 here: that needs a model of the Llama family whose rows come in "
        "groups of 32, and a torch with products of 4 bits for this CPU."
    )


@pytest.mark.parametrize("eager", [False, True])
def test_int4_is_the_model_of_rounded_weights(tmp_path, eager):
    published = deepcopy(wide("Llama")).bfloat16()
    model = load(str(save(published, tmp_path)), "cpu", "int4", eager=eager)
    assert model.dtype == "int4" and (model.fused is None) == eager
    quantize(published)
    tokens = [(7 * place) % LETTERS for place in range(30)]
    target = model.target(Settings(), prompt_length=30)
    target.prefill(tokens[:20])
    got = [target.forward(part).logits.float().clone() for part in (tokens[20:22], tokens[22:])]
    assert model.close(torch.cat(got), recompute(published, tokens)[20:].float())


def test_a_torch_without_products_of_4_bits_runs_no_int4(tmp_path, monkeypatch):
    save(wide("Llama"), tmp_path)
    monkeypatch.setattr(products, "Quantized", missing)
    assert "cannot run in int4 here" in refusal(tmp_path, device="cpu", dtype="int4")


def missing(*_):
    raise AttributeError("no attribute '_weight_int4pack_mm_for_cpu'")


def test_a_saved_model_says_what_it_said_before(good):
    model = load(str(good), "cpu")
    found = trace.lanes(model.run(Ask(tiny.PROMPT), Settings(max_new_tokens=20)))
    before, _ = tiny.run(tiny.model("GPT-2", 1), Ask(tiny.PROMPT), Settings(max_new_tokens=20))
    assert found["pld"].ids == found["plain"].ids == before.ids


def test_an_encoder_decoder_loads_as_one(tmp_path):
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4
    )
    config.decoder_start_token_id = 0
    folder = save(transformers.T5ForConditionalGeneration(config), tmp_path / "model")
    model = load(str(folder), "cpu")
    assert model.encoder_decoder
    found = trace.lanes(model.run(Ask("the red fox", chat=False), Settings(max_new_tokens=9)))
    assert found["pld"].ids == found["plain"].ids


def alive(kind):
    gc.collect()
    return sum(issubclass(type(thing), kind) for thing in gc.get_objects())


def test_a_refused_model_is_freed_and_the_next_one_loads(good, tmp_path):
    folder = save(network("Mamba"), tmp_path / "model")
    before = alive(transformers.MambaForCausalLM)
    reason = "MODEL (mamba) cannot run here: the state of this architecture cannot roll back"
    assert refusal(folder).startswith(reason)
    assert alive(transformers.MambaForCausalLM) == before
    assert load(str(good)).network is not None


def test_an_unknown_variant_of_a_known_family_runs_as_transformers_runs_it(tmp_path, monkeypatch):
    torch.manual_seed(0)
    sizes = {**SMALL, "vocab_size": WORDS}
    folder = save(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)), tmp_path / "m")
    assert load(str(folder), "cpu").fused is not None
    monkeypatch.setattr("pld_core.models.model.Model.close", lambda *logits: _first(logits))
    seen = []

    def _first(got):  # what the architecture's own check sees is right, what the fused sees not
        seen.append(got)
        return len(seen) != 2

    model = load(str(folder), "cpu")
    assert model.fused is None
    assert tiny.run(model, "the red fox", Settings(max_new_tokens=5))[0].ids
