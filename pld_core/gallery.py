"""What recorded runs say of themselves, for a list of them."""

from __future__ import annotations

from pathlib import Path

from pld_core.trace import compare, read, speedups


def summary(path: Path) -> dict:
    """The numbers of a recorded run and what made it. time and same are null where no plain
    lane ran beside it. Raises TraceError for a file that is no trace and ValueError for one
    without a lookup lane that has a token."""
    lanes = read(path.read_text("utf-8").splitlines())
    trace = lanes.get("pld")
    if trace is None:
        raise ValueError("The recording has no lookup lane.")
    plain = lanes.get("plain")
    numbers = trace.numbers()
    beside = plain is not None and plain.prefill is not None
    compared = (trace.compared or compare(trace, plain)) if beside else None
    return {
        "id": path.stem,
        "f": numbers.f,
        "tokens_per_pass": numbers.tokens_per_pass,
        "time": speedups(trace, plain)["time"] if beside else None,
        "same": compared.first_difference is None if compared else None,
        "model": trace.start.model,
        "dtype": trace.start.dtype,
        "hardware": trace.start.hardware or trace.start.device,
        "created": trace.start.created,
    }
