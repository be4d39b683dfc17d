"""What a code book says of one column, whatever form it comes in.

>>> entry = Entry.of("AGE", "Age", [("0", "Under 1 year"), ("1", "1 to 99 years"), ("N", "not known")], "1", "99")
>>> entry.type, entry.lower, entry.upper, entry.codes, entry.integer
('number', 0.0, 99.0, (('N', 'not known'),), None)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from equistrata.data.columns.column import Type, Value, number_in, plain_text
from equistrata.data.files.opening import plain_name

Codes = Sequence[tuple[str, str]]  # raw value, words

MOST_DECIMALS = 15  # of a schema
SENTINEL = re.compile(r"-(?:[1-9]|9+|8+|7+)|(?:9{2,}|8{3,}|7{3,})|-?9{2,}\.9+")  # a number that often stands for none
_MISSING = re.compile(r"\.[A-Za-z_]")  # of SAS and Stata
_NO_ANSWER = re.compile(
    r"(?:refus|don.?t know|do not know|not (?:stated|applicable|asked|available|ascertained|in universe|known)|missing"
    r"|unknown|inapplicable|n/?a\b|niu\b|valid skip|no answer|no response)", re.I
)  # fmt: skip
_NONE = re.compile(
    r"(?:none|nobody|nothing|keine?[rs]?|nicht|ninguno|nenhum|aucune?)\b", re.I
)  # is 0, and no other number
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,14})")
_NOTED = re.compile(r"(?<=\d)\s*\(.*\)")  # 90 (90+ in 1980)
_MOST_COUNTED = 20  # values, each with its own number for words, that may be categories
_Said = TypeVar("_Said")


def matched(names: Iterable[str], said: Mapping[str, _Said]) -> dict[str, _Said]:
    """Name → what is said of it, if anything; names may differ in case, and in blanks at their ends.

    >>> matched(["AGE ", "SEX"], {"age": 1, "Job": 2})
    {'AGE ': 1}
    """
    by_name = {plain_name(key): each for key, each in said.items()} | {**said}
    keys = {name: name if name in by_name else plain_name(name) for name in names}
    return {name: by_name[key] for name, key in keys.items() if key in by_name}


def no_answer(raw: str, words: str) -> bool:
    """Whether a code is one of cells without an answer, by itself or by its words.

    >>> no_answer("-9", ""), no_answer(".a", ""), no_answer("9", "Don't know"), no_answer("9", "Other")
    (True, True, True, False)
    """
    return bool(SENTINEL.fullmatch(raw) or _MISSING.fullmatch(raw) or _NO_ANSWER.match(words))


def numbered_in_order(codes: Mapping[object, str]) -> bool:
    """Whether two values or more have the codes 0, 1, 2 … (or 1, 2, 3 …) in the order of their words.

    So do programs number whatever rows hold: `encode` of Stata, AUTORECODE of SPSS, factors of R and categories of
    pandas. Codes of missing cells, as -9, may have been added. Words that begin with their code are none of these, and
    nor are two that anybody has, as no and yes, or female and male.

    >>> jobs, levels = {1: "farmer", 2: "Nurse", 3: "unknown"}, {1: "low", 2: "middle", 3: "high"}
    >>> numbered_in_order(jobs), numbered_in_order(jobs | {98.0: "refused"}), numbered_in_order(levels)
    (True, True, False)
    >>> [numbered_in_order({1: one, 2: two}) for one, two in (("nurse", "pilot"), ("No", "Yes"), ("pilot", "nurse"))]
    [True, False, False]
    >>> numbered_in_order({**jobs, 4: "writer", -9: "refused"}), numbered_in_order({1: "1 a", 2: "2 b", 3: "3 c"})
    (True, False)
    """
    every = {plain_text(raw): words for raw, words in codes.items()}
    without = {raw: words for raw, words in every.items() if not no_answer(raw, words)}
    plain = {raw: words for raw, words in every.items() if not SENTINEL.fullmatch(raw)}
    return _in_order(plain) or _in_order(without)


def _in_order(codes: Mapping[str, str]) -> bool:
    numbers = {number: words for raw, words in codes.items() if (number := number_in(raw)) is not None}
    found, words = sorted(numbers), [numbers[number] for number in sorted(numbers)]
    if len(found) < 2 or {text.strip().casefold() for text in words} in _ANYBODYS:
        return False
    if len(found) < len(codes) or found not in ([*range(len(found))], [*range(1, len(found) + 1)]):
        return False
    if all(text.startswith(f"{int(number)}") for number, text in zip(found, words, strict=True)):
        return False
    return words in (sorted(words), sorted(words, key=str.casefold))


# Pairs of words that no row was needed for, in the order of letters: others may be what rows hold.
_ANYBODYS = [
    {*pair.split("/")}
    for pair in (
        "no/yes", "n/y", "female/male", "f/m", "men/women", "false/true", "rural/urban", "absent/present", "off/on",
        "not selected/selected", "not mentioned/mentioned", "checked/unchecked", "negative/positive",
        "ja/nein", "frau/mann", "männlich/weiblich", "nicht genannt/genannt", "falsch/wahr", "non/oui", "femme/homme",
        "femmes/hommes", "faux/vrai", "no/sí", "no/si", "hombre/mujer", "falso/verdadero", "não/sim", "homem/mulher",
        "feminino/masculino", "femenino/masculino",
    )
]  # fmt: skip
_JOINERS = "\u200c\u200d"  # of letters, as Persian and emoji have them


@dataclass(frozen=True)
class Entry:
    """A column of a code book. Words are one line without control characters, wherever they come from.

    Attributes:
        type: None where the book gives neither values nor bounds.
        codes: of values, all of them in order; of numbers and dates, raw cells that are none. Raw value, words.
        lower, upper: numbers; of dates, ISO texts.
        integer: numbers are whole; None where the book does not say.
        decimals: how many of them numbers have that are not whole, from 1 to MOST_DECIMALS; None where the book does
            not say.
        allows_decimals: the book's word for these numbers (continuous, numeric, F8.2) allows decimals, and does not say
            whether there are some.
        fractions: whether the file's cells have decimals, which settles what the book leaves open; None where they were
            not read.
        implied: the book has no row of it; its program exports such a column with the others.
        layout, also: of dates, and others that some cells are in.
        missing: the book says that cells may be absent.
        absent: it does not, and cells of the file are.
        absence: what the book says of absent cells, as "not in universe"; empty where it has no words.
        remark: what the steward should know of the declaration, or why there is none.
        identifier: the book says that it is one, so it is not released.
        recode: of values, raw cells that mean one of `codes`: raw value, that code's raw value.
        file: what the book says of how a CSV file writes such numbers, as a schema's `file` does.
        respelled: its values are as the file writes them and the book does not: zeros in front, letters, words.
        numbered: its values may be what rows hold, numbered by a program (`numbered_in_order`), and no public list.
    """

    name: str
    label: str = ""
    type: Type | None = None
    codes: tuple[tuple[str, str], ...] = ()
    lower: float | str | None = None
    upper: float | str | None = None
    integer: bool | None = None
    layout: str = ""
    also: tuple[str, ...] = ()
    missing: bool = False
    remark: str = ""
    identifier: bool = False
    recode: tuple[tuple[str, str], ...] = ()
    decimals: int | None = None
    allows_decimals: bool = False
    fractions: bool | None = None
    implied: bool = False
    file: tuple[tuple[str, str], ...] = ()
    absence: str = ""
    absent: bool = False
    numbered: bool = False
    respelled: bool = False

    def __post_init__(self) -> None:
        cleaned = {key: one_line(getattr(self, key)) for key in ("label", "remark")}
        cleaned |= {key: one_line(each) for key in ("lower", "upper") if isinstance(each := getattr(self, key), str)}
        # Raw values are compared with cells, so they keep their blanks; a lone surrogate is in no file.
        codes = tuple((raw.encode(errors="ignore").decode(), one_line(words)) for raw, words in self.codes)
        for key, value in {**cleaned, "codes": codes}.items():
            object.__setattr__(self, key, value)

    @classmethod
    def of(
        cls,
        name: str,
        label: str = "",
        codes: Iterable[tuple[object, object]] = (),
        lower: object = None,
        upper: object = None,
        *,
        whole: bool | None = None,
        ordered: bool = False,
        missing: bool = False,
        absent: Iterable[tuple[object, object]] = (),
        continuous: bool = False,
        decimals: float | None = None,
        allows_decimals: bool = False,
    ) -> Entry:
        """The entry of what a book lists: numbers where both bounds are given, else values, if there are any.

        Bounds beside a list of values within them only repeat it, unless the list has no more than their two ends.

        Args:
            whole: whether numbers are whole; None where the book does not say. Whole bounds do not; others do.
            ordered: whether the book says that the order of its values means something: words are no such saying.
            absent: more codes, which the book says are no value: never numbers.
            continuous: the book says that these are numbers, whatever it lists within their bounds.
            decimals: as the attribute; any number that the book has there, and one out of its range says nothing.
            allows_decimals: as the attribute.
        """
        listed = [*codes]
        values, beside = _pairs(listed), _pairs(absent)
        values = {raw: words for raw, words in values.items() if raw not in beside}
        missing, absence = missing or "" in values or "" in beside, values.get("") or beside.get("") or ""
        pairs = {raw: words for raw, words in (values | beside).items() if raw}
        low, high = (None if each is None else number_in(one_line(each)) for each in (lower, upper))
        if low is None and high is None and (every := _counted(values)):
            (low, high), continuous = every, True
        places = next((count for count in range(1, MOST_DECIMALS + 1) if count == decimals), None)
        name = name.strip()
        if low is not None and high is not None and low < high:
            low, high, conflict = _apart(low, high, pairs, {*beside})
            if conflict:
                return cls(name, label, None, tuple(pairs.items()), missing=missing, remark=conflict, decimals=places)
            numbers = {number: raw for raw in values if (number := number_in(raw)) is not None}
            inside = {number for number in numbers if low <= number <= high}
            ends = inside <= {low, high} and high - low > 1
            if continuous or ends or len(inside) < 2:
                # A single code next to the range ends it: 0 for under 1, 501 for over 500, 5 for 5 and over after 4.99;
                # not 88 for none after 87.
                written = max(_places(lower), _places(upper))
                unit, fractions = 10.0**-written, not (low.is_integer() and high.is_integer())
                steps = ((round(low - unit, MOST_DECIMALS), -1), (round(high + unit, MOST_DECIMALS), 1))
                more = [
                    end for end, step in steps if end in numbers and end + step * unit not in numbers
                    and not _NO_ANSWER.match(pairs[numbers[end]])
                    and not (end and _NONE.match(pairs[numbers[end]])) and not end < 0 <= low
                ]  # fmt: skip
                low, high = min([low, *more]), max([high, *more])
                counted = {raw for raw in values if number_in(raw) in inside | {*more}}
                said = ", ".join(f"{numbers[end]} ({pairs[numbers[end]]})" for end in more if pairs[numbers[end]])
                kept = tuple((raw, words or raw) for raw, words in pairs.items() if raw not in counted)
                remark = f"{said}: a number here, next to the range; if it is none, move it to 'codes'" if said else ""
                whole = whole if whole is not None or not fractions else False
                found = cls(name, label, "number", kept, low, high, whole, missing=missing, remark=remark)
                allows_decimals = (allows_decimals or written > 0) and whole is None
                return replace(found, decimals=places, allows_decimals=allows_decimals)
        # Codes of missing cells alone do not say what the others hold.
        if all(no_answer(raw, words) for raw, words in values.items() if raw):
            alone = "only codes of missing cells, neither other values nor bounds" if pairs else ""
            return cls(name, label, None, tuple(pairs.items()), missing=missing, remark=alone, decimals=places)
        kind: Type = "ordinal" if ordered and len(pairs) > 2 else "nominal"
        words = {(one_line(raw), one_line(text)) for raw, text in listed if one_line(text)}
        twice = [raw for raw in values if sum(each == raw for each, _ in words) > 1]
        remark = f"the book has two meanings of {', '.join(twice)} in {name}; the last is taken" if twice else ""
        absence = "" if absence == "missing" else absence
        return cls(name, label, kind, tuple(pairs.items()), missing=missing, remark=remark, absence=absence)

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole: as the book says, else as the file's cells are, else as the bounds are."""
        settled = self.integer if self.integer is not None or self.fractions is None else not self.fractions
        return not self.allows_decimals if settled is None else settled

    @property
    def values(self) -> list[Value]:
        """The raw values as a schema declares them: numbers if all are whole, else texts."""
        raw = [raw for raw, _ in self.codes]
        return [int(each) for each in raw] if all(map(_WHOLE.fullmatch, raw)) else [*raw]


def _places(end: object) -> int:
    """How many decimals a bound is written with."""
    return len(one_line(end).partition(".")[2])


def _counted(values: Mapping[str, str]) -> tuple[float, float] | None:
    """The ends of a list that has each whole number between them, with itself for words: they are no categories.

    Words may have a remark in parentheses, as 90 (90+ in 1980).
    """
    pairs = ((number_in(raw), number_in(_NOTED.sub("", words))) for raw, words in values.items())
    own = sorted(number for number, said in pairs if number is not None and number == said and number.is_integer())
    every = len(own) > _MOST_COUNTED and own == [*range(int(own[0]), int(own[-1]) + 1)]
    return (own[0], own[-1]) if every else None


def _apart(low: float, high: float, codes: Mapping[str, str], beside: Collection[str]) -> tuple[float, float, str]:
    """Bounds without codes of missing cells at their ends, and why there are none where such a code is between them.

    Of "0-99, 99 = refused" the numbers end at 98. Of "0-120, 99 = refused" a reader cannot say which 99 is an age.
    """
    none = {number: raw for raw, words in codes.items()
            if (number := number_in(raw)) is not None and (raw in beside or _NO_ANSWER.match(words))}  # fmt: skip
    if low.is_integer() and high.is_integer():
        while high in none and high - low > 1:
            high -= 1
        while low in none and high - low > 1:
            low += 1
    within = [raw for number, raw in none.items() if low <= number <= high]
    said = ", ".join(f"{raw} ({codes[raw]})" if codes[raw] else raw for raw in within)
    between = f"of the range {plain_text(low)} to {plain_text(high)}"
    return (
        low,
        high,
        f"{said}: by the book no number, and one {between}; narrow it, or write another code" if said else "",
    )


def _pairs(codes: Iterable[tuple[object, object]]) -> dict[str, str]:
    return {one_line(raw): one_line(words) for raw, words in codes}


def one_line(text: object) -> str:
    """A text on one line, without control characters; whole numbers without a point, and nothing for None.

    >>> one_line("a:\\n# b\\u2028\\x1bc\\x00"), one_line(3.0), one_line(None)
    ('a: # b c', '3', '')
    """
    words = ("".join(filter(_printed, word)) for word in plain_text("" if text is None else text).split())
    return " ".join(filter(None, words))


def _printed(letter: str) -> bool:
    return not unicodedata.category(letter).startswith("C") or letter in _JOINERS
