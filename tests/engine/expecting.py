"""The outcome that a test expects, as its own type: anything else fails the test.

as_placement(pipeline.decide(pod, state, random)).node
"""

from collections.abc import Mapping
from typing import Any

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Placement
from berth.engine.plugin import FilterPlugin, ScorePlugin
from berth.engine.preemption.preemption import NoNomination
from berth.engine.preemption.victims import Nomination
from berth.engine.registry import make_plugin
from berth.engine.state.node_table import NodeTable
from berth.model import Node


def as_placement(outcome: Placement | Diagnosis) -> Placement:
    assert isinstance(outcome, Placement), outcome
    return outcome


def as_diagnosis(outcome: Placement | Diagnosis) -> Diagnosis:
    assert isinstance(outcome, Diagnosis), outcome
    return outcome


def as_nomination(outcome: Nomination | NoNomination) -> Nomination:
    assert isinstance(outcome, Nomination), outcome
    return outcome


def as_no_nomination(outcome: Nomination | NoNomination) -> NoNomination:
    assert isinstance(outcome, NoNomination), outcome
    return outcome


def row_of(table: NodeTable, name: str) -> int:
    """The row of a node that the table has."""
    row = table.row(name)
    assert row is not None, name
    return row


def node_of(table: NodeTable, name: str) -> Node:
    """A node that the table has."""
    node = table.node(name)
    assert node is not None, name
    return node


def make_filter(name: str, args: Mapping[str, Any] | None = None) -> FilterPlugin:
    """A new plugin of the registry that filters."""
    plugin = make_plugin(name, args or {}, "filter")
    assert isinstance(plugin, FilterPlugin), name
    return plugin


def make_score(name: str, args: Mapping[str, Any] | None = None) -> ScorePlugin:
    """A new plugin of the registry that scores."""
    plugin = make_plugin(name, args or {}, "score")
    assert isinstance(plugin, ScorePlugin), name
    return plugin
