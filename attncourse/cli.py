"""The command line: `attncourse get`, `check`, `release`, `grade`."""

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="attncourse")
def main() -> None:
    """Work with the exercises of the attention course."""
