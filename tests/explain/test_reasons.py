"""Every reason that a plugin can give has a code of its own."""

import importlib
import pkgutil
from types import ModuleType

import pytest

from berth.engine.diagnosis import Opinion
from berth.engine.extender_result import EXTENDERS, LEFT_OUT
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.registry import OWN_PLUGINS
from berth.engine.verdict import Code
from berth.explain.reasons import CUSTOM, EXPRESSION, EXTENDER, FAILED, KIND_OF, KINDS, OF_VOLUMES, code_of, resource_of
from berth.model import parse_pod
from berth.policy import load_policy
from engine.worlds import make_filter_for, state_of, worlds
from support.builders import make_node, make_pod


def _modules() -> list[ModuleType]:
    folders = ("berth.engine.plugins", "berth.engine.legacy")
    return [
        importlib.import_module(f"{folder}.{module.name}")
        for folder in folders
        for module in pkgutil.iter_modules(importlib.import_module(folder).__path__)
        if not module.ispkg
    ]


def _constants() -> list[tuple[str, str]]:
    """Every constant of a plugin's module that is a reason."""
    return [
        (f"{module.__name__}.{name}", text)
        for module in _modules()
        for name, text in vars(module).items()
        if isinstance(text, str) and (name.startswith("REASON") or name == "TOO_MANY_PODS")
    ]


class _Ours(FilterPlugin):
    name = "Ours"


_Ours.__module__ = "berth.engine.plugins.any"


@pytest.mark.parametrize(("name", "text"), _constants(), ids=[name for name, _ in _constants()])
def test_the_text_of_every_plugin_has_a_code(name: str, text: str) -> None:
    assert code_of(_Ours({}), text) != CUSTOM


@pytest.mark.parametrize("name", [name for name, kind in OWN_PLUGINS.items() if kind.filters])
def test_what_a_plugin_says_in_random_clusters_has_a_code(name: str) -> None:
    for world in worlds():
        state = state_of(world.objects)
        plugin, query = make_filter_for(name, world), Query(world.pod, state.table)
        answer = plugin.pre_filter(query, state)
        if answer.code is not Code.FITS:
            assert {code_of(plugin, text, answer.code) for text in answer.reasons}.isdisjoint({CUSTOM, EXPRESSION})
        elif not answer.skip:
            opinion = Opinion(plugin, answer, plugin.filter(query, state, state.table.rows))
            _check(opinion)


def _check(opinion: Opinion) -> None:
    assert opinion.verdicts is not None
    for position, code in enumerate(opinion.verdicts.codes.tolist()):
        for text in opinion.verdicts.reasons(position) if code else ():
            assert code_of(opinion.plugin, text, Code(code)) != CUSTOM, text


def test_texts_with_names_have_a_code() -> None:
    texts = {
        "Insufficient example.com/gpu": "InsufficientResource",
        'persistentvolumeclaim "data" not found': "ClaimNotFound",
        'looking up PVC shop/data: persistentvolumeclaim "data" not found': "ClaimNotFound",
        'persistentvolumeclaim "data" is being deleted': "ClaimDeleting",
        'storageclass.storage.k8s.io "fast" not found': "StorageClassNotFound",
        "PVC shop/data was not created for pod shop/web (pod is not owner)": "ClaimOfAnotherPod",
        "node(s) didn't satisfy plugin(s) [NodeAffinity]": "NodeNotNamed",
    }
    assert {text: code_of(_Ours({}), text) for text in texts} == texts


def test_what_others_say_is_named_by_who_says_it() -> None:
    class Foreign(FilterPlugin):
        name = "Foreign"

    assert code_of(Foreign({}), "node(s) were unschedulable") == CUSTOM
    assert code_of(EXTENDERS, LEFT_OUT) == EXTENDER
    assert code_of(Foreign({}), "broken", Code.ERROR) == FAILED
    predicate = {"name": "quiet", "expression": "node.labels['noise'] != 'loud'"}
    manifest = {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "p", "base": "Empty", "predicates": [predicate]},
    }
    pipeline = load_policy(manifest).pipeline
    state = state_of([make_node("n1", labels={"noise": "loud"})])
    verdicts = pipeline.filters[0].filter(Query(parse_pod(make_pod("web")), state.table), state, state.table.rows)
    assert code_of(pipeline.filters[0], verdicts.reasons(0)[0]) == EXPRESSION


def test_the_table_has_no_code_and_no_text_twice() -> None:
    assert len(KIND_OF) == len(KINDS)
    texts = [text for kind in KINDS for text in kind.texts]
    assert len(texts) == len(set(texts))
    assert set(OF_VOLUMES) <= set(KIND_OF)


def test_the_resource_of_a_reason() -> None:
    assert [resource_of(t) for t in ("Insufficient cpu", "Too many pods", "other")] == ["cpu", "pods", ""]
