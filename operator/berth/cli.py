"""The command line: `berth run`, `berth judge`, `berth policy lint`, `berth version`.

Parsing is argparse's; each command is a function that returns an exit code. What a user got wrong is said in one line
on standard error, without a traceback. Exit codes: 0 all well, 1 it failed, 2 it was asked wrongly.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import orjson
import yaml

from berth import __version__
from berth.cluster.errors import ApiError, CredentialsError
from berth.handlers import watch
from berth.judge import run_judge
from berth.policy import PolicyError, load_policy
from berth.runtime import Options, Runtime
from berth.serving import logs
from berth.serving.server import BadAddress, parse_address

OK, FAILED, USAGE = 0, 1, 2

EXIT_CODES = "exit codes:\n  0  all well\n  1  it failed; standard error says why\n  2  it was asked wrongly\n"
EXAMPLES = """examples:
  %(prog)s run --standalone                           with $KUBECONFIG, ~/.kube/config or a pod's service account
  %(prog)s run --standalone --kubeconfig F --context C
  %(prog)s policy lint policies/*.yaml                what is wrong with these policies, if anything
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
  kubectl get schedulingpolicy batch -o yaml | %(prog)s -

"""
NOT_STANDALONE = (
    "berth run: replicas and leader election are not available in this version; run one replica with --standalone"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of `berth` and `kubectl-berth`."""
    program = _program_name()
    try:
        options = _parser(program).parse_args(arguments)
    except ValueError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return USAGE
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
    environment = os.environ
    run = _new(
        commands.add_parser,
        "run",
        help="schedule pods on a cluster",
        text="Schedule pods on a cluster.",
        more=RUN_EXAMPLES,
    )
    run.add_argument("--standalone", action="store_true", help="run as the only replica (the one mode there is)")
    run.add_argument(
        "--kubeconfig",
        metavar="FILE",
        default=environment.get("BERTH_KUBECONFIG") or None,
        help="credentials (default: $KUBECONFIG, ~/.kube/config, the pod's service account)",
    )
    run.add_argument(
        "--context",
        metavar="NAME",
        default=environment.get("BERTH_CONTEXT") or None,
        help="context of the kubeconfig (default: its current one)",
    )
    run.add_argument(
        "--http-address",
        metavar="HOST:PORT",
        default=Options.from_environment().http_address,
        help='health and metrics, on the loopback interface; "" turns them off (default: %(default)s)',
    )
    run.add_argument(
        "--seed",
        metavar="N",
        type=_whole,
        default=Options.from_environment().seed,
        help="seed of the random choice among equally good nodes (default: a new one each time)",
    )
    run.add_argument(
        "--census-seconds",
        metavar="N",
        type=_positive,
        default=Options.from_environment().census_seconds,
        help="how often the cache is compared with the API server's lists (default: %(default)g)",
    )
    run.add_argument("--log-level", choices=logs.LEVELS, default=_choice("BERTH_LOG_LEVEL", logs.LEVELS, "info"))
    run.add_argument("--log-format", choices=logs.FORMATS, default=_choice("BERTH_LOG_FORMAT", logs.FORMATS, "text"))
    run.set_defaults(command=_run)


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
    judge.set_defaults(command=_judge)


def _add_policy(commands: Any) -> None:
    policy = _new(commands.add_parser, "policy", help="look at SchedulingPolicies", text="Look at SchedulingPolicies.")
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


def _choice(variable: str, choices: Sequence[str], default: str) -> str:
    """argparse does not check defaults, so what the environment says is checked here."""
    value = os.environ.get(variable) or default
    if value not in choices:
        raise ValueError(f'{variable}: "{value}" is not one of {", ".join(choices)}')
    return value


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number')
    return int(text)


def _positive(text: str) -> float:
    if _whole(text) == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return float(text)


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
            return run_judge(options.file, out, options.seed)
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
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
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


# --- run -------------------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    if not options.standalone:
        print(NOT_STANDALONE, file=sys.stderr)
        return USAGE
    try:
        if options.http_address:
            parse_address(options.http_address)
    except BadAddress as error:
        print(f"berth run: --http-address: {error}", file=sys.stderr)
        return USAGE
    logs.configure(options.log_level, options.log_format)
    return asyncio.run(
        _run_until_stopped(
            Options(
                kubeconfig=options.kubeconfig,
                context=options.context,
                http_address=options.http_address,
                seed=options.seed,
                census_seconds=options.census_seconds,
            )
        )
    )


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
