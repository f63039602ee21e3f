"""`kafka-dump-log`: the content of segment, index and snapshot files."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ottla.cli.options import Option, Parser

PARSER = Parser(
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly "
    "corrupt log segment.",
    [
        Option("files", "REQUIRED: files to dump, with commas.", "file1, file2, ..."),
        Option("print-data-log", "Also keys and values."),
        Option("deep-iteration", "Also records inside compressed batches."),
        Option("skip-record-metadata", "Keys and values only."),
        Option("verify-index-only", "Only verify indexes, print no entries."),
        Option("index-sanity-check", "Only check sizes of indexes."),
        Option("max-message-size", "Accepted without effect.", "size", "Integer", default="5242880"),
        Option("max-bytes", "Read so many bytes of each log.", "size", "Integer", default="2147483647"),
        Option("offsets-decoder", "Decode records of __consumer_offsets."),
        Option("value-decoder-class", "Only String.", "", optional=True),
        Option("key-decoder-class", "Only String.", "", optional=True),
    ],
)


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    PARSER.need(given, "files")
    return dump(
        [path.strip() for path in given.need("files").split(",")],
        print_data="print-data-log" in given or "offsets-decoder" in given,
        deep="deep-iteration" in given or "print-data-log" in given,
        skip_metadata="skip-record-metadata" in given,
        max_bytes=given.count("max-bytes"),
        verify_index_only="verify-index-only" in given,
        index_sanity_check="index-sanity-check" in given,
        offsets="offsets-decoder" in given,
    )


def dump(
    paths: Sequence[str],
    *,
    print_data: bool = False,
    deep: bool = False,
    skip_metadata: bool = False,
    max_bytes: int = 2**31 - 1,
    verify_index_only: bool = False,
    index_sanity_check: bool = False,
    offsets: bool = False,
) -> int:
    """Print each file; files that do not belong to a log are named on stderr. 1 if one cannot be read."""
    from ottla.storage.checkpoint import BadCheckpoint
    from ottla.storage.disk.local import LocalDisk
    from ottla.storage.maintenance.dump import Complaint, DumpOptions, UnknownFile, UnreadableFile, dump_file

    options = DumpOptions(
        deep=deep,
        print_data=print_data,
        skip_metadata=skip_metadata,
        max_bytes=max_bytes,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        decode=None,
    )
    if offsets:
        from ottla.cli.kafka.offsets_decoder import decode_record

        options = options._replace(decode=decode_record)
    disk, failed = LocalDisk(), 0
    for path in paths:
        try:
            for line in dump_file(disk, path, options):
                (sys.stderr if isinstance(line, Complaint) else sys.stdout).write(line + "\n")
        except UnknownFile as fault:
            sys.stdout.flush()
            sys.stderr.write(f"{fault}\n")
        except (UnreadableFile, BadCheckpoint) as fault:
            sys.stdout.flush()
            sys.stderr.write(f"{fault}\n")
            failed = 1
    return failed
