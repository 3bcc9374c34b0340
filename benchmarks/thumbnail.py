"""Draws the picture that a Space is shared with, from a recorded run:

    python benchmarks/thumbnail.py

Left the answer's tokens, copied ones blue and underlined, the model's own amber; right the
tokens against the passes, with lookup and without.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pld_core import trace  # noqa: E402
from pld_core.trace import Trace  # noqa: E402

SIZE = (1200, 630)
RUN = ROOT / "static" / "examples" / "rename-in-code.ndjson"
PICTURE = ROOT / "static" / "thumbnail.png"
INK, PAPER, GREY = "#1c2330", "#ffffff", "#8a93a3"
COPIED, COPIED_FILL, OWN, OWN_FILL = "#1f5fbf", "#dbe9ff", "#b3701a", "#fdeccb"


def font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def draw(lanes: dict[str, Trace]) -> Image.Image:
    picture = Image.new("RGB", SIZE, PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((60, 46), "PLD Lens", INK, font(64))
    pen.text((60, 126), "Watch a language model copy, pass by pass", GREY, font(30))
    _tokens(pen, lanes["pld"], (60, 210, 640, 580))
    _plot(pen, lanes, (720, 210, 1140, 540))
    return picture


def _tokens(pen: ImageDraw.ImageDraw, lane: Trace, box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    x, y, line, face = left, top, 44, font(27)
    for pass_ in lane.passes:
        for place, piece in enumerate(pass_.pieces):
            copied = place < pass_.accepted
            for index, part in enumerate(piece.split("\n")):
                if index:
                    x, y = left, y + line
                width = pen.textlength(part, face)
                if x + width > right:
                    x, y = left, y + line
                if y + line > bottom:
                    return
                if part.strip():
                    ink, fill = (COPIED, COPIED_FILL) if copied else (OWN, OWN_FILL)
                    pen.rectangle((x, y, x + width - 2, y + line - 8), fill)
                    pen.line((x, y + line - 8, x + width - 2, y + line - 8), ink, 3)
                    pen.text((x, y + 1), part, INK, face)
                x += width


def _plot(
    pen: ImageDraw.ImageDraw, lanes: dict[str, Trace], box: tuple[int, int, int, int]
) -> None:
    left, top, right, bottom = box
    most = max(len(lane.passes) + 1 for lane in lanes.values())
    tokens = len(lanes["pld"].ids)
    pen.line((left, top, left, bottom, right, bottom), GREY, 2)
    for name, ink in (("plain", OWN), ("pld", COPIED)):
        count, points = 1, [(left, bottom)]
        for index, pass_ in enumerate(lanes[name].passes, 2):
            count += len(pass_.kept)
            points.append(
                (left + (right - left) * index / most, bottom - (bottom - top) * count / tokens)
            )
        pen.line(points, ink, 6)
        passes = len(lanes[name].passes) + 1
        label = f"{'lookup' if name == 'pld' else 'plain'}: {passes} passes"
        place = (points[-1][0] + 16, top - 6) if name == "pld" else (left + 190, bottom - 60)
        pen.text(place, label, ink, font(30))
    pen.text((left, bottom + 12), f"{tokens} tokens, the same text", GREY, font(26))


if __name__ == "__main__":
    draw(trace.read(RUN.read_text("utf-8").splitlines())).save(PICTURE, optimize=True)
