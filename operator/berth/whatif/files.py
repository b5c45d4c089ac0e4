"""API objects in files: a snapshot, the output of `kubectl get -o json|yaml`, or manifests that people write."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from berth.model import object_key
from berth.policy.fields.spec_fields import KIND as POLICY
from berth.policy.reading import did_you_mean
from berth.policy.wording import on_one_line
from berth.shipped import policy_files, policy_path
from berth.snapshots.files import BadSnapshot, read_file
from berth.whatif.cluster_objects import Body, ClusterObjects
from berth.whatif.errors import CannotSimulate


def read_bodies(path: str) -> list[Body]:
    """Returns the objects of a file ("-": standard input), those of lists one by one. Raises CannotSimulate."""
    try:
        return read_file(path)
    except BadSnapshot as error:
        raise CannotSimulate(on_one_line(str(error))) from error


def read_files(paths: Iterable[str], tell: Callable[[str], None]) -> ClusterObjects:
    """Returns the cluster whose objects are in these files. Raises CannotSimulate. `tell`: which one is read."""
    objects = ClusterObjects()
    for path in paths:
        tell(f"reading {on_one_line(path)}")
        for body in read_bodies(path):
            objects.take(body)
    return objects


def read_policies(path: str) -> Iterator[Body]:
    """Yields the SchedulingPolicies of a file that has nothing else in it, or of the library. Raises CannotSimulate."""
    file = policy_path(path)
    if file != "-" and not Path(file).exists():
        hint = did_you_mean(path, tuple(policy_files()))
        words = f"is no file, and no policy of the library (berth policy show){hint}"
        raise CannotSimulate(f"--policy {on_one_line(path)}: {words}")
    for body in read_bodies(file):
        if body.get("kind") != POLICY or not isinstance(body.get("metadata"), Mapping):
            named = f"{body.get('kind')} {object_key(body)}"
            raise CannotSimulate(f"--policy {on_one_line(path)}: {named} is no SchedulingPolicy: give it with -f")
        yield body
