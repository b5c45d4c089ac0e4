"""The types of fields that a SchedulingPolicy has, each with its OpenAPI schema.

`spec_fields` and `status_fields` are tables of these. Readers of manifests take names and bounds from the tables, `crd`
makes the CustomResourceDefinition from them, and `page` their documentation.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CelRule:
    """A rule in CEL that the API server enforces; `field_path` is the field that it blames, "" for the value itself."""

    rule: str
    message: str
    field_path: str = ""

    def schema(self) -> Schema:
        return {"rule": self.rule, **_given(fieldPath=self.field_path), "message": self.message}


@dataclass(frozen=True, slots=True)
class PolicyField:
    """What all fields have. `default` is what the API server fills in; None: nothing."""

    description: str
    _: KW_ONLY
    rules: tuple[CelRule, ...] = ()
    default: object = None

    type: ClassVar[str] = "object"

    def schema(self) -> Schema:
        """Returns the OpenAPI schema."""
        return {
            **_given(description=self.description),
            "type": self.type,
            **self.constraints(),
            **({} if self.default is None else {"default": self.default}),
            **_given(**{"x-kubernetes-validations": [rule.schema() for rule in self.rules]}),
            **self.inner(),
        }

    def constraints(self) -> Schema:
        """Returns the keywords that bound a value."""
        return {}

    def inner(self) -> Schema:
        """Returns the keywords with schemas of their own."""
        return {}

    def wording(self) -> str:
        """Returns the type and its bounds, for the documentation."""
        return "object"


@dataclass(frozen=True, slots=True)
class TextField(PolicyField):
    """A string; `format` as in OpenAPI. Without a pattern and a least length it may be empty."""

    _: KW_ONLY
    min_length: int = 0
    max_length: int = 0  # 0: as long as it likes
    pattern: str = ""
    format: str = ""

    type: ClassVar[str] = "string"

    def constraints(self) -> Schema:
        return _given(format=self.format, minLength=self.min_length, maxLength=self.max_length, pattern=self.pattern)

    def wording(self) -> str:
        if self.format:
            return self.format
        return f"text, at most {self.max_length:,} characters" if self.max_length else "text"


@dataclass(frozen=True, slots=True)
class ChoiceField(PolicyField):
    """One of a few values."""

    _: KW_ONLY
    values: tuple[str, ...]

    type: ClassVar[str] = "string"

    def constraints(self) -> Schema:
        return {"enum": [str(value) for value in self.values]}

    def wording(self) -> str:
        return ", ".join(f"`{value}`" for value in self.values)


@dataclass(frozen=True, slots=True)
class IntegerField(PolicyField):
    """A whole number; `maximum` None: as large as the format allows."""

    _: KW_ONLY
    minimum: int
    maximum: int | None = None
    format: str = "int64"

    type: ClassVar[str] = "integer"

    def constraints(self) -> Schema:
        most = {} if self.maximum is None else {"maximum": self.maximum}
        return {"format": self.format, "minimum": self.minimum, **most}

    def wording(self) -> str:
        return f"integer from {self.minimum}" + ("" if self.maximum is None else f" to {self.maximum}")


@dataclass(frozen=True, slots=True)
class NumberField(PolicyField):
    """A number; `above`: the minimum itself is not allowed."""

    _: KW_ONLY
    minimum: float
    maximum: float
    above: bool = False

    type: ClassVar[str] = "number"

    def constraints(self) -> Schema:
        return {"minimum": self.minimum, **_given(exclusiveMinimum=self.above), "maximum": self.maximum}

    def wording(self) -> str:
        return f"number {'above' if self.above else 'from'} {self.minimum:g} to {self.maximum:g}"


@dataclass(frozen=True, slots=True)
class FlagField(PolicyField):
    """True or false."""

    type: ClassVar[str] = "boolean"

    def wording(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class ListField(PolicyField):
    """A list; with `keys` its items are told apart by these fields, without it is replaced as one."""

    _: KW_ONLY
    items: PolicyField
    max_items: int
    keys: tuple[str, ...] = ()

    type: ClassVar[str] = "array"

    def constraints(self) -> Schema:
        return {
            "maxItems": self.max_items,
            "x-kubernetes-list-type": "map" if self.keys else "atomic",
            **_given(**{"x-kubernetes-list-map-keys": list(self.keys)}),
        }

    def inner(self) -> Schema:
        return {"items": self.items.schema()}

    def wording(self) -> str:
        one = f", one for each {' and '.join(self.keys)}" if self.keys else ""
        return f"list, at most {self.max_items}{one}"


@dataclass(frozen=True, slots=True)
class MapField(PolicyField):
    """A mapping with free keys."""

    _: KW_ONLY
    values: PolicyField
    max_properties: int

    def constraints(self) -> Schema:
        return {"maxProperties": self.max_properties}

    def inner(self) -> Schema:
        return {"additionalProperties": self.values.schema()}

    def wording(self) -> str:
        return f"mapping, at most {self.max_properties} keys"


@dataclass(frozen=True, slots=True)
class AnyField(PolicyField):
    """An object whose fields are not in the schema."""

    _: KW_ONLY
    max_properties: int = 0  # 0: as many as it likes

    def constraints(self) -> Schema:
        return {**_given(maxProperties=self.max_properties), "x-kubernetes-preserve-unknown-fields": True}

    def wording(self) -> str:
        return f"mapping, at most {self.max_properties} keys" if self.max_properties else "mapping"


@dataclass(frozen=True, slots=True)
class ObjectField(PolicyField):
    """An object with these fields."""

    _: KW_ONLY
    fields: Mapping[str, PolicyField]
    required: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.fields)

    def constraints(self) -> Schema:
        return _given(required=list(self.required))

    def inner(self) -> Schema:
        return {"properties": {name: field.schema() for name, field in self.fields.items()}}


def _given(**keywords: Any) -> Schema:
    """Returns the keywords that have a value."""
    return {key: value for key, value in keywords.items() if value}
