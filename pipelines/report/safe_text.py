"""Texts that anybody may have written, made fit for a terminal: nothing in them moves the cursor or turns the line.

Control characters, marks of writing direction, other invisible characters and halves of surrogate pairs are written
as escapes; all that can be printed stays.
"""

from __future__ import annotations

import json
from typing import Any

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: str, longest: int | None = None) -> str:
    """The text on one line, without anything that a terminal acts on; cut to ``longest`` characters if given."""
    cut = text if longest is None or len(text) <= longest else text[: max(longest - 3, 0)]
    safe = cut if cut.isprintable() else "".join(c if c.isprintable() else _NAMED.get(c) or _escape(c) for c in cut)
    return safe if len(cut) == len(text) else f"{safe}..."


def json_line(document: Any) -> str:
    """JSON on one line with the same meaning as always, in which every such character is an escape of JSON's."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else "".join(c if c.isprintable() else _json_escape(c) for c in text)


def safe_json(text: str) -> str:
    """A text that is JSON on one line already, with such characters escaped; the rest does not change.

    Outside strings, JSON allows only whitespace among such characters.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _in_json(c) for c in text)


def _in_json(character: str) -> str:
    return " " if character in "\t\r\n" else _json_escape(character)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
