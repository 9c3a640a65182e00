"""A growing export as plain Parquet: a manifest per run, whose metadata has the watermarks.

OUTPUT/data/topic=T/partition=P/NUMBER-SEGMENT-POSITION.parquet
OUTPUT/manifest/NUMBER.parquet        the files of that run; its rename publishes it
OUTPUT/run.json, OUTPUT/_SUCCESS      the last run
"""

from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq
from typing_extensions import override

from pipeline.core.errors import BadInputError
from pipeline.jobs.export.growing import Book, ExportState, write_synced
from pipeline.jobs.export.tasks import Exported, manifest_of
from pipeline.jobs.job import RUN_NAME, SUCCESS_NAME
from pipeline.jobs.publishing import sync

_FOLDER: Final = "manifest"
_NAMES: Final = f"{'[0-9]' * 10}.parquet"
_STATE_KEY: Final = b"kraftline.export"
_RUN_KEY: Final = b"kraftline.run"


class ManifestBook(Book):
    """The manifests in a folder."""

    data_name = "data"

    @override
    def is_part(self, name: str) -> bool:
        return name in (self.data_name, _FOLDER, RUN_NAME, SUCCESS_NAME)

    @override
    def is_begun(self) -> bool:
        return self._last() is not None

    @override
    def state(self) -> ExportState | None:
        last = self._last()
        if last is None:
            return None
        try:
            return msgspec.json.decode(_about(last, _STATE_KEY), type=ExportState)
        except (ValueError, RecursionError) as error:
            raise _unreadable(last) from error

    @override
    def check_columns(self, state: ExportState, columns: tuple[str, ...]) -> None:
        kept = state.layout.columns
        if columns != kept:
            differ = sorted(set(columns) ^ set(kept)) or columns
            raise BadInputError(
                f"{self.output} has other columns ({', '.join(differ)}): --columns and --mode must"
                " be as when it began"
            )

    @override
    def is_published(self, number: int) -> bool:
        return self._place(number).exists()

    @override
    def publish(
        self, folder: Path, exported: list[Exported], state: ExportState, run: bytes
    ) -> None:
        about = {_STATE_KEY: msgspec.json.encode(state), _RUN_KEY: run}
        made = folder / _FOLDER
        manifest = manifest_of(exported).replace_schema_metadata(about)
        pq.write_table(manifest, made, compression="zstd")
        sync(made)
        place = self._place(state.number)
        place.parent.mkdir(exist_ok=True)
        sync(self.output)
        made.rename(place)
        sync(place.parent)

    @override
    def complete(self) -> None:
        last = self._last()
        if last is None:
            return
        run, place = _about(last, _RUN_KEY), self.output / RUN_NAME
        if not place.exists() or place.read_bytes() != run:
            write_synced(place, run)
        (self.output / SUCCESS_NAME).touch()

    def _last(self) -> Path | None:
        """The manifest with the highest number; names have one length, others are not ours."""
        return max((self.output / _FOLDER).glob(_NAMES), default=None)

    def _place(self, number: int) -> Path:
        return self.output / _FOLDER / f"{number:010d}.parquet"


def _about(manifest: Path, key: bytes) -> bytes:
    """Read a value of a manifest's metadata."""
    try:
        found: bytes = pq.read_schema(manifest).metadata[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(manifest) from error
    return found


def _unreadable(manifest: Path) -> BadInputError:
    return BadInputError(f"{manifest}: can not be read, so nothing can be appended")
