"""Fields of label selectors."""

from berth.model.selectors import LABEL_OPERATORS
from berth.policy.fields.types import CelRule, ChoiceField, ListField, MapField, ObjectField, PolicyField, TextField

REQUIREMENTS_MAX = 64
VALUES_MAX = 64
KEY_MAX_LENGTH = 253 + 1 + 63
VALUE_MAX_LENGTH = 63
DNS_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


def label_key(description: str) -> TextField:
    pattern = f"^({DNS_NAME}/)?{LABEL_NAME}$"
    return TextField(description, min_length=1, max_length=KEY_MAX_LENGTH, pattern=pattern)


def label_value(description: str) -> TextField:
    return TextField(description, max_length=VALUE_MAX_LENGTH, pattern=f"^({LABEL_NAME})?$")


REQUIREMENT = ObjectField(
    "One condition on a label.",
    required=("key", "operator"),
    fields={
        "key": label_key("The label's key."),
        "operator": ChoiceField(
            "In: the value is one of values. NotIn: it is none of them, or there is no such label. Exists: "
            "there is such a label. DoesNotExist: there is none.",
            values=tuple(LABEL_OPERATORS),
        ),
        "values": ListField(
            "What In and NotIn compare with; the others take none.",
            max_items=VALUES_MAX,
            items=label_value("A value of the label."),
        ),
    },
    rules=(
        CelRule(
            "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
            "values must not be empty with In and NotIn",
            ".values",
        ),
        CelRule(
            "self.operator in ['In', 'NotIn'] || !has(self.values) || size(self.values) == 0",
            "values must be empty with Exists and DoesNotExist",
            ".values",
        ),
    ),
)

_FIELDS: dict[str, PolicyField] = {
    "matchLabels": MapField(
        "Labels that must have exactly these values, for example {team: research}.",
        max_properties=REQUIREMENTS_MAX,
        values=label_value("The value that the label must have."),
    ),
    "matchExpressions": ListField(
        "Conditions on labels that must all hold, for example [{key: tier, operator: NotIn, values: [test]}].",
        max_items=REQUIREMENTS_MAX,
        items=REQUIREMENT,
    ),
}
SELECTOR_FIELDS = tuple(_FIELDS)


def selector(description: str) -> ObjectField:
    return ObjectField(description, fields=_FIELDS)
