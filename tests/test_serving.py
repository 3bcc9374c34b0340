"""From a visitor's request to the lanes that answer it."""

import threading
from copy import deepcopy
from dataclasses import replace

import pytest

from pld_core import trace
from pld_core.cost import PassCost
from pld_core.events import Compared, read
from pld_core.models.fused import FusedNetwork
from pld_core.models.graphed import GraphedNetwork
from pld_core.replay import what_if
from pld_core.serving import (
    LONGEST_SECONDS,
    RIVAL,
    SENDING_SHARE,
    Request,
    RequestError,
    Rival,
    Slot,
    Status,
    _batched,
)
from pld_core.settings import Settings
from tests import tiny
from tests.recorder import Recorder

PROMPT = tiny.PROMPT
RIVALS = Rival(n_max=1, n_min=1, k=2, policy="oldest")


@pytest.fixture(scope="module")
def slot() -> Slot:
    slot = Slot()
    slot._model = tiny.model("Llama")
    slot._status = Status("ready", "tiny")
    return slot


def streamed(slot: Slot, request: Request) -> str:
    *_, whole = slot.run(request)
    return whole


def test_every_field_reaches_the_ask_and_the_settings() -> None:
    request = Request(
        "p", "begun", False, "sys", "ref", 5, 2, 7, "oldest", True, 9, True, 0.7, 40, 0.9, 3
    )
    ask, settings = request.ask(), request.settings()
    assert (ask.prompt, ask.answer_prefix, ask.chat) == ("p", "begun", False)
    assert (ask.system, ask.reference) == ("sys", "ref")
    assert (settings.n_max, settings.n_min, settings.k, settings.policy) == (5, 2, 7, "oldest")
    assert (settings.adaptive, settings.max_new_tokens, settings.fixed_width) == (True, 9, 8)
    sampling = settings.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed) == (0.7, 40, 0.9, 3)


def test_strict_lanes_are_all_as_wide_as_the_longest_draft_needs() -> None:
    request = Request("p", k=4, strict=True, rival=Rival(3, 1, 12, "recent"))
    assert request.settings().fixed_width == request.beside()[RIVAL].fixed_width == 13
    assert Request("p", k=4).settings().fixed_width == 0


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (Request("p", n_max=2, n_min=3), "n_min (3) is larger than n_max (2)."),
        (Request("p", temperature=-1), "temperature is 0 (greedy) or a number"),
        (Request("p", rival=Rival(1, 2, 3, "recent")), "Settings B: n_min (2) is larger"),
        (Request("p", k="many"), "k is a whole number from 0 to 512, not 'many'."),
        (Request("p", k=3, rival=Rival(2, 1, "many", "recent")), "Settings B: k is a whole number"),
        (Request("p", rival=Rival(2, 1, 3, "no such")), "Settings B: The policy is one of"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(slot, request_, sentence) -> None:
    with pytest.raises(RequestError) as raised:
        next(slot.run(request_))
    assert str(raised.value).startswith(sentence)


def test_a_model_that_is_not_there_is_said_to_who_asks_and_in_the_log(tmp_path, caplog) -> None:
    slot = Slot(str(tmp_path))
    slot.load()
    assert slot.status.state == "failed"
    assert str(tmp_path) in slot.status.text
    assert [record.getMessage() for record in caplog.records] == [slot.status.text]


def test_two_settings_race_plain_decoding_and_are_compared_with_it(slot: Slot) -> None:
    request = Request(PROMPT, chat=False, k=6, max_new_tokens=40, rival=RIVALS)
    stream = streamed(slot, request)
    found = trace.read(stream.splitlines())
    assert list(found) == ["pld", RIVAL, "plain"]
    assert [law for lane in found.values() for law in lane.laws()] == []
    assert len({tuple(lane.ids) for lane in found.values()}) == 1
    compared = [event for event in read(stream.splitlines()) if isinstance(event, Compared)]
    assert [(c.lane, c.against, c.verdict) for c in compared] == [
        ("pld", "plain", "same"),
        (RIVAL, "plain", "same"),
    ]
    settings = Settings.from_json(found[RIVAL].start.settings)
    replayed = what_if(found["pld"], settings)
    assert [(p.match, p.draft, p.kept) for p in replayed.passes] == [
        (p.match, p.draft, p.kept) for p in found[RIVAL].passes
    ]


def test_two_settings_without_plain_decoding_are_compared_with_each_other(slot: Slot) -> None:
    request = Request(PROMPT, chat=False, max_new_tokens=12, plain=False, rival=RIVALS)
    stream = streamed(slot, request)
    found = trace.read(stream.splitlines())
    assert list(found) == ["pld", RIVAL]
    assert found[RIVAL].compared.against == "pld"


def test_a_reference_is_copied_from_and_never_read(slot: Slot) -> None:
    request = Request("the red fox", chat=False, max_new_tokens=30, plain=False)
    answer = trace.read(streamed(slot, request).splitlines())["pld"]
    request = replace(request, reference="the red fox" + answer.text)
    helped = trace.read(streamed(slot, request).splitlines())["pld"]
    assert helped.ids == answer.ids
    assert helped.start.prompt == answer.start.prompt
    assert helped.start.reference.ids
    assert any(p.match and p.match.region == "reference" for p in helped.passes)
    assert list(helped.laws()) == []


def test_the_page_has_every_start_before_a_lane_reads_the_prompt(slot: Slot) -> None:
    request = Request(PROMPT, chat=False, max_new_tokens=5, rival=RIVALS)
    updates = [[event.type for event in read(text.splitlines())] for text in slot.run(request)]
    assert ["start"] * 3 in updates


def test_passes_are_measured_between_two_runs(slot: Slot) -> None:
    run = slot.run(Request(PROMPT, max_new_tokens=8))
    next(run)
    measured: list = []
    asked = threading.Thread(target=lambda: measured.extend(slot.measure()))
    asked.start()
    asked.join(0.3)
    assert asked.is_alive() and measured == []
    run.close()
    asked.join(60)
    PassCost(tuple(measured))  # rising widths from 1, each with its seconds
    with pytest.raises(RequestError, match="loading"):
        Slot().measure()


@pytest.mark.parametrize("cost", [0.0005, 0.003, 0.006, 0.05])
@pytest.mark.parametrize("took", [0.005, 0.03, 0.5])
def test_sending_takes_its_share_of_a_run_and_news_is_never_old(cost: float, took: float) -> None:
    """A pass of `took` seconds, an update that costs `cost` while the decoder waits."""
    now, sending, oldest = 0.0, 0.0, 0.0
    made: list[float] = []

    def passes():
        nonlocal now
        for _ in range(300):
            now += took
            made.append(now)
            yield "line\n", False

    seen = 0
    for text in _batched(passes(), lambda: now):
        oldest = max(oldest, now - made[seen])
        seen = text.count("\n")
        now += cost
        sending += cost
    assert seen == 300
    assert oldest <= LONGEST_SECONDS + cost
    if cost <= SENDING_SHARE * LONGEST_SECONDS:
        assert sending - 2 * cost <= SENDING_SHARE * now  # all but the first and the last


def ours(model):
    network = deepcopy(model.network)  # its weights are given away
    return replace(model, network=network, fused=FusedNetwork(network))


def ours_for_a_gpu(model):
    fused = ours(model).fused
    return replace(model, fused=GraphedNetwork(fused, recorder=Recorder()))


LONG = Request(PROMPT * 16, chat=False, adaptive=False, max_new_tokens=4, plain=False)
ENGINES = pytest.mark.parametrize(
    "request_, engine",
    [
        (LONG, lambda model: model),
        (replace(LONG, strict=True), lambda model: model),
        (LONG, ours),
        (LONG, ours_for_a_gpu),
    ],
    ids=["transformers", "strict", "ours", "ours for a GPU"],
)


@pytest.fixture
def long(request_, engine, monkeypatch) -> tuple[Slot, list[int], trace.Trace]:
    """A slot, how many tokens each read of it takes, and what the long run says."""
    slot = ready(Slot(), tiny.model("Llama", seed=5, limit=8192))
    expected = told(slot, request_)
    ready(slot, engine(slot._model))
    target = type(slot._model.target(request_.settings(), 4))
    whole, read = target._read, []

    def counted(self, ids):
        read.append(len(ids))
        return whole(self, ids)

    monkeypatch.setattr(target, "_read", counted)
    return slot, read, expected


def told(slot: Slot, request: Request) -> trace.Trace:
    return trace.read(streamed(slot, request).splitlines())["pld"]


@ENGINES
def test_a_long_prompt_can_be_left_while_it_is_read(long, request_) -> None:
    slot, read, expected = long
    updates = slot.run(request_)
    assert "prefill" not in next(updates) and read == []
    assert "prefill" not in next(updates) and read == [512]
    updates.close()
    assert read == [512] and not slot._turn.locked()
    again = told(slot, request_)
    assert again.ids == expected.ids and list(again.laws()) == []
    assert again.prefill.seconds > 0
    tokens = len(again.start.prompt.ids)
    assert tokens > 1024 and sum(read[1:]) == tokens and read[1:3] == [512, 512]


@ENGINES
def test_a_long_prompt_that_fails_while_it_is_read_leaves_nothing(
    long, request_, monkeypatch
) -> None:
    slot, read, expected = long
    target = type(slot._model.target(request_.settings(), 4))
    whole = target._read

    def fails(self, ids):
        if len(read) == 1:
            raise MemoryError
        return whole(self, ids)

    with monkeypatch.context() as patch:
        patch.setattr(target, "_read", fails)
        failed = told(slot, request_)
    assert (failed.end.reason, failed.end.message) == ("error", "The device ran out of memory.")
    assert read == [512] and failed.prefill is None and not slot._turn.locked()
    assert told(slot, request_).ids == expected.ids


def ready(slot: Slot, model) -> Slot:
    slot._model, slot._status = model, Status("ready", "tiny")
    return slot
