"""Label selectors and node selectors: records, matching and parsing.

An absent label selector is None and matches nothing; an empty one matches everything. In a node selector an empty term
matches no node. Values are sorted and without duplicates, and so are the requirements of a label selector. So two
selectors with the same meaning are equal and may share cached results.

The API server validates keys and values of labels: an ill-formed one is not rejected here. Neither is a Gt or Lt whose
value is no integer or has a sign: it matches no label.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .fields import (
    MAX_INT64,
    Body,
    FieldError,
    describe,
    read_choice,
    read_integer,
    read_items,
    read_list,
    read_object,
    read_optional,
    read_required_text,
    read_text_map,
    read_texts,
)

LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS = (*LABEL_OPERATORS, "Gt", "Lt")
NODE_NAME_FIELD = "metadata.name"
_MANY_VALUES = 16


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the value of a key. Gt and Lt compare integers, and occur in node selectors only."""

    key: str
    operator: str
    values: tuple[str, ...]
    _named: Collection[str] = field(init=False, repr=False, compare=False)  # the values; a set if there are many

    def __post_init__(self) -> None:
        object.__setattr__(self, "_named", self.values if len(self.values) < _MANY_VALUES else frozenset(self.values))

    @property
    def bound(self) -> int | None:
        """The operand of Gt and Lt: an integer without a sign, as in a label; None for anything else."""
        return None if self.values[0][:1] in ("+", "-") else parse_int64(self.values[0])

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self._named
            case "NotIn":
                return value not in self._named
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        number, bound = parse_int64(value), self.bound
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all match; an empty selector matches everything."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        for requirement in self.requirements:  # noqa: SIM110 - hot path: a generator takes twice as long
            if not requirement.matches(labels):
                return False
        return True


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Requirements on a node's labels and, as fields, on its name; an empty term matches no node."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.expressions and not self.fields:
            return False
        own = {NODE_NAME_FIELD: name}
        return all(r.matches(labels) for r in self.expressions) and all(r.matches(own) for r in self.fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms of which one must match; without terms no node matches."""

    terms: tuple[NodeSelectorTerm, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return any(term.matches(name, labels) for term in self.terms)


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A term that adds its weight (1..100) to the score of the nodes that it matches."""

    weight: int
    term: NodeSelectorTerm


EVERYTHING = LabelSelector(())


def parse_int64(text: str) -> int | None:
    """An integer as Go reads one: sign and ASCII digits, within 64 bits; None for anything else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 100:
        return None
    number = int(text)
    return number if -MAX_INT64 - 1 <= number <= MAX_INT64 else None


def make_label_selector(requirements: Sequence[Requirement]) -> LabelSelector:
    """A selector with its requirements in canonical order."""
    if not requirements:
        return EVERYTHING
    return LabelSelector(tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, r.values))))


def selector_from_labels(labels: Mapping[str, str]) -> LabelSelector:
    """A selector that requires all of these labels with these values."""
    return make_label_selector([Requirement(key, "In", (value,)) for key, value in labels.items()])


def read_label_selector(owner: Body, name: str) -> LabelSelector | None:
    """The field of this name as a selector, or None."""
    return read_optional(owner, name, build_label_selector)


def build_label_selector(body: Body) -> LabelSelector:
    """matchLabels and matchExpressions together."""
    requirements = [Requirement(key, "In", (value,)) for key, value in read_text_map(body, "matchLabels").items()]
    requirements.extend(read_list(body, "matchExpressions", _label_requirement))
    return make_label_selector(requirements)


def build_node_selector(body: Body) -> NodeSelector:
    """A NodeSelector, as in required node affinity and in volumes."""
    return NodeSelector(read_list(body, "nodeSelectorTerms", build_node_selector_term))


def build_node_selector_term(body: Body) -> NodeSelectorTerm:
    """matchExpressions and matchFields together."""
    return NodeSelectorTerm(
        read_list(body, "matchExpressions", _node_requirement), read_list(body, "matchFields", _field_requirement)
    )


def build_preferred_term(body: Body) -> PreferredTerm:
    """One entry of preferred node affinity."""
    weight, preference = read_integer(body, "weight", 1, 100), read_object(body, "preference")
    try:
        return PreferredTerm(weight, build_node_selector_term(preference))
    except FieldError as error:
        raise error.within("preference") from None


def build_topology_term(body: Body) -> NodeSelectorTerm:
    """One entry of a storage class's allowedTopologies: keys with their allowed values."""
    return NodeSelectorTerm(read_list(body, "matchLabelExpressions", _topology_requirement))


def _label_requirement(body: Body) -> Requirement:
    return _requirement(body, LABEL_OPERATORS)


def _node_requirement(body: Body) -> Requirement:
    return _requirement(body, NODE_OPERATORS)


def _field_requirement(body: Body) -> Requirement:
    requirement = _requirement(body, ("In", "NotIn"))
    if requirement.key != NODE_NAME_FIELD:
        raise FieldError(
            "key", f"{describe(requirement.key)} is not {NODE_NAME_FIELD}, the only field that can be asked for"
        )
    if len(read_items(body, "values")) != 1:
        raise FieldError("values", "must be exactly one value")
    return requirement


def _topology_requirement(body: Body) -> Requirement:
    return Requirement(read_required_text(body, "key"), "In", _values(body, "In"))


def _requirement(body: Body, operators: Sequence[str]) -> Requirement:
    operator = read_choice(body, "operator", operators)
    return Requirement(read_required_text(body, "key"), operator, _values(body, operator))


def _values(body: Body, operator: str) -> tuple[str, ...]:
    values = read_texts(body, "values")
    if operator in ("In", "NotIn"):
        if not values:
            raise FieldError("values", f"must not be empty with {operator}")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            raise FieldError("values", f"must be empty with {operator}")
    elif len(values) != 1:
        raise FieldError("values", f"must be exactly one value with {operator}")
    return tuple(sorted(set(values))) if len(values) > 1 else values
