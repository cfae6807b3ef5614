"""Regular expressions of RE2's syntax: whether a whole text matches, in time linear in its length.

Syntax: github.com/google/re2/wiki/Syntax. Matching: all paths through the automaton at once (Thompson 1968).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from graphwright.records import dataclass, field

MAX_REPEAT = 1000
"""The largest count of a repetition, as in RE2."""
MAX_DEPTH = 100
"""Groups in groups."""
MAX_STATES = 20_000
"""Repetitions of repetitions grow without end."""

Ranges = tuple[tuple[int, int], ...]
_LAST = 0x10FFFF
_WORD = "0-9A-Za-z_"


class SyntaxFault(ValueError):
    """A pattern is not one of RE2's, or not supported; the message says why."""


def _ranges(text: str) -> Ranges:
    """``"0-9_"`` as ranges of code points."""
    found = re.findall(r"(.)-(.)|(.)", text, re.DOTALL)
    return tuple((ord(low or one), ord(high or one)) for low, high, one in found)


_PERL = {"d": _ranges("0-9"), "s": _ranges("\t\n\f\r "), "w": _ranges(_WORD)}
_POSIX = {
    name: _ranges(text)
    for name, text in {
        "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\x00-\x7f", "blank": "\t ",
        "cntrl": "\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
        "punct": "!-/:-@[-`{-~", "space": "\t-\r ", "upper": "A-Z", "word": _WORD, "xdigit": "0-9A-Fa-f",
    }.items()
}  # fmt: skip
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CATEGORIES = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_WORD_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_")


@dataclass(frozen=True)
class Category:
    """Characters of a Unicode general category, or all others."""

    name: str
    negated: bool

    def holds(self, character: str) -> bool:
        """Whether ``character`` is of it; one that Unicode has not assigned is of none."""
        own = unicodedata.category(character)
        return (own != "Cn" and own.startswith(self.name)) != self.negated


@dataclass(frozen=True)
class Characters:
    """A set of characters; with ``fold`` those that differ from them in case as well."""

    ranges: Ranges
    parts: tuple[Category | Characters, ...] = ()
    negated: bool = False
    fold: bool = False

    def holds(self, character: str) -> bool:
        """Whether ``character`` is in the set."""
        variants = _cases(character) if self.fold else (character,)
        return any(map(self._lists, variants)) != self.negated

    def _lists(self, character: str) -> bool:
        point = ord(character)
        return any(low <= point <= high for low, high in self.ranges) or any(
            part.holds(character) for part in self.parts
        )


@lru_cache(maxsize=4096)
def _cases(character: str) -> tuple[str, ...]:
    """``character`` and what differs from it in case alone."""
    lower, upper = character.lower(), character.upper()
    variants = (character, lower, upper, upper.lower(), lower.upper())
    return tuple(dict.fromkeys(v for v in variants if len(v) == 1))


@dataclass(frozen=True)
class Edge:
    """A place between characters: ``^ $`` of the text or of a line, and ``b B`` of words."""

    kind: str

    def holds(self, before: str, after: str) -> bool:
        """Whether it lies between two characters; "" is an end of the text."""
        match self.kind:
            case "text start":
                return not before
            case "text end":
                return not after
            case "line start":
                return before in ("", "\n")
            case "line end":
                return after in ("", "\n")
        at_word = (before in _WORD_CHARACTERS) != (after in _WORD_CHARACTERS)
        return at_word == (self.kind == "word")


@dataclass(frozen=True)
class Chain:
    """One part after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """Any of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """``part`` at least ``low`` times, at most ``high`` (None: without end)."""

    part: Node
    low: int
    high: int | None


Node = Characters | Edge | Chain | Choice | Repeat


@dataclass
class _Parser:
    text: str
    at: int = 0
    flags: frozenset[str] = frozenset()
    depth: int = 0
    names: set[str] = field(default_factory=set)

    def whole(self) -> Node:
        node = self._choice()
        if self.at < len(self.text):
            raise SyntaxFault("an unexpected )")
        return node

    def _peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def _skip(self, expected: str) -> bool:
        found = self.text.startswith(expected, self.at)
        self.at += len(expected) if found else 0
        return found

    def _take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern, re.DOTALL | re.ASCII).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def _choice(self) -> Node:
        parts = [self._chain()]
        while self._skip("|"):
            parts.append(self._chain())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _chain(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            quoted = self._take(r"\\Q(.*?)(\\E|\Z)")
            if quoted:
                parts += map(self._literal, quoted[1])
                if not quoted[1]:
                    continue
            else:
                parts.append(self._atom())
            parts[-1] = self._repeated(parts[-1])
        return Chain(tuple(parts))

    def _repeated(self, node: Node) -> Node:
        found = self._take(r"([*+?])\??|\{(\d{1,9})(?:(,)(\d{1,9})?)?\}\??")
        if not found:
            return node
        if self._peek() in ("*", "+", "?") or self._ahead(r"\{\d+(,\d*)?\}"):
            raise SyntaxFault(f"a repetition of the repetition {found[0]}")
        if found[1]:
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[1]]
            return Repeat(node, low, high)
        low = int(found[2])
        last = int(found[4]) if found[4] else None if found[3] else low
        if max(low, last or 0) > MAX_REPEAT or (last is not None and last < low):
            raise SyntaxFault(f"{found[0]} counts to at most {MAX_REPEAT}, and upwards")
        return Repeat(node, low, last)

    def _ahead(self, pattern: str) -> bool:
        return re.compile(pattern).match(self.text, self.at) is not None

    def _literal(self, character: str) -> Characters:
        if "i" not in self.flags:
            return Characters(_points(character))
        return Characters(tuple((ord(c), ord(c)) for c in _cases(character)), fold=True)

    def _atom(self) -> Node:
        character = self._peek()
        if character == "\\":
            return self._escape()
        if character == "[":
            return self._class()
        if character in ("*", "+", "?"):
            raise SyntaxFault(f"{character} repeats nothing")
        self.at += 1
        match character:
            case "(":
                return self._group()
            case ".":
                return Characters(() if "s" in self.flags else _points("\n"), negated=True)
            case "^":
                return Edge("line start" if "m" in self.flags else "text start")
            case "$":
                return Edge("line end" if "m" in self.flags else "text end")
        return self._literal(character)

    def _group(self) -> Node:
        outer = self.flags
        if self._skip("?"):
            named, flags = self._take(r"P?<(\w+)>"), None
            if not named:
                flags = self._take(r"([imsU]*)(-[imsU]+)?([:)])")
            if flags:
                self.flags = (outer | set(flags[1])) - set(flags[2] or "")
                if flags[3] == ")":
                    return Chain(())
            elif not named:
                raise SyntaxFault(f"(?{self._peek(2)} is not a group of RE2")
            elif named[1] in self.names:
                raise SyntaxFault(f"two groups are called {named[1]}")
            else:
                self.names.add(named[1])
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise SyntaxFault(f"groups lie in groups more than {MAX_DEPTH} times")
        node = self._choice()
        if not self._skip(")"):
            raise SyntaxFault("a ) is missing")
        self.depth, self.flags = self.depth - 1, outer
        return node

    def _escape(self) -> Node:
        kinds = {"A": "text start", "z": "text end", "b": "word", "B": "no word"}
        kind = kinds.get(self._peek(2)[1:])
        if kind:
            self.at += 2
            return Edge(kind)
        return self._shorthand() or self._literal(self._escaped())

    def _shorthand(self) -> Characters | None:
        r"""``\d``, ``\pL`` and their like; None if there is none here."""
        found = self._take(r"\\(?:([dswDSW])|([pP])(?:\{(\^?)(\w*)\}|(\w)))")
        if not found:
            return None
        if found[1]:
            return Characters(_PERL[found[1].lower()], negated=found[1].isupper(), fold="i" in self.flags)
        name = found[4] or found[5] or ""
        negated = (found[2] == "P") != bool(found[3])
        if name == "Any":
            return Characters((), negated=not negated)
        if name not in {major + minor for major, minors in _CATEGORIES.items() for minor in ("", *minors)}:
            raise SyntaxFault(
                f"\\p{{{name}}}: general categories such as L and Nd are known, scripts are not"
            )
        return Characters((), (Category(name, negated),), fold="i" in self.flags)

    def _escaped(self) -> str:
        """The one character that an escape stands for."""
        found = self._take(r"\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,8})\}|(0[0-7]{0,2}|[1-7][0-7]{1,2}))")
        if found:
            point = int(found[3], 8) if found[3] else int(found[1] or found[2], 16)
            if point > _LAST:
                raise SyntaxFault(f"{found[0]} is beyond Unicode")
            return chr(point)
        found = self._take(r"\\([afnrtv]|[^0-9A-Za-z\x80-\U0010ffff])")
        if not found:
            raise SyntaxFault(f"{self._peek(2)} is not an escape of RE2")
        return _CONTROLS.get(found[1], found[1])

    def _class(self) -> Characters:
        self._skip("[")
        negated = self._skip("^")
        ranges: list[tuple[int, int]] = []
        parts: list[Category | Characters] = []
        first = True
        while first or self._peek() != "]":
            if not self._peek():
                raise SyntaxFault("a ] is missing")
            first = False
            posix = self._take(r"\[:(\^?)(\w+):\]")
            if posix and posix[2] not in _POSIX:
                raise SyntaxFault(f"{posix[0]} is not a character class")
            if posix:
                parts.append(Characters(_POSIX[posix[2]], negated=bool(posix[1]), fold="i" in self.flags))
                continue
            shorthand = self._shorthand()
            if shorthand:
                parts.append(shorthand)
                continue
            low = self._member()
            high = self._member() if self._take(r"-(?!\])") else low
            if high < low:
                raise SyntaxFault(f"the range {low}-{high} goes down")
            ranges.append((ord(low), ord(high)))
        self.at += 1
        if "i" in self.flags:
            ranges += [(ord(v), ord(v)) for low, high in ranges if low == high for v in _cases(chr(low))]
        return Characters(tuple(ranges), tuple(parts), negated, "i" in self.flags)

    def _member(self) -> str:
        if self._peek() == "\\":
            return self._escaped()
        if not self._peek():
            raise SyntaxFault("a ] is missing")
        self.at += 1
        return self.text[self.at - 1]


def _points(characters: str) -> Ranges:
    return tuple((ord(c), ord(c)) for c in characters)


@dataclass
class _Automaton:
    """States: characters or an edge with one successor, or a fork, with any number of them."""

    labels: list[Characters | Edge | None] = field(default_factory=lambda: [None])
    after: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    """State 0 is the end."""

    def add(self, label: Characters | Edge | None, *after: int) -> int:
        if len(self.labels) >= MAX_STATES:
            raise SyntaxFault(f"more than {MAX_STATES} states are needed")
        self.labels.append(label)
        self.after.append(after)
        return len(self.labels) - 1

    def grow(self, node: Node, target: int) -> int:
        """The state from which ``node`` leads to ``target``."""
        match node:
            case Chain(parts):
                for part in reversed(parts):
                    target = self.grow(part, target)
                return target
            case Choice(parts):
                return self.add(None, *(self.grow(part, target) for part in parts))
            case Repeat(part, low, high):
                return self._repeated(part, low, high, target)
        return self.add(node, target)

    def _repeated(self, part: Node, low: int, high: int | None, target: int) -> int:
        if high is None:
            fork = self.add(None)
            self.after[fork] = (self.grow(part, fork), target)
            target = fork
        else:
            end = target
            for _ in range(high - low):
                target = self.add(None, self.grow(part, target), end)
        for _ in range(low):
            start = self.grow(part, target)
            if start == target:  # nothing, however often: it must not cost time either
                break
            target = start
        return target

    def reached(self, states: set[int], before: str, after: str) -> set[int]:
        """All states that ``states`` lead to between two characters."""
        seen, pending = set(states), list(states)
        while pending:
            state = pending.pop()
            label = self.labels[state]
            if isinstance(label, Characters) or (label is not None and not label.holds(before, after)):
                continue
            fresh = set(self.after[state]) - seen
            seen |= fresh
            pending += fresh
        return seen

    def matches(self, start: int, text: str) -> bool:
        states, before = {start}, ""
        for character in text:
            reached = self.reached(states, before, character)
            states, before = {n for s in reached for n in self._behind(s, character)}, character
            if not states:
                return False
        return 0 in self.reached(states, before, "")

    def longest(self, start: int, text: str, place: int) -> int:
        """Where the longest match that begins at ``place`` ends; ``place`` where none does."""
        states, end = {start}, place
        for here in range(place, len(text) + 1):
            before, after = text[here - 1 : here], text[here : here + 1]
            reached = self.reached(states, before, after)
            end = here if 0 in reached else end
            states = {n for s in reached for n in self._behind(s, after)} if after else set()
            if not states:
                break
        return end

    def _behind(self, state: int, character: str) -> Iterator[int]:
        label = self.labels[state]
        if isinstance(label, Characters) and label.holds(character):
            yield from self.after[state]


@lru_cache(maxsize=256)
def full_match(pattern: str) -> Callable[[str], bool]:
    """A function that tells whether ``pattern`` matches a whole text; SyntaxFault if it is none."""
    automaton = _Automaton()
    start = automaton.grow(_Parser(pattern).whole(), 0)
    return lambda text: automaton.matches(start, text)


@lru_cache(maxsize=256)
def finder(pattern: str) -> Callable[[str], list[tuple[int, int]]]:
    """A function that gives the places of all matches in a text, from the left, each as long as can be and
    none empty; SyntaxFault if ``pattern`` is none. Its time is the text's length times that of what is tried.
    """
    automaton = _Automaton()
    start = automaton.grow(_Parser(pattern).whole(), 0)

    def found(text: str) -> list[tuple[int, int]]:
        places, here = [], 0
        while here < len(text):
            end = automaton.longest(start, text, here)
            if end > here:
                places.append((here, end))
            here = max(end, here + 1)
        return places

    return found
