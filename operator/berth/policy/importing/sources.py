"""What configurations are imported from: the text of a file, a ConfigMap around one, the name of a provider.

A text is JSON or YAML, one document or several. A document is a configuration, a ConfigMap with one in its data, or a
list of such objects as `kubectl get` prints it. The result is one `ConfigurationSource` for each configuration, with a
name that leads back to it; any other document is a problem of its source. Nothing raises.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from berth.policy.compile import load_policy
from berth.policy.documents import BadDocument, read_documents, unwrapped
from berth.policy.importing.configuration import GROUP, VERSIONS, ImportProblem
from berth.policy.importing.translating import DEFAULT_SCHEDULER_NAME, Imported, Manifest, import_configuration
from berth.policy.providers import PROVIDERS
from berth.policy.records import PolicyError
from berth.policy.wording import cut, show

LISTS = ("List", "ConfigMapList")
OLDEST_VERSIONS = (f"{GROUP}/v1alpha1", "componentconfig/v1alpha1")
# Fields of v1alpha1: those that are arguments of plugins now, and those that are called the same.
_OLDEST_ARGUMENTS = {
    "hardPodAffinitySymmetricWeight": ("InterPodAffinity", "hardPodAffinityWeight"),
    "bindTimeoutSeconds": ("VolumeBinding", "bindTimeoutSeconds"),
}
_OLDEST_SAME = ("percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds")
_OLDEST_READ = (
    "apiVersion",
    "kind",
    "algorithmSource",
    "schedulerName",
    "disablePreemption",
    *_OLDEST_SAME,
    *_OLDEST_ARGUMENTS,
)


@dataclass(frozen=True, slots=True)
class ConfigurationSource:
    """One configuration: where it is, and what the import made of it."""

    name: str
    imported: Imported


def import_text(text: str, name: str, key: str | None = None) -> list[ConfigurationSource]:
    """Every configuration in the text; `key`: of ConfigMaps, that of the data which holds it."""
    return _import_each(text, name, lambda document: import_document(document, name, key))


def import_document(document: object, name: str, key: str | None = None) -> list[ConfigurationSource]:
    """The configuration that the document is or, as a ConfigMap, holds."""
    if isinstance(document, Mapping) and document.get("kind") == "ConfigMap":
        return _import_config_map(document, name, key)
    return [_import_one(document, name)]


def _import_one(document: object, name: str) -> ConfigurationSource:
    if not isinstance(document, Mapping):
        return bad_source(name, "is not an object: a configuration begins with apiVersion and kind")
    if document.get("apiVersion") in OLDEST_VERSIONS and "algorithmSource" in document:
        return ConfigurationSource(name, _import_algorithm_source(document))
    return ConfigurationSource(name, import_configuration(document))


def _import_each(
    text: str, name: str, import_one: Callable[[object], list[ConfigurationSource]]
) -> list[ConfigurationSource]:
    try:
        documents = [item for document in read_documents(text) for item in unwrapped(document, LISTS)]
    except BadDocument as error:
        return [bad_source(name, str(error))]
    if not documents:
        return [bad_source(name, "has no configuration in it")]
    return [source for document in documents for source in import_one(document)]


def import_provider(provider: str, oldest: Mapping[str, object] = MappingProxyType({})) -> Imported:
    """The default profile of today, or what the provider made of that of its day.

    `oldest` is what a configuration of v1alpha1 says beside the provider's name, as far as v1 says it too.
    """
    name = oldest.get("schedulerName")
    profile: dict[str, object] = {"schedulerName": DEFAULT_SCHEDULER_NAME if name is None else name}
    args = {name: dict(given) for name, given in PROVIDERS[provider].items()}
    for field, (plugin, argument) in _OLDEST_ARGUMENTS.items():
        if oldest.get(field):
            args.setdefault(plugin, {})[argument] = oldest[field]
    profile["pluginConfig"] = [{"name": name, "args": given} for name, given in args.items()]
    if oldest.get("disablePreemption") is True:
        profile["plugins"] = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
    same = {field: oldest[field] for field in _OLDEST_SAME if field in oldest}
    kind = {"apiVersion": VERSIONS[0], "kind": "KubeSchedulerConfiguration"}
    return import_configuration({**kind, **same, "profiles": [profile]})


# --- ConfigMaps and the configurations of v1alpha1


def _import_config_map(body: Mapping[str, object], name: str, key: str | None) -> list[ConfigurationSource]:
    name = f"{name}: {_config_map_name(body)}"
    data = body.get("data")
    if not isinstance(data, Mapping) or not data:
        return [bad_source(name, "is empty: the configuration is expected under one of its keys", "data")]
    keys = ", ".join(sorted(str(key) for key in data))
    if key is None and len(data) > 1:
        return [bad_source(name, f"has several keys: {keys}; choose one with --key", "data")]
    chosen = next(iter(data)) if key is None else key
    if chosen not in data:
        return [bad_source(name, f"has no key {show(chosen)}; there is {keys}", "data")]
    if not isinstance(data[chosen], str):
        return [bad_source(name, f"{show(data[chosen])} is not text", f"data[{chosen}]")]
    inside = f"{name}: {chosen}"
    return _import_each(data[chosen], inside, lambda document: [_import_one(document, inside)])


def _config_map_name(body: Mapping[str, object]) -> str:
    metadata = body.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    parts = [cut(str(known[part])) for part in ("namespace", "name") if known.get(part)]
    return f"ConfigMap {'/'.join(parts)}".strip()


def _import_algorithm_source(body: Mapping[str, object]) -> Imported:
    """v1alpha1 names a provider, or a Policy that is elsewhere; the import warns about all other fields."""
    algorithm = body["algorithmSource"]
    provider = algorithm.get("provider") if isinstance(algorithm, Mapping) else None
    problems = list(_check_oldest(body))
    if not isinstance(algorithm, Mapping) or "policy" in algorithm:
        way_out = "import the Policy itself, its file or with --configmap NAMESPACE/NAME"
        problems.append(ImportProblem("algorithmSource", f"is not a provider: {way_out}", "error"))
    elif not isinstance(provider, str) or provider not in PROVIDERS:
        known = f"is not one of {', '.join(PROVIDERS)}"
        problems.append(ImportProblem("algorithmSource.provider", f"{show(provider)} {known}", "error"))
    else:
        made = import_provider(provider, body)
        return Imported(made.manifests, (*made.problems, *problems))
    return Imported([], tuple(problems))


def _check_oldest(body: Mapping[str, object]) -> Iterator[ImportProblem]:
    for field, value in body.items():
        if field == "disablePreemption" and not isinstance(value, bool | None):
            yield ImportProblem(field, f"{show(value)} is not true or false", "error")
        if field in _OLDEST_READ or value is None:
            continue
        if field in ("plugins", "pluginConfig"):
            yield ImportProblem(field, f"of v1alpha1 cannot be read: write it as a profile of {VERSIONS[0]}", "error")
        else:
            yield ImportProblem(str(field), "of v1alpha1 is not carried over", "warning")


def bad_source(name: str, message: str, field: str = "") -> ConfigurationSource:
    """A source that is no configuration."""
    return ConfigurationSource(name, Imported([], (ImportProblem(field, message, "error"),)))


# --- all of them together


def settle(sources: Iterable[ConfigurationSource]) -> list[ConfigurationSource]:
    """The same, with names of policies that no two share, and with every error that `berth policy lint` would find."""
    names: set[str] = set()
    schedulers: set[object] = set()
    settled = []
    for source in sources:
        served = [_scheduler_name(manifest) for manifest in source.imported.manifests]
        manifests = [_with_free_name(manifest, names) for manifest in source.imported.manifests]
        problems = [*source.imported.problems, *_check_served(served, schedulers)]
        if not source.imported.errors:
            problems += [problem for manifest in manifests for problem in _lint(manifest)]
        schedulers.update(served)
        settled.append(ConfigurationSource(source.name, Imported(manifests, tuple(problems))))
    return settled


def _check_served(served: Sequence[str], before: Container[object]) -> Iterator[ImportProblem]:
    for index, scheduler in enumerate(served):
        if scheduler in before:
            where = f"profiles[{index}].schedulerName" if len(served) > 1 else "schedulerName"
            text = f"{show(scheduler)} has a policy already: of the two only the first by name decides"
            yield ImportProblem(where, text, "warning")


def _scheduler_name(manifest: Manifest) -> str:
    spec = manifest["spec"]
    assert isinstance(spec, Mapping)
    return str(spec["schedulerName"])


def _with_free_name(manifest: Manifest, taken: set[str]) -> Manifest:
    metadata = manifest["metadata"]
    assert isinstance(metadata, Mapping)
    stem = name = str(metadata["name"])
    count = 1
    while name in taken:
        count += 1
        name = f"{stem}-{count}"
    taken.add(name)
    return {**manifest, "metadata": {"name": name}}


def _lint(manifest: Manifest) -> Iterator[ImportProblem]:
    try:
        load_policy(manifest)
    except PolicyError as error:
        for problem in error.problems:
            yield ImportProblem(problem.field, problem.message, "error")
