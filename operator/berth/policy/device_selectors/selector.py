"""A compiled selector, and what it says of a device."""

from __future__ import annotations

from typing import Any, Final

from berth.model.devices import Attribute, Device

from .compiling import DEVICE, Compiler
from .parser import parse
from .scope import Run, Scope
from .syntax import CompileError, InstantiationError
from .values import Domains, EvaluationError, Quantity, kind_of, parse_semver

_CONVERSIONS: Final = {
    "int": "unsupported type conversion from 'int' to bool",
    "string": "unsupported native conversion from string to 'bool'",
}


class DeviceSelector:
    """An expression that says yes or no of a device."""

    __slots__ = ("_run", "text")

    def __init__(self, text: str, run: Run) -> None:
        self.text, self._run = text, run

    def matches(self, driver: str, device: Device) -> bool:
        """Whether the device is selected; raises EvaluationError."""
        scope = Scope({DEVICE: _input(driver, device)})
        try:
            answer = self._run(scope)
        except RecursionError:
            raise EvaluationError("expression recursion limit exceeded") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # What a user writes must not stop the scheduler, whatever was not thought of here.
            raise EvaluationError(f"internal error: {error}") from error
        if type(answer) is bool:
            return answer
        kind = kind_of(answer)
        problem = _CONVERSIONS.get(kind, f"type conversion error from '{kind.rpartition('.')[2]}' to 'bool'")
        raise EvaluationError(f"CEL result of type {kind} could not be converted to bool: {problem}")


def compile_selector(text: str) -> DeviceSelector:
    """The selector of this text; raises CompileError."""
    try:
        compiled = Compiler().compile(parse(text))
    except InstantiationError:
        raise
    except RecursionError:
        raise CompileError("compilation failed: expression recursion limit exceeded") from None
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
    if compiled.kind not in ("bool", "any"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {compiled.kind}")
    return DeviceSelector(text, compiled.run)


def _input(driver: str, device: Device) -> dict[str, Any]:
    attributes, capacity = Domains(), Domains()
    for name, attribute in device.attributes.items():
        _put(attributes, name, driver, _value(name, attribute))
    for name, entry in device.capacity.items():
        _put(capacity, name, driver, Quantity(entry.value.nanos))
    return {
        "driver": driver,
        "allowMultipleAllocations": device.shareable,
        "attributes": attributes,
        "capacity": capacity,
    }


def _put(domains: Domains, name: str, driver: str, value: Any) -> None:
    """A name without a domain is in the domain of the driver."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        domain, identifier = driver, name
    domains.setdefault(domain, {})[identifier] = value


def _value(name: str, attribute: Attribute) -> Any:
    if attribute.kind == "version":
        try:
            return parse_semver(str(attribute.value))
        except EvaluationError as error:
            raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None
    if not attribute.kind:
        raise EvaluationError(f"attribute {name}: unsupported attribute value")
    return attribute.value
