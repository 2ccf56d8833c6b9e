"""Pieces of inline SVG: every text is escaped, and colours are classes of the notebook's style."""

from __future__ import annotations

import html
import math

from tensorproof.report.plain_text import count

#: Upper ends of the classes of headroom, in bits, as the page has them; the class of a value colours it.
HEADROOM_ENDS = (0.0, 1.0, 4.0, 8.0, 16.0, math.inf)
#: The width of a letter in plots, in pixels: labels are cut to their room.
LETTER = 6.2


def element(tag: str, content: str = "", /, **attributes: float | str) -> str:
    """An element; `content` is markup, attributes are data. `_` in a name stands for `-`, and at its end for nothing."""
    listed = "".join(f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for key, value in attributes.items())
    return f"<{tag}{listed}>{content}</{tag}>"


def text(content: str, /, **attributes: float | str) -> str:
    """A text of a drawing."""
    return element("text", html.escape(content), **attributes)


def title(content: str) -> str:
    """What a browser shows when the pointer rests on the element that it stands in."""
    return element("title", html.escape(content))


def picture(width: float, height: float, caption: str, parts: str) -> str:
    """The whole drawing, in its own size; a reader of the screen hears the caption."""
    box = f"0 0 {width:.0f} {height:.0f}"
    return element("svg", parts, viewBox=box, width=round(width), height=round(height), role="img", aria_label=caption)


def headroom_class(bits: float | None) -> str:
    """`h0` (no bit left) to `h5`; `h6` where there is no headroom, as in integers."""
    if bits is None:
        return "h6"
    if bits <= 0:
        return "h0"
    return f"h{next(place for place, end in enumerate(HEADROOM_ENDS) if bits < end or end == math.inf)}"


def bits_text(bits: float | None) -> str:
    """As the page says it: `1 bit`, `12.3 bits`."""
    if bits is None:
        return ""
    if bits == math.inf:
        return "all bits"
    rounded = 0.0 if bits <= 0 else round(bits) if bits >= 100 else round(bits, 1)
    return "no bits left" if bits <= 0 else count(1, "bit") if rounded == 1 else f"{rounded:g} bits"


def shortened(label: str, room: float) -> str:
    """The end of a label, as far as there is room: names of modules differ there."""
    most = max(int(room / LETTER), 4)
    return label if len(label) <= most else f"\N{HORIZONTAL ELLIPSIS}{label[len(label) - most + 1 :]}"


def _attribute(value: float | str) -> str:
    return html.escape(value) if isinstance(value, str) else f"{value:g}" if isinstance(value, int) else f"{value:.1f}"
