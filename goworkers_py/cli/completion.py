"""`completion`: prints the script by which a shell completes the commands of `pyworkers` and their options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from goworkers_py.cli.base import FAILED, fail


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints a script that completes commands and options.

    \b
    bash: pyworkers completion bash > ~/.local/share/bash-completion/completions/pyworkers
    zsh:  pyworkers completion zsh > DIR/_pyworkers, with a DIR that is in $fpath
    fish: pyworkers completion fish > ~/.config/fish/completions/pyworkers.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        fail(f"this release of click cannot complete in {shell}", FAILED)
    # click reads this variable when a program with the name `pyworkers` starts.
    click.echo(kind(context.find_root().command, {}, "pyworkers", "_PYWORKERS_COMPLETE").source())
