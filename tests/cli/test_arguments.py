"""The parser of all commands."""

from cli.arguments import Parser


def test_what_argparse_gives_a_subcommand_is_taken() -> None:
    """From Python 3.14 on it gives `color`; texts have none."""
    parser = Parser("kraftline x", "y", usage="words")
    assert parser.format_usage() == "usage: words\n"
    assert parser.color is False
