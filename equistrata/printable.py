"""Text that a terminal, a page or a picture shows as it is: no control characters, and none that are not seen.

A label, a name or a card may come from a stranger. An escape sequence in it would recolour or rewrite a terminal, and a
bidirectional mark would show its letters in another order than they are in.

>>> printable("A\\x1b[31mB\\u202eC")
'A\\\\u001b[31mB\\\\u202eC'
"""

from __future__ import annotations

import re

# Category Cc but tab and newline; line and paragraph separators; marks that turn the direction of letters; characters
# of no width, but those that join letters in words (U+200C, U+200D); lone surrogates, which have no encoding.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """The text with such characters as JSON writes them (`\\u202e`), so JSON stays the same document."""
    return _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
