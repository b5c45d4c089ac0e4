"""`berth completion`: scripts that let a shell complete commands, options and their values.

The scripts are made from the parsers, so that they know what these know. `kubectl_complete-berth` is the program that
kubectl asks for the completion of `kubectl berth`.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Final

from berth.cli.common import OK, CommandParser, describe

SHELLS: Final = ("bash", "zsh", "fish")
PROGRAM: Final = "berth"
PATHS: Final = ("FILE", "FOLDER", "DIR")  # metavars of options whose values are files
NO_FILES: Final = ":4"  # kubectl: show what was printed, and no files
FILES: Final = ":0"
MORE: Final = """examples:
  source <(%(prog)s bash)                                    in ~/.bashrc
  source <(%(prog)s zsh)                                     in ~/.zshrc, after compinit
  %(prog)s fish > ~/.config/fish/completions/berth.fish

`kubectl berth` is completed by kubectl's own script (kubectl completion --help), which asks kubectl_complete-berth.
That is installed beside kubectl-berth.

"""


@dataclass(slots=True)
class Option:
    """An option with its spellings. `values`: what it may have; `is_file`: a path; `has_value`: something."""

    names: tuple[str, ...]
    text: str
    values: tuple[str, ...] = ()
    has_value: bool = False
    is_file: bool = False


@dataclass(slots=True)
class Command:
    """A command: the words that lead to it, its options, its own commands with what they do, values of arguments."""

    words: tuple[str, ...]
    options: list[Option] = field(default_factory=list)
    commands: dict[str, str] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    takes_files: bool = False


def fill(completion: argparse.ArgumentParser) -> None:
    describe(completion, "Print the script that lets a shell complete berth's commands, options and values.", MORE)
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    completion.set_defaults(command=_completion)


def _completion(options: argparse.Namespace) -> int:
    make = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[options.shell]
    print(make(read_commands()), end="")
    return OK


def kubectl_main() -> int:
    """The entry point of `kubectl_complete-berth`: prints what the last word may become, and a line for kubectl."""
    *words, unfinished = sys.argv[1:] or [""]
    found = complete(read_commands(), words, unfinished)
    print("\n".join([*(found or []), FILES if found is None else NO_FILES]))
    return OK


# --- what there is ---------------------------------------------------------------------------------------------------


def read_commands() -> list[Command]:
    """Returns all commands, `berth` itself first."""
    from berth.cli import make_parser  # which knows of this module, by its name

    return list(_walk(make_parser(PROGRAM), ()))


def _walk(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[Command]:
    if isinstance(parser, CommandParser) and parser.module:
        module, parser.module = parser.module, ""
        import_module(module).fill(parser)
    command, below = Command(words), list[tuple[str, argparse.ArgumentParser]]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            command.commands = {choice.dest: choice.help or "" for choice in action._choices_actions}
            below += action.choices.items()
        elif action.option_strings:
            command.options.append(_option(action))
        else:
            command.values = tuple(map(str, action.choices or ()))
            command.takes_files = _is_file(action)
    yield command
    for name, sub in below:
        yield from _walk(sub, (*words, name))


def _option(action: argparse.Action) -> Option:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    values = tuple(map(str, action.choices or ()))
    return Option(tuple(action.option_strings), text, values, action.nargs != 0, _is_file(action))


def _is_file(action: argparse.Action) -> bool:
    metavars = action.metavar if isinstance(action.metavar, tuple) else (action.metavar or "",)
    return any(metavar.rstrip(".") in PATHS for metavar in metavars)


def complete(commands: Sequence[Command], words: Sequence[str], unfinished: str) -> list[str] | None:
    """Returns what may stand where the unfinished word is; None for files."""
    by_words = {command.words: command for command in commands}
    place: tuple[str, ...] = ()
    for word in words:
        place = (*place, word) if (*place, word) in by_words else place
    command = by_words[place]
    option = next((one for one in command.options if words and words[-1] in one.names and one.has_value), None)
    if option is not None:
        return None if option.is_file else [value for value in option.values if value.startswith(unfinished)]
    if unfinished.startswith("-"):
        return [name for one in command.options for name in one.names if name.startswith(unfinished)]
    if command.takes_files:
        return None
    return [name for name in (*command.commands, *command.values) if name.startswith(unfinished)]


# --- scripts ---------------------------------------------------------------------------------------------------------


def bash_script(commands: Sequence[Command]) -> str:
    """Returns a script for bash."""
    places = "|".join(f'"{" ".join(command.words)}"' for command in commands if command.words)
    lines = [
        "# bash completion for berth: source <(berth completion bash)",
        "_berth() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local place="" word words="" index',
        "  for ((index = 1; index < COMP_CWORD; index++)); do",
        '    word="${place:+$place }${COMP_WORDS[index]}"',
        f'    case "$word" in {places}) place="$word" ;; esac',
        "  done",
        '  case "$place:$previous" in',
        *_bash_values(commands),
        "  esac",
        '  case "$place" in',
        *_bash_words(commands),
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -F _berth berth",
    ]
    return "\n".join(lines) + "\n"


def _bash_values(commands: Sequence[Command]) -> Iterator[str]:
    """Yields what follows an option; nothing is offered for values that nobody can know."""
    for command in commands:
        place = " ".join(command.words)
        for option in command.options:
            if not option.has_value:
                continue
            cases = "|".join(f'"{place}:{name}"' for name in option.names)
            if option.is_file:
                yield f'    {cases}) COMPREPLY=($(compgen -f -- "$current")); return ;;'
            else:
                yield f'    {cases}) COMPREPLY=($(compgen -W "{" ".join(option.values)}" -- "$current")); return ;;'


def _bash_words(commands: Sequence[Command]) -> Iterator[str]:
    for command in commands:
        options = " ".join(name for option in command.options for name in option.names)
        others = " ".join((*command.commands, *command.values))
        yield f'    "{" ".join(command.words)}")'
        yield f'      if [[ "$current" == -* ]]; then words="{options}"'
        if command.takes_files:
            yield '      else COMPREPLY=($(compgen -f -- "$current")); return'
        else:
            yield f'      else words="{others}"'
        yield "      fi ;;"


def zsh_script(commands: Sequence[Command]) -> str:
    """Returns a script for zsh, which understands that of bash."""
    first = "# zsh completion for berth: source <(berth completion zsh)"
    return f"{first}\nautoload -U +X bashcompinit && bashcompinit\n{bash_script(commands)}"


def fish_script(commands: Sequence[Command]) -> str:
    """Returns a script for fish."""
    lines = ["# fish completion for berth: berth completion fish > ~/.config/fish/completions/berth.fish"]
    for command in commands:
        when = _fish_condition(command)
        files = "" if command.takes_files else " -f"
        lines.append(f"complete -c {PROGRAM}{files} -n {_quoted(when)}")
        for name, text in (*command.commands.items(), *((value, "") for value in command.values)):
            lines.append(f"complete -c {PROGRAM} -n {_quoted(when)} -a {name} -d {_quoted(text)}")
        lines += [_fish_option(option, when) for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_condition(command: Command) -> str:
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words)
    below = " ".join(command.commands)
    not_yet = f"not __fish_seen_subcommand_from {below}" if below else ""
    return "; and ".join(part for part in (seen, not_yet) if part)


def _fish_option(option: Option, when: str) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = f" -x -a {_quoted(' '.join(option.values))}" if option.values else " -r" if option.has_value else ""
    return f"complete -c {PROGRAM} -n {_quoted(when)} {names}{value} -d {_quoted(option.text)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
