"""Names that are not compared with their library on random cases, each with the reason."""

from __future__ import annotations

#: name: reason
EXEMPT: dict[str, str] = {}
