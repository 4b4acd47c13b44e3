# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Documents read into structures of msgspec; an error names document, path, value and remedy. Pure.

msgspec checks types, bounds, words and keys. Its errors have a path alone: what was given is looked
up in the document, and what was expected in the structure.
"""

import difflib
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import Meta, inspect

from backends.api.errors import InvalidArgumentError

T = TypeVar("T")

# The bound of numbers that have none of their own: infinity is no value of a setting.
FINITE: Final = sys.float_info.max
Text = Annotated[str, Meta(min_length=1, max_length=1024)]
# A single text stands for a list of it.
Texts = Text | Annotated[tuple[Text, ...], Meta(min_length=1)]

_SHOWN_CHARACTERS: Final = 60
# The last of them: a key or a value in the error may have the form, too.
_PATH: Final = re.compile(r"(.*) - at (`key` in )?`\$(.*)`", re.DOTALL)
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_UNKNOWN: Final = "Object contains unknown field `{}`"
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_LISTS: Final = (inspect.ListType, inspect.VarTupleType, inspect.FrozenSetType)
_MAPPINGS: Final = (inspect.StructType, inspect.DictType)
_TYPE_NAMES: Final = {
    "dict": "a mapping",
    "list": "a list",
    "NoneType": "nothing",
    "bytes": "binary data",
}


class SectionError(ValueError):
    """What a structure finds wrong when msgspec has found nothing.

    Args:
        problem: What is wrong; where the value is shown, what was expected.
        remedy: What to do about it.
        field: Path from the structure; empty for itself.
        shows_value: Whether the error says what was given; never of secrets.
    """

    def __init__(
        self, problem: str, remedy: str = "", field: str = "", *, shows_value: bool = False
    ) -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy
        self.field, self.shows_value = field, shows_value

    def about(self, part: "Part") -> InvalidArgumentError:
        """Return the error, of the part that the structure was read from."""
        part = part.at(self.field)
        told = part.wrong if self.shows_value else part.error
        return told(self.problem, self.remedy)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping with certain keys. Its texts are printable, those of `any_texts` excepted."""

    any_texts: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            for path, text in texts_in(name, getattr(self, name)):
                if not text.isprintable() and name not in self.any_texts:
                    raise SectionError(
                        "a text of printable characters", field=path, shows_value=True
                    )
        self.check()

    def check(self) -> None:
        """Raise `SectionError` where fields do not fit each other."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value in a document.

    Attributes:
        value: As YAML or JSON has it.
        path: Where it stands, for example ``grants[0].roles``; empty for the whole document.
        document: What errors call the document.
        refusal: Their type.
    """

    value: object
    path: str
    document: str
    refusal: type[InvalidArgumentError] = InvalidArgumentError

    def error(self, problem: str, remedy: str = "") -> InvalidArgumentError:
        """Return the error that something is wrong here."""
        where = f"{self.path}: " if self.path else ""
        more = f"; {remedy}" if remedy else ""
        return self.refusal(f"{self.document}: {where}{problem}{more}")

    def wrong(self, expected: str, remedy: str = "") -> InvalidArgumentError:
        """Return the error that something else was expected here."""
        return self.error(f"got {shown(self.value)}, expected {expected}", remedy)

    def at(self, path: str) -> "Part":
        """Return the part at a path from here, which must be there but for its last key."""
        part = self
        for key, index in _STEP.findall(path):
            inner: Any = part.value
            value = inner[int(index)] if index else inner.get(key) if inner else None
            where = f"[{index}]" if index else f".{key}" if part.path else key
            part = replace(part, value=value, path=part.path + where)
        return part

    def unknown(self, what: str, words: Collection[str]) -> InvalidArgumentError:
        """Return the error that what stands here is none of some words."""
        hint = suggestion(self.value, words) if isinstance(self.value, str) else ""
        return self.error(
            f"unknown {what} {shown(self.value)}, expected {' or '.join(words)}", hint
        )

    def parts(self) -> dict[str, "Part"]:
        """Return what is in a mapping whose keys are any texts."""
        if not isinstance(self.value, dict):
            raise self.wrong("a mapping")
        found = {}
        for key, value in self.value.items():
            if not isinstance(key, str) or not key:
                raise self.error(f"key {shown(key)} is not a text", "put it in quotes")
            path = f"{self.path}.{shown_text(key)}" if self.path else shown_text(key)
            found[key] = replace(self, value=value, path=path)
        return found

    def read(self, kind: type[T]) -> T:
        """Return what stands here.

        Args:
            kind: A `Section` mostly, or any type that msgspec knows. Of another one, such as a
                field's, ``read`` is called with the value, and raises ValueError where that is not
                what its ``expected`` says.

        Raises:
            InvalidArgumentError: Something else stands here, or more than that; of type `refusal`.
        """
        try:
            return msgspec.convert(self.value, kind, dec_hook=lambda of, value: of.read(value))
        except RecursionError:
            raise self.error("it is nested too deeply") from None
        except msgspec.ValidationError as error:
            raise self._explained(str(error), error.__cause__, kind) from None

    def _explained(self, text: str, cause: object, kind: Any) -> InvalidArgumentError:
        problem, is_key, path = self._parsed(text, cause)
        part, expected = self, inspect.type_info(kind)
        for name, index in _STEP.findall(path):
            expected = _inner(expected, part.value, name)
            part = part.at(name or f"[{index}]")
        if isinstance(cause, SectionError):
            return cause.about(part)
        keys = list(part.value) if isinstance(part.value, dict) else []
        if is_key:
            wrong = next(each for each in keys if not isinstance(each, str))
            return part.error(f"key {shown(wrong)} is not a text", "put it in quotes")
        if missing := _MISSING.fullmatch(problem):
            remedy = _note(_inner(expected, part.value, missing[1]), "if_missing")
            return part.error(f"'{missing[1]}' is missing", remedy)
        unknown = [each for each in keys if problem == _UNKNOWN.format(each)]
        return _unknown(part, expected, unknown[0]) if unknown else _unexpected(part, expected)

    def _parsed(self, text: str, cause: object) -> tuple[str, bool, str]:
        """Return what msgspec says, whether it is about a key, and where it is."""
        keys = self.value if isinstance(self.value, dict) else {}
        about_all = (
            [cause.problem] if isinstance(cause, SectionError) else map(_UNKNOWN.format, keys)
        )
        found = None if text in about_all else _PATH.fullmatch(text)
        return (found[1], bool(found[2]), found[3]) if found else (text, False, "")


def texts_in(path: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a field, of `Texts` too, with the path of each."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, tuple | frozenset):
        for at, each in enumerate(value):
            if isinstance(each, str):
                yield f"{path}[{at}]", each


def _unknown(part: Part, expected: Any, name: str) -> InvalidArgumentError:
    struct = next(each for each in _members(expected, part.value) if hasattr(each, "fields"))
    known = [struct.tag_field] if struct.tag_field else []
    known += [field.encode_name for field in struct.fields]
    path = f"{part.path}.{shown_text(name)}" if part.path else shown_text(name)
    return replace(part, path=path).error(
        f"unknown key '{shown_text(name)}', expected one of {', '.join(known)}",
        suggestion(name, known) or "remove it",
    )


def _unexpected(part: Part, expected: Any) -> InvalidArgumentError:
    members = [each for each in _members(expected, part.value) if _is_alike(each, part.value)]
    members = members or _members(expected, part.value)
    if words := [word for each in members for word in _words(each)]:
        return part.unknown(_note(expected, "title") or "word", words)
    texts = [_described(each) for each in members]
    what = _note(expected, "description") or " or ".join(dict.fromkeys(texts))
    remedy = _note(expected, "if_wrong")
    if what.startswith("a text") and isinstance(part.value, int | float | date):
        remedy = "" if isinstance(part.value, bool) else "put it in quotes"
    elif what.startswith("a list") and not isinstance(part.value, list):
        remedy = "make it a list"
    if isinstance(part.value, list) and what.startswith("a list of"):
        return part.error(f"got {len(part.value)} entries, expected {what}", remedy)
    return part.wrong(what, remedy)


def _note(kind: Any, name: str) -> str:
    """Return what `msgspec.Meta` says of a type beside its bounds."""
    if isinstance(kind, inspect.UnionType):
        return next(filter(None, (_note(each, name) for each in kind.types)), "")
    if isinstance(kind, _LISTS):
        return _note(kind.item_type, name)
    if not isinstance(kind, inspect.Metadata):
        return ""
    notes = (kind.extra_json_schema or {}) | (kind.extra or {})
    return notes.get(name) or _note(kind.type, name)


def _members(kind: Any, value: object) -> list[Any]:
    """Return what a type is made of: of a union those that a value may be meant as."""
    if isinstance(kind, inspect.Metadata):
        return _members(kind.type, value)
    if not isinstance(kind, inspect.UnionType):
        return [kind]
    found = [member for each in kind.types for member in _members(each, value)]
    given = value if isinstance(value, dict) else {}
    fields = [getattr(each, "tag_field", None) for each in found]
    return [
        each
        for each, field in zip(found, fields, strict=True)
        if field and given.get(field) == each.tag
    ] or found


def _inner(kind: Any, value: object, name: str) -> Any:
    """Return the type of a field, or of a list's entries where the name is empty."""
    for each in _members(kind, value):
        if not name and hasattr(each, "item_type"):
            return each.item_type
        for field in each.fields if name and hasattr(each, "fields") else ():
            if field.encode_name == name:
                return field.type
        if name and name == getattr(each, "tag_field", None):
            tags = [member.tag for member in _members(kind, None)]
            return inspect.Metadata(inspect.LiteralType(tuple(tags)), {"title": name})
    return kind


def _is_alike(kind: Any, value: object) -> bool:
    """Whether a value is of a type, its bounds aside."""
    if isinstance(value, list | tuple):
        return isinstance(kind, _LISTS)
    if isinstance(value, dict):
        return isinstance(kind, _MAPPINGS)
    return isinstance(value, str) and isinstance(kind, inspect.StrType | inspect.LiteralType)


def _words(kind: Any) -> list[str]:
    if isinstance(kind, inspect.EnumType):
        return [each.value for each in kind.cls]
    return [str(each) for each in kind.values] if isinstance(kind, inspect.LiteralType) else []


def _described(kind: Any) -> str:
    """Return what a type takes, in words."""
    if isinstance(kind, inspect.CustomType):
        return str(getattr(kind.cls, "expected", kind.cls.__name__))
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.IntType):
        return f"a whole number{_bounds(kind)}"
    if isinstance(kind, inspect.FloatType):
        return f"a number{_bounds(kind)}"
    if isinstance(kind, inspect.StrType):
        return f"a text{_lengths(kind, 'printable characters')}"
    if isinstance(kind, _LISTS):
        return f"a list{_lengths(kind, 'entries')}"
    return "a mapping" if isinstance(kind, _MAPPINGS) else "nothing"


def _bounds(kind: Any) -> str:
    if kind.gt is not None:
        upper = f" and at most {kind.le:g}" if kind.le is not None and kind.le < FINITE else ""
        return f" above {kind.gt:g}{upper}"
    if kind.ge is None:
        return ""
    if kind.le is None or kind.le >= FINITE:
        return f" of at least {_number(kind.ge)}"
    return f" from {_number(kind.ge)} to {_number(kind.le)}"


def _number(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def _lengths(kind: Any, what: str) -> str:
    if kind.max_length is not None:
        return f" of {kind.min_length or 0} to {kind.max_length} {what}"
    return " of at least one entry" if kind.min_length else ""


def several(texts: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts of `Texts`."""
    return (texts,) if isinstance(texts, str) else texts


def without_nulls(value: Any) -> Any:
    """Return a JSON value without fields that are null, which is the same as without them."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def shown(value: object) -> str:
    """Describe a value in an error: short, on one line, and nothing of what is inside it."""
    kind = type(value).__name__
    if kind in _TYPE_NAMES:
        return _TYPE_NAMES[kind]
    if isinstance(value, str):
        return f"'{shown_text(value)}'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | date):
        return str(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else "a huge number"
    return f"a {kind}"


def shown_text(text: str) -> str:
    """Shorten a text, and escape what is not printable."""
    short = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)


def suggestion(word: str, words: Collection[str]) -> str:
    """Ask whether a similar word was meant; empty if there is none."""
    close = difflib.get_close_matches(word[:_SHOWN_CHARACTERS], list(words), 1)
    return f"did you mean '{close[0]}'?" if close else ""
