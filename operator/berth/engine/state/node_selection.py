"""Node selectors and node affinity on columns: a requirement is one look-up by value id, a term an AND of them."""

import numpy as np

from berth.engine.state.node_table import NodeTable
from berth.engine.verdict import BoolColumn
from berth.model import NodeSelector, NodeSelectorTerm, Pod, Requirement


def match_pod(table: NodeTable, pod: Pod) -> BoolColumn:
    """Returns bool[all rows]: the nodes that match the pod's nodeSelector and required node affinity."""
    matched = np.ones(table.capacity, dtype=np.bool_)
    for key, value in (pod.node_selector or {}).items():
        matched &= match_label(table, Requirement(key, "In", (value,)))
    if pod.required_node_affinity is not None:
        matched &= match_selector(table, pod.required_node_affinity)
    return matched


def match_selector(table: NodeTable, selector: NodeSelector) -> BoolColumn:
    """bool[all rows]: the nodes that one of the terms matches."""
    matched = np.zeros(table.capacity, dtype=np.bool_)
    for term in selector.terms:
        matched |= match_term(table, term)
    return matched


def match_term(table: NodeTable, term: NodeSelectorTerm) -> BoolColumn:
    """bool[all rows]: the nodes that meet every requirement; a term without any matches none."""
    if not term.expressions and not term.fields:
        return np.zeros(table.capacity, dtype=np.bool_)
    matched = np.ones(table.capacity, dtype=np.bool_)
    for requirement in term.expressions:
        matched &= match_label(table, requirement)
    for requirement in term.fields:
        matched &= _match_name(table, requirement)
    return matched


def match_label(table: NodeTable, requirement: Requirement) -> BoolColumn:
    ids, vocabulary = table.label(requirement.key)
    match requirement.operator:
        case "Exists":
            return ids >= 0
        case "DoesNotExist":
            return ids < 0
        case "In" | "NotIn":
            wanted = np.zeros(len(vocabulary.ids) + 1, dtype=np.bool_)
            wanted[[vocabulary.ids[value] for value in requirement.values if value in vocabulary.ids]] = True
            return wanted[ids] if requirement.operator == "In" else ~wanted[ids]
        case "Gt" | "Lt":
            bound = requirement.bound
            if bound is None:
                return np.zeros(table.capacity, dtype=np.bool_)
            return vocabulary.compared(bound, greater=requirement.operator == "Gt")[ids]
        case _:
            raise ValueError(f"operator {requirement.operator!r} is not one of node selectors")


def _match_name(table: NodeTable, requirement: Requirement) -> BoolColumn:
    named = np.zeros(table.capacity, dtype=np.bool_)
    named[[row for row in map(table.row, requirement.values) if row is not None]] = True
    return named if requirement.operator == "In" else ~named
