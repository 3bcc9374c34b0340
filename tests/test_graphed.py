"""The forward pass for a GPU, on a CPU: what it computes runs as it is, and its captures are
recorded and replayed operation by operation in the place of CUDA graphs. With a GPU the last tests
run real ones."""

import gc
import logging
import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import tiny
import toy
import torch
from families import FAMILIES, LETTERS, LIMIT, dynamic, network, prompt_of, reference
from recorder import Cuda, Recorder
from test_eager import Right
from test_families import Hostile, events, hostile, lane_of

from pld_core import trace
from pld_core.events import Pass, Prefill
from pld_core.lookup import Draft
from pld_core.models import graphed, loading
from pld_core.models.errors import ModelError
from pld_core.models.fused import FusedNetwork
from pld_core.models.graphed import GraphedNetwork, bucket, can_graph, length_class
from pld_core.models.graphs import CudaRecorder
from pld_core.models.model import Model
from pld_core.models.sequence import SequenceTarget
from pld_core.prompting import Ask
from pld_core.settings import Sampling, Settings

MISTRAL = "MistralConfig", "MistralForCausalLM", {"sliding_window": None}
NAMES = ["Llama", "Mistral", "Qwen2", "Qwen3"]
EACH = pytest.mark.parametrize("family", NAMES)
LONG = 40
SHORTEST = 16  # so that an answer crosses several length classes


@pytest.fixture(autouse=True)
def mistral(monkeypatch):
    monkeypatch.setitem(FAMILIES, "Mistral", MISTRAL)


def fresh(family, seed=0, dtype=torch.float32, device="cpu"):
    """A network whose weights may be taken."""
    return network.__wrapped__(family, seed).to(device, dtype)


def model_of(family, seed=0, recorder=None, network_=None, **options):
    made = network_ or fresh(family, seed, **options)
    own = GraphedNetwork(FusedNetwork(made), SHORTEST, recorder)
    return Model(f"graphed {family}", "", made, SimpleNamespace(eos_token_id=None), own)


# The tokens.


@EACH
@pytest.mark.parametrize("captured", [False, True])
def test_pld_and_plain_are_the_greedy_search_of_transformers(family, captured):
    recorder = Recorder() if captured else None
    model = model_of(family, recorder=recorder)
    accepted, widths = Counter(), set()
    for seed in range(2):
        ids = prompt_of(family, seed)
        expected = reference(network(family), ids, LONG)
        for settings in (
            Settings(k=0, max_new_tokens=LONG),
            Settings(k=4, max_new_tokens=LONG),
            Settings(k=10, n_max=2, policy="oldest", max_new_tokens=LONG),
            Settings(k=100, max_new_tokens=LONG),
            Settings(k=4, max_new_tokens=LONG, fixed_width=6),
        ):
            lane = lane_of(model, ids, settings)
            assert lane.ids == expected, (seed, settings)
            accepted.update(step.accepted for step in lane.passes)
            widths |= {step.width for step in lane.passes}
    assert len(accepted) > 1 and {1, 6, 8} <= widths
    if captured:
        assert recorder.replays > recorder.captures > 10


@EACH
def test_every_count_of_accepted_tokens_leaves_the_cache_right(family):
    """After each pass the next tokens, their probabilities and margins are those of a forward
    over the whole context without a cache."""
    model, peer = model_of(family, recorder=Recorder()), network(family)
    ids = prompt_of(family, 7)
    output = reference(peer, ids, 60)
    script = iter([6, 0, 5, 1, 4, 2, 3, *[2, 0, 6] * 20])
    settings = Settings(k=6, max_new_tokens=60)
    seen, context = Counter(), list(ids)
    for event in events(model, ids, settings, Right(ids, output, script)):
        if not isinstance(event, (Prefill, Pass)):
            continue
        before = len(context)
        context += event.kept
        with torch.inference_mode():
            logits = peer(torch.tensor([context]), use_cache=False).logits[0, before - 1 : -1]
        assert logits.argmax(-1).tolist() == event.kept
        best = logits.topk(2).values
        chances = logits.softmax(-1).max(-1).values
        assert torch.allclose(torch.tensor(event.probabilities), chances, atol=1e-3)
        assert torch.allclose(torch.tensor(event.margins), best[:, 0] - best[:, 1], atol=1e-3)
        if isinstance(event, Pass):
            seen[event.accepted] += 1
            assert event.width == bucket(1 + len(event.draft))
            if event.wanted:
                with torch.inference_mode():
                    heads = context[: before + event.accepted]
                    wanted = peer(torch.tensor([heads]), use_cache=False).logits[0, -1].softmax(-1)
                likeliest = wanted.topk(5)
                assert [c.id for c in event.wanted] == likeliest.indices.tolist()
                assert [c.p for c in event.wanted] == pytest.approx(
                    likeliest.values.tolist(), abs=1e-3
                )
    assert context == ids + output
    assert set(seen) == set(range(7))


@pytest.mark.parametrize("room", [0, 1, 2, 7, 8, 9, 30])
@pytest.mark.parametrize("fixed", [0, 13])
def test_the_context_of_the_model_is_filled_and_never_overrun(room, fixed):
    model = model_of("Llama", recorder=Recorder())
    ids = prompt_of("Llama", 3, LIMIT - room)
    settings = Settings(k=12, fixed_width=fixed)
    plain = lane_of(model, ids, settings.plain())
    assert (len(plain.ids), plain.end.reason) == (room + 1, "context_full")
    if room:
        assert plain.ids[:-1] == reference(network("Llama"), ids, room)[: len(plain.ids) - 1]
    for lookup in (None, Right(ids, plain.ids + [0] * 40, iter([99] * 40))):
        (lane,) = trace.lanes(events(model, ids, settings, lookup)).values()
        assert (lane.ids, lane.end.reason) == (plain.ids, "context_full")


def test_a_prompt_of_several_chunks_is_read_whole(monkeypatch):
    monkeypatch.setattr(SequenceTarget, "part", 7)
    model = model_of("Qwen3")
    for length in (1, 6, 7, 8, 50):
        ids = prompt_of("Qwen3", length, length)
        lane = lane_of(model, ids, Settings(k=4, max_new_tokens=20))
        assert lane.ids == reference(network("Qwen3"), ids, 20)


def test_long_attention_goes_by_blocks_of_rows(monkeypatch):
    monkeypatch.setattr("pld_core.models.fused.attention.__defaults__", (4 * 64 * 3,))
    model, ids = model_of("Llama"), prompt_of("Llama", 1, 50)
    assert lane_of(model, ids, Settings(max_new_tokens=20)).ids == reference(
        network("Llama"), ids, 20
    )


SAMPLED = Sampling(temperature=1.1, top_p=0.95, seed=3)
PROCESSED = Sampling(repetition_penalty=1.3, no_repeat_ngram=5)


@pytest.mark.parametrize("sampling", [SAMPLED, PROCESSED])
def test_sampled_and_processed_choices_are_those_of_the_eager_model(sampling):
    model, ids = model_of("Llama", 1, Recorder()), prompt_of("Llama", 5)
    eager = replace(model, network=network("Llama", 1), fused=None)
    settings = Settings(k=5, n_max=2, max_new_tokens=LONG, sampling=sampling)
    expected = lane_of(eager, ids, settings.plain()).ids
    assert lane_of(model, ids, settings.plain()).ids == expected
    assert lane_of(model, ids, settings).ids == expected


def test_no_drafter_can_change_the_output():
    model, ids = model_of("Qwen2", recorder=Recorder()), prompt_of("Qwen2", 4)
    output = reference(network("Qwen2"), ids, LONG)
    for name, make in hostile(ids, output + [0] * 60).items():
        lane = lane_of(model, ids, Settings(k=5, max_new_tokens=LONG), Hostile(make), lawful=False)
        assert lane.ids == output, name


def test_strict_mode_is_exact_in_half_precision():
    model, ids = model_of("Llama", 1, Recorder(), dtype=torch.bfloat16), prompt_of("Llama", 2)
    if model.exact_width(6) is None:
        pytest.skip("this machine rounds the rows of a bfloat16 pass differently at any width")
    settings = Settings(k=5, max_new_tokens=LONG, fixed_width=6)
    plain, pld = (lane_of(model, ids, each) for each in (settings.plain(), settings))
    assert plain.ids == pld.ids
    assert [s.margins for s in plain.passes[:3]] and margins(plain) == margins(pld)


def margins(lane):
    return [margin for step in [lane.prefill, *lane.passes] for margin in step.margins]


# Trees.


class Branching(Right):
    """Drafts trees: `right` gives for each branch how many of its tokens are right."""

    def propose(self, k):
        truth = self._whole[len(self.context) : len(self.context) + k]
        draft = Draft(match=toy.NOWHERE)
        for shift, right in enumerate(next(self._right), 1):
            branch = truth[:right] + [(token + shift) % LETTERS for token in truth[right:]]
            draft = toy.grown(draft, branch)
        return draft


@EACH
@pytest.mark.parametrize("captured", [False, True])
def test_a_tree_is_another_mask_and_another_row_of_positions(family, captured):
    model, peer = model_of(family, recorder=Recorder() if captured else None), network(family)
    ids = prompt_of(family, 7)
    output = reference(peer, ids, 90)
    random_ = random.Random(family)
    script = iter([[random_.randint(0, 7) for _ in range(random_.choice([1, 2, 3, 8]))] for _ in range(90)])
    settings = Settings(k=7, max_new_tokens=90)
    context, walked = list(ids), Counter()
    for event in events(model, ids, settings, Branching(ids, output, script)):
        if not isinstance(event, (Prefill, Pass)):
            continue
        before = len(context)
        context += event.kept
        with torch.inference_mode():
            logits = peer(torch.tensor([context]), use_cache=False).logits[0, before - 1 : -1]
        assert logits.argmax(-1).tolist() == event.kept
        chances = logits.softmax(-1).max(-1).values
        assert torch.allclose(torch.tensor(event.probabilities), chances, atol=1e-3)
        if isinstance(event, Pass) and event.parents:
            walked[event.path != list(range(event.accepted))] += 1
            if event.wanted:
                with torch.inference_mode():
                    heads = context[: before + event.accepted]
                    wanted = peer(torch.tensor([heads]), use_cache=False).logits[0, -1]
                assert [c.id for c in event.wanted] == wanted.topk(5).indices.tolist()
    assert context == ids + output
    assert min(walked[True], walked[False]) > 2


@pytest.mark.parametrize("sampling", [SAMPLED, PROCESSED])
def test_sampled_trees_say_what_plain_decoding_says(sampling):
    model, ids = model_of("Llama", 1, Recorder()), prompt_of("Llama", 5)
    settings = Settings(k=5, max_new_tokens=30, sampling=sampling)
    expected = lane_of(model, ids, settings.plain()).ids
    script = iter([[1, 3, 0]] * 30)
    (lane,) = trace.lanes(events(model, ids, settings, Branching(ids, expected, script))).values()
    assert lane.ids == expected
    assert any(step.path != list(range(step.accepted)) for step in lane.passes if step.parents)


def test_strict_mode_drafts_no_trees():
    model, ids = model_of("Llama"), prompt_of("Llama", 1)
    output = reference(network("Llama"), ids, 30)
    settings = Settings(k=10, max_new_tokens=30, fixed_width=11)
    script = iter([[3, 2]] * 30)
    (lane,) = trace.lanes(events(model, ids, settings, Branching(ids, output, script))).values()
    assert lane.ids == output
    assert not any(step.parents for step in lane.passes)


# Padding.


class Poisoned(Right):
    """Before each draft, puts what is no number where an earlier pass may have left it, and
    numbers beyond measure in every other row that is not in use."""

    def __init__(self, target, *arguments):
        super().__init__(*arguments)
        self._target = target

    def propose(self, k):
        cache, used = self._target._seat.cache, len(self.context) - 1
        assert used == len(self._target._ids)
        cache[:, :, :, used:] = 1e20
        cache[:, :, :, used : used + graphed.WIDEST] = float("nan")
        self._target._network.buffers.logits.fill_(float("nan"))
        return super().propose(k)


@EACH
def test_what_lies_in_unused_rows_never_shows(family):
    model, ids = model_of(family, 1, Recorder()), prompt_of(family, 1)
    output = reference(network(family, 1), ids, LONG)
    random_ = random.Random(family)
    for settings in (Settings(k=9), Settings(k=9, fixed_width=11)):
        settings = replace(settings, max_new_tokens=LONG)
        target = model.target(settings, len(ids))
        script = iter([random_.randint(0, 9) for _ in range(60)])
        poisoned = Poisoned(target, ids, output, script)
        (lane,) = trace.lanes(events(model, ids, settings, poisoned, target)).values()
        assert lane.ids == output
        assert all(0 < p <= 1 for step in lane.passes for p in step.probabilities)


# Buckets, length classes, captures.


def test_a_bucket_is_the_next_power_of_two_and_then_goes_by_32():
    assert [bucket(w) for w in (1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 65, 96, 97, 300)] == [
        1, 2, 4, 4, 8, 8, 16, 16, 32, 64, 64, 96, 96, 128, 320,
    ]  # fmt: skip


def test_length_classes_hold_what_is_asked_and_at_most_a_quarter_more():
    classes = [length_class(n) for n in range(1, 20_000)]
    assert sorted(set(classes))[:7] == [256, 320, 384, 448, 512, 640, 768]
    for n, size in enumerate(classes, 1):
        assert n <= size and size % 64 == 0
        assert n <= 256 or size <= 1.25 * n + 1


def test_a_shape_is_run_then_captured_then_replayed():
    recorder = Recorder()
    model, ids = model_of("Llama", recorder=recorder), prompt_of("Llama", 1, 20)
    target = model.target(Settings(max_new_tokens=200), len(ids))
    target.prefill(ids)
    history = []
    for width in (1, 1, 1, 3, 4, 3, 1):
        target.forward([5] * width)
        target.commit(0)
        history.append((recorder.captures, recorder.replays))
    assert history == [(0, 0), (1, 1), (1, 2), (1, 2), (2, 3), (2, 4), (2, 5)]
    assert [key[1:] for key in model.fused.graphs.captured] == [(1, 24), (4, 24)]
    # the next class of the context has graphs of its own
    target.forward([5] * 4)
    target.commit(4)
    target.forward([5])
    target.commit(0)
    target.forward([5])
    assert [key[1:] for key in model.fused.graphs.captured] == [(1, 24), (4, 24), (1, 28)]


def test_a_replay_computes_from_new_inputs():
    model, peer = model_of("Llama", recorder=Recorder()), network("Llama")
    target = model.target(Settings(), 3)
    context = [1, 2, 3]
    target.prefill(context)
    for token in (4, 5, 6, 7, 8):
        logits = target.forward([token, 9]).logits.clone()
        target.commit(1)
        context.append(token)
        with torch.inference_mode():
            expected = peer(torch.tensor([[*context, 9]]), use_cache=False).logits[0, -2:]
        assert torch.allclose(logits, expected, atol=1e-4)


def test_lanes_have_seats_of_their_own_which_the_next_run_takes_again():
    words = len(tiny.tokenizer())
    made = tiny.network.__wrapped__("Llama", 5, words)
    recorder = Recorder()
    own = GraphedNetwork(FusedNetwork(made), SHORTEST, recorder)
    model = Model("graphed", "", made, tiny.tokenizer(), own)
    settings, ask = Settings(max_new_tokens=30), Ask(tiny.PROMPT, chat=False)
    expected, _ = tiny.run(tiny.model("Llama", 5), ask, settings.plain())

    def run():
        found = trace.lanes(model.run(ask, settings, beside={"pld-b": replace(settings, k=3)}))
        assert {name for name, lane in found.items() if lane.ids == expected.ids} == {
            "pld", "plain", "pld-b",
        }  # fmt: skip

    run()
    gc.collect()
    assert len(own._free) == 3
    run()
    gc.collect()
    captured, seats = recorder.captures, list(own._free)
    assert captured > 5
    run()
    gc.collect()
    assert sorted(map(id, own._free)) == sorted(map(id, seats))
    assert {id(key[0]) for key in own.graphs.captured} <= set(map(id, seats))
    own.close()
    assert own.graphs.captured == own._free == []
    run()  # and it runs again


def test_a_seat_is_empty_when_it_is_taken_again():
    model, ids = model_of("Llama"), prompt_of("Llama", 1, 40)
    lane_of(model, ids, Settings(max_new_tokens=30))
    gc.collect()
    (seat,) = model.fused._free
    seat.cache.fill_(float("nan"))
    lane = lane_of(model, ids[:9], Settings(max_new_tokens=30))
    assert lane.ids == reference(network("Llama"), ids[:9], 30)
    gc.collect()
    assert model.fused._free == [seat]


def test_a_lane_that_is_left_while_it_reads_its_prompt_leaves_its_seat(monkeypatch):
    monkeypatch.setattr(SequenceTarget, "part", 7)
    model, ids = model_of("Llama"), prompt_of("Llama", 1, 40)
    target = model.target(Settings(max_new_tokens=30), len(ids))
    assert next(target.read(ids)) == 7 and model.fused._free == []
    del target
    gc.collect()
    (seat,) = model.fused._free
    lane = lane_of(model, ids[:9], Settings(max_new_tokens=30))
    assert lane.ids == reference(network("Llama"), ids[:9], 30)
    gc.collect()
    assert model.fused._free == [seat]


def test_a_lane_that_outgrows_its_seat_keeps_what_it_holds():
    recorder = Recorder()
    model, ids = model_of("Llama", recorder=recorder), prompt_of("Llama", 1)
    output = reference(network("Llama"), ids, 130)
    target = model.target(Settings(max_new_tokens=1), len(ids))
    first = target.prefill(ids).choices[0]
    seat = target._seat
    got = [first]
    for _ in range(129):
        got.append(target.forward([got[-1]]).choices[0])
        target.commit(1)
    assert got == output
    assert target._seat is not seat
    assert seat not in {key[0] for key in model.fused.graphs.captured}
    del target
    gc.collect()
    assert len(model.fused._free) == 1


def test_an_answer_that_may_be_long_has_no_room_before_it_is(monkeypatch):
    monkeypatch.setattr(graphed, "AHEAD", 8)
    model, ids = model_of("Llama", recorder=Recorder()), prompt_of("Llama", 1, 12)
    settings = Settings(max_new_tokens=1_000_000)
    target = model.target(settings, len(ids))
    target.prefill(ids)
    assert target._seat.positions == length_class(12 + 8 + graphed.WIDEST, SHORTEST) < LIMIT
    lane = lane_of(model, ids, settings)
    assert lane.end.reason == "context_full"
    expected = lane_of(replace(model, network=network("Llama"), fused=None), ids, settings.plain())
    assert lane.ids == expected.ids


def test_wider_passes_than_the_widest_bucket_make_room():
    model, peer = model_of("Llama", recorder=Recorder()), network("Llama")
    ids = prompt_of("Llama", 1, 10)
    target = model.target(Settings(), len(ids))
    target.prefill(ids)
    tokens = prompt_of("Llama", 2, 100)
    for _ in range(3):
        choices = target.forward(tokens).choices
        target.commit(0)
        with torch.inference_mode():
            logits = peer(torch.tensor([ids + tokens]), use_cache=False).logits[0, len(ids) :]
        assert choices == logits.argmax(-1).tolist()
    assert model.fused.buffers.width == 128


@pytest.mark.parametrize("fails", [1, 3])
def test_a_failed_capture_is_one_sentence_and_the_answer_the_same(fails, caplog):
    recorder = Recorder(fails=[fails])
    model, ids = model_of("Llama", recorder=recorder), prompt_of("Llama", 1)
    with caplog.at_level(logging.WARNING):
        lane = lane_of(model, ids, Settings(k=4, max_new_tokens=LONG))
    assert lane.ids == reference(network("Llama"), ids, LONG)
    assert recorder.captures == fails  # none is tried again
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith("Passes run without CUDA graphs, and slower")
    assert "\n" not in said and said.endswith(".")


def test_captures_share_a_pool_and_the_stream_that_everything_runs_on(monkeypatch):
    cuda = Cuda()
    cuda.install(monkeypatch)
    model = model_of("Llama", recorder=CudaRecorder(torch.device("cpu")))
    ids = prompt_of("Llama", 1)
    lane = lane_of(model, ids, Settings(k=4, max_new_tokens=LONG))
    assert lane.ids == reference(network("Llama"), ids, LONG)
    captures = [each for each in cuda.said if each[0] == "capture"]
    assert len(captures) > 3
    assert len(set(captures)) == 1 and captures[0][2:] == ("side", "thread_local")
    assert cuda.said.count("a pool") == 1
    assert cuda.said.count("replay") > len(captures)
    # every pass runs on the side stream, behind what was asked for before it and before what comes
    # after, and its results are waited for once
    said = [each for each in cuda.said if each != "replay" and each[0] != "capture"]
    enter, leave = ["side waits for outside", "on side"], ["off side", "outside waits for side"]
    prefill, one = [*enter, *leave], [*enter, "event", *leave, "waited"]
    assert said[: 1 + len(prefill) + len(one)] == ["a pool", *prefill, *one]
    # before each further pass the host asks once more: the last one's numbers may be overwritten
    assert said[1 + len(prefill) + len(one) :] == ["waited", *one] * (len(lane.passes) - 1)


def test_the_recorder_refuses_what_a_capture_refuses():
    x = torch.ones(3)
    for body in (lambda: x.sum().item(), lambda: x + torch.tensor([1.0]), lambda: x.nonzero()):
        with pytest.raises(RuntimeError, match="capturing"):
            Recorder().capture(body)


# Waiting for the device.


def test_only_reading_the_choices_waits(monkeypatch):
    cuda = Cuda()
    cuda.install(monkeypatch)
    model = model_of("Llama", recorder=CudaRecorder(torch.device("cpu")))
    ids = prompt_of("Llama", 1)
    target = model.target(Settings(), len(ids))
    target.prefill(ids)
    scores = target.forward([3, 4])
    assert scores.late and "waited" not in cuda.said
    assert len(scores.choices) == 2 and scores.kept(2) and scores.choices
    assert cuda.said.count("waited") == 1
    target.commit(1)
    target.forward([3])  # must not write what may still be read
    assert cuda.said.count("waited") == 2


def test_float32_is_float32_whatever_was_asked_for_outside():
    model, ids = model_of("Llama"), prompt_of("Llama", 1)
    seen = []
    whole = model.fused._hidden
    model.fused._hidden = lambda *given: (
        seen.append(torch.get_float32_matmul_precision()), whole(*given)
    )[1]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        lane_of(model, ids, Settings(max_new_tokens=5))
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert set(seen) == {"highest"}


# What a GPU runs otherwise.


@EACH
def test_the_shapes_and_dtypes_of_half_precision_on_a_device(family):
    """No device at hand computes them, but torch knows the shape and type of every result."""
    own = GraphedNetwork(FusedNetwork(fresh(family, dtype=torch.bfloat16, device="meta")))
    seat = own.take(300)
    assert seat.cache.dtype == torch.bfloat16
    before = {name: (t.shape, t.dtype) for name, t in vars(own.buffers).items() if name != "width"}
    with torch.inference_mode():
        for width in (1, 2, 16, 64):
            own._pass(seat, width, seat.positions)
    assert before == {
        name: (t.shape, t.dtype) for name, t in vars(own.buffers).items() if name != "width"
    }


def test_a_prompt_is_read_alike_by_the_other_attention():
    model = model_of("Llama")
    own, ids = model.fused, prompt_of("Llama", 3, 60)
    wanted = own.read(own.take(100), 0, ids)
    seat, begin = own.take(100), 0
    for end in (25, 60):
        slots = torch.arange(begin, end)
        with torch.inference_mode():
            x = own._hidden(
                seat, torch.tensor(ids[begin:end]), slots, slots, own._mix_by_flash(begin, end)
            )
            got = own.fused.logits(x[-1:])
        begin = end
    assert torch.allclose(got, wanted, atol=1e-5)


# Which models, and what loading does.


def test_windows_and_dynamic_angles_are_left_to_others():
    assert all(can_graph(network(family)) for family in NAMES)
    assert not can_graph(network("Mistral, window 8"))
    assert not can_graph(network("GPT-2"))
    assert not can_graph(dynamic())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    tiny.network("Llama", 5, len(tiny.tokenizer())).save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    return str(tmp_path)


def loaded(folder, monkeypatch, recorder=None):
    monkeypatch.setattr(
        loading, "_own", lambda network: GraphedNetwork(FusedNetwork(network), 16, recorder)
    )
    model = loading.load(folder, "cpu")
    lane, _ = tiny.run(model, tiny.PROMPT, Settings(max_new_tokens=20))
    expected, _ = tiny.run(tiny.model("Llama", 5), tiny.PROMPT, Settings(k=0, max_new_tokens=20))
    assert lane.ids == expected.ids
    return model


def test_a_cpu_has_the_forward_pass_for_a_cpu(folder):
    assert type(loading.load(folder, "cpu").fused) is FusedNetwork


def test_a_loaded_model_has_captured_already(folder, monkeypatch):
    recorder = Recorder()
    assert type(loaded(folder, monkeypatch, recorder).fused) is GraphedNetwork
    assert recorder.captures > 0


def test_a_model_loads_where_nothing_can_be_captured(folder, monkeypatch, caplog):
    model = loaded(folder, monkeypatch, Recorder(fails=[1]))
    assert type(model.fused) is GraphedNetwork
    assert len(caplog.records) == 1


@pytest.mark.parametrize("place", ["__init__", "_hidden"])
def test_a_device_that_cannot_run_our_passes_runs_those_of_transformers(
    folder, monkeypatch, caplog, place
):
    def broken(*arguments):
        raise RuntimeError("no kernel image is available\nfor this device")

    monkeypatch.setattr(GraphedNetwork, place, broken)
    assert loaded(folder, monkeypatch).fused is None
    (record,) = caplog.records
    assert "our own forward pass failed here" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_no_room_on_the_device_is_one_sentence(folder, monkeypatch):
    def full(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(GraphedNetwork, "take", full)
    with pytest.raises(ModelError) as caught:
        loaded(folder, monkeypatch)
    assert str(caught.value) == f"{folder} does not fit into the device's memory."


def test_no_room_for_a_lane_ends_the_lane_in_words(monkeypatch):
    model, ids = model_of("Llama"), prompt_of("Llama", 1)

    def full(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(model.fused, "take", full)
    seen = []
    with pytest.raises(torch.OutOfMemoryError):
        seen.extend(events(model, ids, Settings()))  # extend keeps what came before
    for event in events(model, ids, Settings()):
        seen.append(event)
        if event.type == "end":
            break
    assert (event.reason, event.message) == ("error", "The device ran out of memory.")


# Real graphs.

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@pytest.fixture
def replays(monkeypatch):
    """Counts what real graphs replay."""
    counted = Counter()
    whole = torch.cuda.CUDAGraph.replay

    def replay(graph):
        counted["replays"] += 1
        whole(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", replay)
    return counted


@cuda
@EACH
def test_on_a_gpu_graphed_is_ungraphed_is_eager(family, replays, caplog):
    ids = prompt_of(family, 1)
    settings = Settings(k=6, max_new_tokens=LONG)
    expected = reference(network(family), ids, LONG)
    eager = model_of(family, device="cuda")
    eager = replace(eager, network=fresh(family, device="cuda"), fused=None)
    graphed_model = model_of(family, device="cuda")
    ungraphed = model_of(family, device="cuda")
    ungraphed.fused.graphs._recorder = None
    for each in (settings.plain(), settings, replace(settings, fixed_width=8)):
        assert lane_of(eager, ids, replace(each, fixed_width=0)).ids == expected
        assert lane_of(ungraphed, ids, each).ids == expected
        for _ in range(2):
            assert lane_of(graphed_model, ids, each).ids == expected
    assert graphed_model.fused.graphs.captured and not ungraphed.fused.graphs.captured
    assert replays["replays"] > 2 * LONG
    assert not caplog.records


@cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_on_a_gpu_strict_mode_is_exact_in_half_precision(dtype):
    model, ids = model_of("Llama", 1, dtype=dtype, device="cuda"), prompt_of("Llama", 2)
    if model.exact_width(8) is None:
        pytest.skip("this device rounds the rows of a pass differently at any width")
    settings = Settings(k=7, max_new_tokens=LONG, fixed_width=8)
    plain, pld = (lane_of(model, ids, each) for each in (settings.plain(), settings))
    assert plain.ids == pld.ids and margins(plain) == margins(pld)


@cuda
def test_on_a_gpu_what_is_closed_gives_its_memory_back():
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    model, ids = model_of("Llama", device="cuda"), prompt_of("Llama", 1)
    lane_of(model, ids, Settings(max_new_tokens=LONG))
    gc.collect()
    model.fused.close()
    del model
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() - before < 2**20
