"""The command line: `berth run`, `berth judge`, `berth policy lint`, `berth policy import`, `berth version`.

Parsing is argparse's; each command is a function that returns an exit code. What a user got wrong is said in one line
on standard error, without a traceback. Exit codes: 0 all well, 1 it failed, 2 it was asked wrongly.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import orjson
import yaml

from berth import __version__
from berth.cluster.api import Api
from berth.cluster.census import REGULAR_SECONDS
from berth.cluster.credentials import Credentials
from berth.cluster.credentials import Source as CredentialsSource
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.demo import add_arguments as add_demo_arguments
from berth.demo import main as run_demo
from berth.handlers import watch
from berth.judge import run_judge
from berth.policy import PolicyError, load_policy
from berth.policy.manifest import write_source
from berth.policy.sources import (
    PROVIDERS,
    Source,
    bad_source,
    import_document,
    import_provider,
    import_text,
    is_object_name,
    settle,
)
from berth.runtime import Options, Runtime
from berth.serving import logs
from berth.serving.server import DEFAULT_ADDRESS, BadAddress, parse_address

OK, FAILED, USAGE = 0, 1, 2
LOG_LEVEL, LOG_FORMAT = "info", "text"

EXIT_CODES = "exit codes:\n  0  all well\n  1  it failed; standard error says why\n  2  it was asked wrongly\n"
EXAMPLES = """examples:
  %(prog)s run --standalone                           with $KUBECONFIG, ~/.kube/config or a pod's service account
  %(prog)s run --standalone --kubeconfig F --context C
  %(prog)s policy lint policies/*.yaml                what is wrong with these policies, if anything
  %(prog)s policy import scheduler.yaml > policy.yaml a kube-scheduler configuration as policies
  %(prog)s judge cases.jsonl > verdicts.jsonl         decide cases without a cluster

"""
RUN_EXAMPLES = """The scheduler serves pods whose spec.schedulerName is "berth", or what a SchedulingPolicy names.
SIGTERM or SIGINT stops it cleanly: no new binds, running ones finish, exit code 0; a second one ends it at once.

environment (flags win):
  KUBECONFIG, BERTH_KUBECONFIG, BERTH_CONTEXT, BERTH_HTTP_ADDRESS, BERTH_SEED, BERTH_CENSUS_SECONDS,
  BERTH_LOG_LEVEL, BERTH_LOG_FORMAT

examples:
  %(prog)s --standalone
  %(prog)s --standalone --kubeconfig ~/.kube/config --context staging --log-format json
  %(prog)s --standalone --http-address ""        without health and metrics

"""
LINT_EXAMPLES = """examples:
  %(prog)s policies/default.yaml
  %(prog)s -o json policies/*.yaml
  kubectl get schedulingpolicies -o yaml | %(prog)s -

"""
IMPORT_EXAMPLES = """A FILE is a KubeSchedulerConfiguration (v1, v1beta3), a Policy (v1, of Kubernetes 1.9 to 1.22) or a
ConfigMap with one of them in it. Policies go to standard output, one for each profile, and pass `policy lint`.
What they cannot say is in comments; with -o json, on standard error. Where a configuration itself is wrong, standard
error says what is, and no policy is written.

examples:
  %(prog)s /etc/kubernetes/scheduler.yaml
  %(prog)s scheduler.yaml | kubectl apply -f -
  %(prog)s --configmap kube-system/scheduler-policy --key policy.cfg
  %(prog)s --provider ClusterAutoscalerProvider --name packing
  kubectl get configmap -n kube-system scheduler-config -o yaml | %(prog)s -

"""
LISTS = ("List", "SchedulingPolicyList")
NOT_STANDALONE = (
    "berth run: replicas and leader election are not available in this version; run one replica with --standalone"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of `berth` and `kubectl-berth`."""
    program = _program_name()
    options = _parser(program).parse_args(arguments)
    code: int = options.command(options)
    return code


def _program_name() -> str:
    return "kubectl berth" if Path(sys.argv[0]).name.startswith("kubectl-berth") else "berth"


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _new(
        argparse.ArgumentParser,
        prog=program,
        text="A Kubernetes scheduler that you program with kubectl.",
        more=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"berth {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_run(commands)
    demo = commands.add_parser("demo", help="watch Berth work on an embedded cluster", allow_abbrev=False)
    add_demo_arguments(demo)
    demo.set_defaults(command=run_demo)
    _add_judge(commands)
    _add_policy(commands)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(command=_version)
    return parser


def _new(make: Any, *names: str, text: str, more: str = "", **others: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = make(
        *names,
        description=text,
        epilog=more + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **others,
    )
    return parser


def _add_run(commands: Any) -> None:
    run = _new(
        commands.add_parser,
        "run",
        help="schedule pods on a cluster",
        text="Schedule pods on a cluster.",
        more=RUN_EXAMPLES,
    )
    run.add_argument("--standalone", action="store_true", help="run as the only replica (the one mode there is)")
    # No defaults here: what is not given comes from the environment, which is read when the command is `run`.
    _add_credentials(run)
    run.add_argument(
        "--http-address",
        metavar="HOST:PORT",
        help=f'health and metrics, on the loopback interface; "" turns them off (default: {DEFAULT_ADDRESS})',
    )
    run.add_argument(
        "--seed",
        metavar="N",
        type=_whole,
        help="seed of the random choice among equally good nodes (default: a new one each time)",
    )
    run.add_argument(
        "--census-seconds",
        metavar="N",
        type=_positive,
        help=f"how often the cache is compared with the API server's lists (default: {REGULAR_SECONDS:g})",
    )
    run.add_argument("--log-level", choices=logs.LEVELS, help=f"(default: {LOG_LEVEL})")
    run.add_argument("--log-format", choices=logs.FORMATS, help=f"(default: {LOG_FORMAT})")
    run.set_defaults(command=_run)


def _add_credentials(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="credentials (default: $KUBECONFIG, ~/.kube/config, the pod's service account)",
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")


def _add_judge(commands: Any) -> None:
    judge = _new(
        commands.add_parser,
        "judge",
        help="decide cases from a file, without a cluster",
        text="Decide cases given as JSON lines and write one verdict a line.",
    )
    judge.add_argument("file", metavar="FILE", nargs="?", help="the cases (default: standard input)")
    judge.add_argument(
        "--seed",
        metavar="N",
        type=_whole,
        default=0,
        help="seed of the order in which objects arrive and of choices (default: 0)",
    )
    judge.add_argument("-o", "--output", metavar="FILE", help="where the verdicts go (default: standard output)")
    judge.add_argument(
        "--summary",
        action="store_true",
        help='say on standard error what became of the cases, and which of them are not as they "expect"',
    )
    judge.add_argument(
        "--nominated",
        action="store_true",
        help="count pods that are nominated to a node as if they were on it (the packed conformance vectors do not)",
    )
    judge.set_defaults(command=_judge)


def _add_policy(commands: Any) -> None:
    policy = _new(
        commands.add_parser,
        "policy",
        help="check SchedulingPolicies, or make them from configurations of kube-scheduler",
        text="Check SchedulingPolicies, or make them from configurations of kube-scheduler.",
    )
    actions = policy.add_subparsers(metavar="ACTION", required=True)
    lint = _new(
        actions.add_parser,
        "lint",
        help="say everything that is wrong with policies in files",
        text="Say everything that is wrong with the SchedulingPolicies in files.",
        more=LINT_EXAMPLES,
    )
    lint.add_argument("files", metavar="FILE", nargs="+", help='YAML or JSON; "-" is standard input')
    lint.add_argument("-o", "--output", choices=("text", "json"), default="text", help="format (default: %(default)s)")
    lint.set_defaults(command=_lint)
    _add_import(actions)


def _add_import(actions: Any) -> None:
    command = _new(
        actions.add_parser,
        "import",
        help="turn configurations of kube-scheduler into policies",
        text="Turn configurations of kube-scheduler into SchedulingPolicies.",
        more=IMPORT_EXAMPLES,
    )
    command.add_argument("files", metavar="FILE", nargs="*", help='YAML or JSON; "-" is standard input')
    command.add_argument(
        "--configmap", metavar="NAMESPACE/NAME", type=_object_path, help="instead of files: a ConfigMap of the cluster"
    )
    command.add_argument(
        "--provider",
        choices=tuple(PROVIDERS),
        help="instead of files: what kube-scheduler had under this name up to 1.22",
    )
    command.add_argument("--key", metavar="KEY", help="of a ConfigMap: the key of its data (default: the only one)")
    command.add_argument(
        "--name", metavar="NAME", type=_object_name, help="name of the policy, where there is one only"
    )
    command.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="format (default: %(default)s)"
    )
    _add_credentials(command)
    command.set_defaults(command=_import)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number')
    return int(text)


def _positive(text: str) -> float:
    if _whole(text) == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return float(text)


def _object_name(text: str) -> str:
    if not is_object_name(text):
        raise argparse.ArgumentTypeError(f'"{text}" is not the name of an object: lower-case letters, digits, "-", "."')
    return text


def _object_path(text: str) -> str:
    parts = text.split("/")
    if len(parts) != 2 or not all(map(is_object_name, parts)):
        raise argparse.ArgumentTypeError(f'"{text}" is not NAMESPACE/NAME')
    return text


def _complain(text: str) -> int:
    print(text, file=sys.stderr)
    return FAILED


# --- version, judge --------------------------------------------------------------------------------------------------


def _version(_: argparse.Namespace) -> int:
    print(f"berth {__version__}")
    return OK


def _judge(options: argparse.Namespace) -> int:
    try:
        with _output(options.output) as out:
            summarise = sys.stderr if options.summary else None
            return run_judge(options.file, out, options.seed, nominated=options.nominated, summarise=summarise)
    except OSError as error:
        return _complain(f"berth judge: {error}")


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    with open(path, "w", encoding="utf-8") as out:
        yield out


# --- policy lint -----------------------------------------------------------------------------------------------------


def _lint(options: argparse.Namespace) -> int:
    findings = [finding for path in options.files for finding in _lint_file(path)]
    problems = [finding for finding in findings if finding["message"]]
    if options.output == "json":
        print(orjson.dumps(findings, option=orjson.OPT_INDENT_2).decode())
    else:
        for finding in findings:
            print(_finding_text(finding))
    return FAILED if problems else OK


def _finding_text(finding: dict[str, str]) -> str:
    where = ": ".join(finding[part] for part in ("file", "policy", "field") if finding[part])
    return f"{where}: {finding['message'] or 'ok'}"


def _lint_file(path: str) -> Iterator[dict[str, str]]:
    """A finding a problem, and one without a message for each policy that has none."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        documents = [policy for document in yaml.safe_load_all(text) for policy in _unwrapped(document)]
    except (OSError, UnicodeDecodeError) as error:
        yield _finding(path, "", "", f"cannot be read: {error}")
        return
    except yaml.YAMLError as error:
        yield _finding(path, "", "", f"is not YAML: {' '.join(str(error).split())}")
        return
    if not documents:
        yield _finding(path, "", "", "has no policy in it")
    for document in documents:
        yield from _lint_document(path, document)


def _unwrapped(document: object) -> Iterator[object]:
    """The objects in a document: those of a list, as `kubectl get` prints several, or the one that it is."""
    if isinstance(document, dict) and document.get("kind") in LISTS and isinstance(document.get("items"), list):
        yield from document["items"]
    elif document is not None:
        yield document


def _lint_document(path: str, document: object) -> Iterator[dict[str, str]]:
    if not isinstance(document, dict):
        yield _finding(path, "", "", "is not an object; a policy begins with apiVersion and kind")
        return
    try:
        policy = load_policy(document).policy
    except PolicyError as error:
        for problem in error.problems:
            yield _finding(path, error.name, problem.field, problem.message)
    else:
        yield _finding(path, policy.name, "", "")


def _finding(path: str, policy: str, field: str, message: str) -> dict[str, str]:
    return {"file": path, "policy": policy, "field": field, "message": message}


# --- policy import ---------------------------------------------------------------------------------------------------


def _import(options: argparse.Namespace) -> int:
    if len([source for source in (options.files, options.configmap, options.provider) if source]) != 1:
        return _misuse("give files, --configmap or --provider: one of them")
    if (options.kubeconfig or options.context) and not options.configmap:
        return _misuse("--kubeconfig and --context go with --configmap")
    try:
        sources = settle(_sources(options))
    except (ApiError, Unreachable, CredentialsError) as error:
        return _complain(f"berth policy import: {error}")
    if any(source.imported.errors for source in sources):
        _tell_problems(sources, "error")
        return FAILED
    manifests = [manifest for source in sources for manifest in source.imported.manifests]
    if options.name is not None:
        if len(manifests) != 1:
            return _misuse(f"--name is for one policy, and these are {len(manifests)}: leave it out")
        manifests[0]["metadata"] = {"name": options.name}
    if options.output == "json":
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2))
        _tell_problems(sources, "warning")
    else:
        print("---\n".join(map(write_source, sources)), end="")
    return OK


def _misuse(text: str) -> int:
    print(f"berth policy import: {text}", file=sys.stderr)
    return USAGE


def _tell_problems(sources: Sequence[Source], severity: str) -> None:
    for source in sources:
        for problem in source.imported.problems:
            if problem.severity == severity:
                text = ": ".join(part for part in (source.name, problem.field, problem.message) if part)
                print(" ".join(text.split()), file=sys.stderr)


def _sources(options: argparse.Namespace) -> list[Source]:
    if options.provider:
        return [Source(options.provider, import_provider(options.provider))]
    if options.configmap:
        config_map = asyncio.run(_get_config_map(options))
        return import_document({**config_map, "kind": "ConfigMap"}, "cluster", options.key)
    return [source for path in options.files for source in _import_file(path, options.key)]


def _import_file(path: str, key: str | None) -> list[Source]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [bad_source(path, f"cannot be read: {error}")]
    return import_text(text, path, key)


async def _get_config_map(options: argparse.Namespace) -> dict[str, Any]:
    kubeconfig = options.kubeconfig or os.environ.get("BERTH_KUBECONFIG") or None
    context = options.context or os.environ.get("BERTH_CONTEXT") or None
    namespace, name = options.configmap.split("/")
    api = Api(Credentials(CredentialsSource(kubeconfig, context)))
    try:
        await api.open()
        return (await api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}"))[1]
    finally:
        await api.close()


# --- run -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Settings:
    """Everything that `run` is told: flags, where they are given, and the environment elsewhere."""

    options: Options
    log_level: str
    log_format: str


def _run(options: argparse.Namespace) -> int:
    if not options.standalone:
        print(NOT_STANDALONE, file=sys.stderr)
        return USAGE
    try:
        settings = _settings(options, dict(os.environ))
    except ValueError as error:
        print(f"berth run: {error}", file=sys.stderr)
        return USAGE
    logs.configure(settings.log_level, settings.log_format)
    return asyncio.run(_run_until_stopped(settings.options))


def _settings(flags: argparse.Namespace, environment: Mapping[str, str]) -> _Settings:
    """ValueError names the variable or the flag that makes no sense."""
    named = ("kubeconfig", "context", "http_address", "seed", "census_seconds")
    given = {name: value for name in named if (value := getattr(flags, name)) is not None}
    options = replace(Options.from_environment(environment), **given)
    try:
        if options.http_address:
            parse_address(options.http_address)
    except BadAddress as error:
        source = "--http-address" if "http_address" in given else "BERTH_HTTP_ADDRESS"
        raise ValueError(f"{source}: {error}") from error
    return _Settings(
        options,
        flags.log_level or _choice(environment, "BERTH_LOG_LEVEL", logs.LEVELS, LOG_LEVEL),
        flags.log_format or _choice(environment, "BERTH_LOG_FORMAT", logs.FORMATS, LOG_FORMAT),
    )


def _choice(environment: Mapping[str, str], variable: str, choices: Sequence[str], default: str) -> str:
    value = environment.get(variable) or default
    if value not in choices:
        raise ValueError(f'{variable}: "{value}" is not one of {", ".join(choices)}')
    return value


async def _run_until_stopped(options: Options) -> int:
    runtime = Runtime(options)
    stopping = asyncio.Event()
    _take_signals(stopping)
    try:
        await runtime.start()
    except CredentialsError as error:
        return _complain(f"berth run: {error}")
    except OSError as error:
        await runtime.api.close()
        return _complain(f"berth run: --http-address {options.http_address}: {error.strerror or error}")
    try:
        problem = await _first_contact(runtime)
        if problem is not None:
            return _complain(f"berth run: {problem}")
        return await _watch_until_stopped(runtime, stopping)
    finally:
        await runtime.stop()


async def _first_contact(runtime: Runtime) -> str | None:
    """What no waiting would mend. A server that is merely down is waited for."""
    try:
        problem = await runtime.probe()
    except ApiError as error:
        return f"{runtime.credentials.server} does not accept our credentials: {error}"
    if problem is not None and problem.is_misconfigured:
        return f"{runtime.credentials.server} cannot be reached: {problem}"
    return None


async def _watch_until_stopped(runtime: Runtime, stopping: asyncio.Event) -> int:
    """The scheduler ends before the watches, so that nothing is decided on what is no longer told."""
    end_watch = asyncio.Event()
    watching = asyncio.create_task(watch(runtime, end_watch, lambda: _take_signals(stopping)), name="watching")
    waits = [asyncio.ensure_future(stopping.wait()), runtime.failure, watching]
    await asyncio.wait([wait for wait in waits if wait is not None], return_when=asyncio.FIRST_COMPLETED)
    failed = not stopping.is_set()
    await runtime.stop_scheduling()
    end_watch.set()
    await asyncio.gather(watching, return_exceptions=True)
    return FAILED if failed else OK


def _take_signals(stopping: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT stops cleanly, the second ends the process at once."""

    def stop() -> None:
        if stopping.is_set():
            os._exit(FAILED)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
