"""Text without control characters and invisible characters, for terminals, pages and pictures.

A label, a name or a card may be written by an unknown person. An escape sequence in such a text could change the
colours or the content of a terminal. A bidirectional mark could change the order in which the letters are shown.

>>> printable("A\\x1b[31mB\\u202eC")
'A\\\\u001b[31mB\\\\u202eC'
"""

from __future__ import annotations

import re

# The category Cc without tab and newline, line and paragraph separators, marks that change the direction of text,
# characters without width except those that join letters (U+200C, U+200D), and lone surrogates without an encoding.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Replace control characters and invisible characters by JSON escapes (`\\u202e`).

    A JSON document remains the same document.
    """
    return _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
