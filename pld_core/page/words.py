"""What a visitor reads around the trace view."""

from __future__ import annotations

from pld_core.hosting.line import Outlook


class Words:
    """What a visitor reads around the trace view."""

    title = "PLD Lens"
    lead = (
        "Watch a language model copy. Prompt lookup decoding drafts the next tokens from text "
        "that is already there and checks them all in one forward pass: fewer passes, same text."
    )
    preset = "Preset"
    preset_info = "Fills the form and runs nothing."
    preset_none = "none: a prompt of your own"
    prompt = "Prompt"
    answer_prefix = "Begun answer (optional)"
    answer_prefix_info = "The model goes on from here. It counts as prompt."
    run = "Run"
    stop = "Stop"
    more = "More settings"
    settings = "Settings"
    chat = "As a chat message"
    chat_info = "Off: the model continues the raw text."
    plain = "Run plain decoding too"
    plain_info = "For a measured comparison. It takes the longer part of the time."
    n_max = "Longest match, tokens (n)"
    k = "Draft length, tokens (k)"
    max_new_tokens = "Most new tokens"
    recorded = "Recorded run"
    recorded_info = "Shows an earlier run; machine and date are below."
    recorded_none = "none: a run or trace of your own"
    broken = "The run broke off. Its lanes are shown as far as they came."
    broken_measurement = "The measurement broke off."
    n_min = "Shortest match, tokens"
    branches = "Continuations checked at once"
    branches_info = (
        "1 drafts one. More are merged into a tree, and one pass checks them all: fewer passes, "
        "each of them wider."
    )
    policy = "Of several equal matches, copy"
    policies = {
        "recent": "the most recent",
        "oldest": "the oldest",
        "nearest": "the nearest to the last copy",
        "vote": "the most common continuation",
        "longest": "the longest, also beyond n",
    }
    system = "System prompt (optional)"
    adaptive = "Drafts only as long as they pay"
    adaptive_info = (
        "k is then the longest draft. What passes cost here was measured, how often drafts stand is "
        "learned from the text; where nothing is copied, decoding stays plain."
    )
    strict = "Strict mode"
    strict_info = (
        "Every pass of every lane runs k + 1 positions, so that half precision is exact too. It "
        "costs: plain decoding is as wide as any pass, so a smaller k is quicker. Drafts are whole "
        "and do not branch."
    )
    sampling = "Sampling"
    temperature = "Temperature"
    temperature_info = "0 always takes the likeliest token."
    top_k = "Top k"
    top_k_info = "0 keeps all tokens."
    top_p = "Top p"
    seed = "Seed"
    seed_info = "One seed gives one text, with and without lookup."
    reference_title = "Reference text"
    reference = "Copied from, never read by the model"
    reference_info = "The last version of a file, or the answer you expect."
    rival_title = "Compare two settings"
    rival = "Run settings B on the same prompt"
    rival_n_max = "B: longest match (n)"
    rival_n_min = "B: shortest match"
    rival_k = "B: draft length (k)"
    rival_branches = "B: continuations at once"
    rival_policy = "B: of equal matches, copy"
    rival_adaptive = "B: drafts only as long as they pay"
    file_to_prompt = "Add a text file"
    file_to_reference = "Use a text file"
    share = "Link to this"
    with_texts = "Put my prompt into the link"
    with_texts_info = "Off: the link holds the example, the pass and the settings, and no text."
    copy_link = "Copy link"
    link = "Link"
    link_copied = "Copied."
    link_by_hand = "This browser let no page copy: copy the link by hand."
    link_without_prompt = "Your prompt is not in it."
    link_with_texts = "The link's prompt and settings are in the form: press Run."
    link_with_settings = "The link's settings are in the form: press Run."
    elsewhere = "These settings in other engines"
    copy = "Copy"
    copied = "Copied"
    selected = "Selected"
    busy = "Port {port} on {host} is in use: choose another one, as in PORT=7861 make run."
    no_port = "PORT is a whole number from 1 to 65535, not {port!r}."
    no_host = "HOST={host} is no address of this machine."
    no_address = "The page cannot be served on {host}, port {port}: {why}."

    _quota = (
        "Your GPU time here does not cover this run: ask for fewer tokens, leave plain decoding "
        "out, come back tomorrow or run a copy of this Space; the recorded runs need no GPU."
    )
    zero_gpu = {  # by the titles of what the package `spaces` raises
        "ZeroGPU quota exceeded": _quota,
        "ZeroGPU pending credits exceeded": _quota,
        "ZeroGPU illegal duration": "The run is too long for one turn on the GPU: ask for fewer tokens.",
        "ZeroGPU queue timeout": "No GPU came free in time: please run it again.",
        "ZeroGPU client error": "No GPU is free at the moment: please run it again.",
        "ZeroGPU worker error": "The GPU was taken away before the run was over: please run it again.",
    }

    measuring = "Measuring what a pass takes by its width."

    @staticmethod
    def waiting(outlook: Outlook) -> str:
        runs = "1 run comes" if outlook.ahead == 1 else f"{outlook.ahead:,} runs come"
        if outlook.seconds is None:
            return f"In line: {runs} before yours."
        took = f"about {max(1, round(outlook.seconds)):,} s, as long as the last runs took"
        return f"In line: {runs} before yours, {took}."

    too_large = "{name} is larger than {kilobytes} kB, too large for a prompt here."
    file_added = "{name} stands behind what was in the prompt."
    no_text = "{name} is not a text in UTF-8."

    @staticmethod
    def no_example(name: str) -> str:
        return f"There is no recorded run called {name[:40]!r} here."
