# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where records are kept: a folder, what fsspec reaches, or a receiver of CloudEvents.

All of it blocks; the writer's thread calls it. Raises OSError, or what fsspec raises, when a record
cannot be kept.
"""

import logging
import os
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO, Any, Final, Protocol

import orjson

from backends.api.bytes_tensor import deserialize_bytes
from backends.api.errors import InvalidArgumentError
from backends.api.request import Tensor, tensor_as_numpy
from deployments.captures.records import CaptureRecord, KeptTensor, to_line
from deployments.captures.rules import CaptureLimits

logger = logging.getLogger(__name__)

_PART: Final = ".part"
# Before an object is written once more; nobody waits but the writer's thread.
_RETRIES_S: Final = (0.5, 2.0)
_POST_TIMEOUT_S: Final = 10.0
# KServe: pkg/logger/worker.go CEInferenceRequest, CEInferenceResponse
_REQUEST_EVENT: Final = "org.kubeflow.serving.inference.request"
_RESPONSE_EVENT: Final = "org.kubeflow.serving.inference.response"


class CaptureStore(Protocol):
    """Keeps records."""

    def write(self, record: CaptureRecord) -> None:
        """Keep a record, for good at the latest when `rotate` has returned."""

    def rotate(self, *, is_last: bool = False) -> None:
        """Finish what has become large or old enough; with ``is_last`` all of it."""


def open_store(url: str, limits: CaptureLimits, process: str) -> CaptureStore:
    """Return the store at a URL.

    Args:
        url: A folder, a URL of fsspec or an ``http`` one.
        limits: When files end.
        process: A name for this process, unique in the cluster: files of several do not meet.

    Raises:
        InvalidArgumentError: There is no such kind of store here.
        OSError: The folder cannot be made.
    """
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme in ("http", "https"):
        return EventStore(url, process)
    if scheme in ("", "file"):
        folder = Path(url.removeprefix("file://"))
        folder.mkdir(parents=True, exist_ok=True)
        return FolderStore(folder, limits, process)
    return ObjectStore(_filesystem(url), url, limits, process)


def _filesystem(url: str) -> Any:
    import fsspec  # noqa: PLC0415 - most servers capture nothing

    try:
        return fsspec.core.url_to_fs(url)[0]
    except (ValueError, ImportError) as error:
        shown = url.partition("://")[0] + "://..."
        raise InvalidArgumentError(
            f"store: got '{shown}', which cannot be reached: {error}"
        ) from None


class FolderStore:
    """Files of a folder; the one that is being written ends in ``.part``."""

    def __init__(self, folder: Path, limits: CaptureLimits, process: str) -> None:
        self._folder = folder
        self._limits = limits
        self._process = process
        self._number = 0
        self._file: IO[bytes] | None = None
        self._path = folder
        self._began_s = 0.0

    def write(self, record: CaptureRecord) -> None:
        """Append a record."""
        if self._file is None:
            self._number += 1
            self._path = self._folder / f"{self._process}-{self._number:06}.jsonl"
            # What clients send is nobody else's to read.
            place = os.open(f"{self._path}{_PART}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._file = os.fdopen(place, "ab")
            self._began_s = time.monotonic()
        self._file.write(to_line(record))
        self._file.flush()

    def rotate(self, *, is_last: bool = False) -> None:
        """Give the file its name."""
        file = self._file
        if file is None:
            return
        is_old = time.monotonic() - self._began_s >= self._limits.rotate_s
        if is_last or is_old or file.tell() >= self._limits.rotate_bytes:
            self._file = None
            file.close()
            Path(f"{self._path}{_PART}").rename(self._path)


class ObjectStore:
    """Objects below a URL, each written at once when enough has come together."""

    def __init__(self, filesystem: Any, url: str, limits: CaptureLimits, process: str) -> None:
        self._filesystem = filesystem
        self._url = url.rstrip("/")
        self._limits = limits
        self._process = process
        self._number = 0
        self._lines: list[bytes] = []
        self._size_bytes = 0
        self._began_s = 0.0

    def write(self, record: CaptureRecord) -> None:
        """Collect a record."""
        if not self._lines:
            self._began_s = time.monotonic()
        line = to_line(record)
        self._lines.append(line)
        self._size_bytes += len(line)

    def rotate(self, *, is_last: bool = False) -> None:
        """Write what was collected; what cannot be written is given up."""
        if not self._lines:
            return
        is_old = time.monotonic() - self._began_s >= self._limits.rotate_s
        if not (is_last or is_old or self._size_bytes >= self._limits.rotate_bytes):
            return
        content = b"".join(self._lines)
        self._lines, self._size_bytes = [], 0
        self._number += 1
        day = time.strftime("%Y/%m/%d", time.gmtime())
        place = f"{self._url}/{day}/{self._process}-{self._number:06}.jsonl"
        for wait_s in _RETRIES_S:
            try:
                self._filesystem.pipe_file(place, content)
            except Exception:
                # Each filesystem raises its own.
                logger.warning("captures: '%s' is not written yet", place.rpartition("/")[2])
                time.sleep(wait_s)
            else:
                return
        self._filesystem.pipe_file(place, content)


class EventStore:
    """A receiver of CloudEvents in HTTP's binary mode, as KServe's logger and Seldon's send them.

    One event is posted for each half that is kept; its data is the V2 JSON of it.
    """

    def __init__(self, url: str, process: str) -> None:
        self._url = url
        self._source = f"manta/{process}"

    def write(self, record: CaptureRecord) -> None:
        """Post the halves."""
        if record.request is not None:
            asked = record.request
            self._post(
                record,
                _REQUEST_EVENT,
                {
                    "id": asked.id,
                    "parameters": dict(asked.parameters),
                    "inputs": [_plain(each) for each in asked.inputs],
                },
            )
        for response in record.responses:
            self._post(
                record,
                _RESPONSE_EVENT,
                {
                    "model_name": record.model,
                    "model_version": record.version,
                    "parameters": dict(response.parameters),
                    "outputs": [_plain(each) for each in response.outputs],
                },
            )
        if record.outcome != "ok":
            body = {"error": record.message, "code": record.outcome}
            self._post(record, _RESPONSE_EVENT, body)

    def rotate(self, *, is_last: bool = False) -> None:
        """Do nothing: what was posted is kept."""

    def _post(self, record: CaptureRecord, kind: str, body: dict[str, Any]) -> None:
        headers = {
            "Content-Type": "application/json",
            "Ce-Specversion": "1.0",
            "Ce-Id": record.id,
            "Ce-Type": kind,
            "Ce-Source": self._source,
            "Ce-Inferenceservicename": urllib.parse.quote(record.model, safe=""),
            "Ce-Modelversion": record.version,
            "Ce-Endpoint": urllib.parse.quote(record.arm, safe=""),
        }
        # The operator named the URL, whose scheme `open_store` has looked at.
        request = urllib.request.Request(self._url, orjson.dumps(body), headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=_POST_TIMEOUT_S):  # noqa: S310
            pass


def _plain(tensor: KeptTensor) -> dict[str, Any]:
    """Return the V2 JSON of a tensor."""
    shown: dict[str, Any] = {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "shape": list(tensor.shape),
    }
    if tensor.omitted:
        return shown | {"parameters": {"omitted": tensor.omitted, "size_bytes": tensor.size_bytes}}
    if tensor.datatype == "BYTES":
        elements = deserialize_bytes(memoryview(tensor.data))
        return shown | {"data": [each.decode("utf-8", "replace") for each in elements]}
    values = tensor_as_numpy(
        Tensor(tensor.name, tensor.datatype, tensor.shape, memoryview(tensor.data))
    )
    return shown | {"data": values.reshape(-1).tolist()}
