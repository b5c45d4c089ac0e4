"""Stands in for docker, podman, kind, k3d, minikube, kubectl and helm, where no image can be built and no cluster runs.

It is called by the name of the program that it stands in for, checks the arguments, and keeps in a file what the real
ones would have made: images, clusters with the images on their nodes, the current context, releases. What does not fit
ends with 1 and a line that says why, as the real ones would: an image that was never built, a cluster that is not
there, an installation whose image is not on the nodes. A form of a command that it does not know is refused as well.

$STANDIN_STATE is the file, $STANDIN_HELM the real helm, which renders what would be installed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

State = dict[str, Any]


def refuse(text: str) -> None:
    sys.exit(f"{Path(sys.argv[0]).name}: {text}")


def option(words: list[str], name: str) -> str | None:
    """The value of --name=VALUE, or of --name VALUE."""
    for place, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            return words[place + 1]
    return None


def engine(state: State, words: list[str]) -> None:
    """docker and podman."""
    match words:
        case ["build", *options, context] if all(word.startswith("--") for word in options):
            tag = option(options, "--tag")
            if not (Path(context) / "Dockerfile").is_file() or not tag:
                refuse("there is no Dockerfile, or no --tag")
            state["images"].append(tag)
        case ["image", "inspect", "--format={{.Id}}", tag]:
            if tag not in state["images"]:
                refuse(f"no such image: {tag}")
            print("sha256:0")
        case ["save", "--output", path, tag]:
            if tag not in state["images"]:
                refuse(f"no such image: {tag}")
            Path(path).write_text(tag)
        case ["push", tag] if tag in state["images"]:
            state["pushed"].append(tag)
        case _:
            refuse(f"unknown form: {words}")


def create(state: State, name: str, context: str) -> None:
    state["clusters"][name] = []
    state["context"] = context


def load(state: State, name: str, archive: str) -> None:
    if name not in state["clusters"]:
        refuse(f"there is no cluster {name}")
    state["clusters"][name].append(Path(archive).read_text())


def kind(state: State, words: list[str]) -> None:
    match words:
        case ["create", "cluster", *rest]:
            name = option(rest, "--name") or "kind"
            create(state, name, f"kind-{name}")
        case ["load", "image-archive", archive, named]:
            load(state, str(option([named], "--name")), archive)
        case _:
            refuse(f"unknown form: {words}")


def k3d(state: State, words: list[str]) -> None:
    match words:
        case ["cluster", "create", *rest]:
            name = rest[0] if rest else "k3s-default"
            create(state, name, f"k3d-{name}")
        case ["image", "import", archive, named]:
            load(state, str(option([named], "--cluster")), archive)
        case _:
            refuse(f"unknown form: {words}")


def minikube(state: State, words: list[str]) -> None:
    match words:
        case ["start"]:
            create(state, "minikube", "minikube")
        case ["image", "load", archive, named]:
            load(state, str(option([named], "--profile")), archive)
        case _:
            refuse(f"unknown form: {words}")


def kubectl(state: State, words: list[str]) -> None:
    if not state["context"]:
        refuse("current-context is not set")
    match words:
        case ["config", "current-context"]:
            print(state["context"])
        case ["-n", namespace, "rollout", "status", "deployment/berth"]:
            if state["releases"].get("berth") != namespace:
                refuse("deployment berth not found")
        case ["run", name, _, overrides] if state["releases"]:
            assert json.loads(overrides.partition("=")[2])["spec"]["schedulerName"] == "berth"
            state["pods"].append(name)
        case ["wait", "--for=condition=PodScheduled", pod] if pod.removeprefix("pod/") in state["pods"]:
            pass
        case _:
            refuse(f"unknown form: {words}")


def helm(state: State, words: list[str]) -> None:
    match words:
        case ["install", release, chart, *rest]:
            arguments = [word for word in rest if word != "--create-namespace"]
            rendered = subprocess.run(
                [os.environ["STANDIN_HELM"], "template", release, chart, *arguments],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for image, policy in images(rendered):
                there = [tag for tags in state["clusters"].values() for tag in tags]
                if image not in (there if policy == "Never" else [*there, *state["pushed"]]):
                    refuse(f"no node has the image {image}")
            state["releases"][release] = option(rest, "-n")
        case ["test", release, "-n", namespace] if state["releases"].get(release) == namespace:
            pass
        case _:
            refuse(f"unknown form: {words}")


def images(rendered: str) -> list[tuple[str, str]]:
    """The images that kubelets would look for, with when they pull them."""
    documents = [document for document in yaml.safe_load_all(rendered) if document]
    pods = [each["spec"] for each in documents if each["kind"] == "Pod"]
    pods += [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"]
    return [(container["image"], container["imagePullPolicy"]) for pod in pods for container in pod["containers"]]


PROGRAMS = {
    "docker": engine,
    "podman": engine,
    "kind": kind,
    "k3d": k3d,
    "minikube": minikube,
    "kubectl": kubectl,
    "helm": helm,
}


def main() -> None:
    file = Path(os.environ["STANDIN_STATE"])
    empty: State = {"images": [], "pushed": [], "clusters": {}, "context": "", "releases": {}, "pods": []}
    state = json.loads(file.read_text()) if file.exists() else empty
    PROGRAMS[Path(sys.argv[0]).name](state, sys.argv[1:])
    file.write_text(json.dumps(state))


if __name__ == "__main__":
    main()
