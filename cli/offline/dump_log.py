"""`kraftline dump-log`: segments, snapshots and indexes as text (kafka-dump-log's flags, lines).

Exit code 0; 1 when a file cannot be read to its end. With `--json` one object per line.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from cli.arguments import INT32_MAX, Parser, integer, text

UNSUPPORTED_DECODERS: Final = ("--remote-log-metadata-decoder", "--share-group-state-decoder")
DECODERS: Final = {
    "cluster-metadata-decoder": "records are metadata records: print them as JSON",
    "offsets-decoder": "records are those of __consumer_offsets: print them as JSON",
    "transaction-log-decoder": "records are those of __transaction_state: print them as JSON",
}


def run(arguments: Sequence[str]) -> int:
    """Print the named files and return the exit code."""
    options = _parse(arguments)
    from cli.offline.dump_files import dump  # noqa: PLC0415  # help must not wait for the codecs

    return dump(options)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline dump-log", "Print segments, snapshots, indexes.")
    parser.add_argument("--files", required=True, type=text, help="files, separated by commas")
    parser.flags(
        {
            "print-data-log": "print the records, not only the batches",
            "deep-iteration": "look at every record of a batch",
            **DECODERS,
            "index-sanity-check": "check the form of index files only",
            "verify-index-only": "check index files against the log without printing them",
            "skip-record-metadata": "print only keys and payloads of records",
            "json": "one JSON object per line",
        }
    )
    parser.add_argument(
        "--max-bytes", type=integer(1), default=INT32_MAX, help="read no more of a file"
    )
    for flag in UNSUPPORTED_DECODERS:
        parser.add_argument(flag, action="store_true", help="not supported")
    options = parser.parse_args(arguments)
    for flag in UNSUPPORTED_DECODERS:
        if getattr(options, flag[2:].replace("-", "_")):
            parser.error(f"{flag} is not supported")
    chosen = [flag for flag in DECODERS if getattr(options, flag.replace("-", "_"))]
    if len(chosen) > 1:
        parser.error(f"--{chosen[0]} and --{chosen[1]} cannot be used together")
    return options
