"""`ricci config`: the settings that the environment can change."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from .. import config
from .arguments import Commands, add_command, add_json
from .output import print_json, print_table


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "config", "list the settings and their values now", show)
    add_json(parser)


def show(options: Namespace) -> int:
    if options.json:
        print_json(
            [
                {"variable": k.variable, "value": str(k.value()), "help": k.help}
                for k in config.KNOBS
            ]
        )
        return 0
    rows = [[k.variable, str(k.value()), k.help] for k in config.KNOBS]
    print_table(["variable", "value", "meaning"], rows)
    return 0
