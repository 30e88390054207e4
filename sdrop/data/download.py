"""Fetching one file: checked, in one piece or not at all, and by one process at a time."""

import contextlib
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from sdrop.data.errors import DataError

SECONDS_TO_ANSWER = 30
SECONDS_FOR_ANOTHER = 600
CHUNK = 1 << 16


def fetch(address: str, destination: Path, *, md5: str, advice: str) -> None:
    """Download `address` to `destination`, unless another process has put it there meanwhile.

    The content goes to a temporary file in the same folder, which takes the final name only once
    its MD5 is right; whatever goes wrong, no part of it is left.

    Args:
        address: http or https address of the file.
        destination: where it belongs; the folder is made where it is missing.
        md5: its MD5 in hexadecimal.
        advice: what to do by hand, the end of every error message.

    Raises:
        DataError: no connection, an answer other than 200, another content, a folder that cannot
            be written to, or another process that has been downloading for ten minutes.
    """
    try:
        with _alone(destination):
            if not destination.exists():
                _download(address, destination, md5)
    except DataError as error:
        raise DataError(f"{error}\n{advice}") from None


@dataclass(frozen=True)
class _Received:
    size: int
    announced: int | None
    md5: str
    is_html: bool

    def fault(self, address: str, expected_md5: str) -> str:
        """Why this is not the file."""
        if self.announced is not None and self.size < self.announced:
            return f"{address} broke off: {self.size:,} of {self.announced:,} bytes came"
        what = "a web page" if self.is_html else f"{self.size:,} bytes"
        return f"{address} sent {what} with MD5 {self.md5}; expected MD5 {expected_md5}"


@contextlib.contextmanager
def _alone(destination: Path) -> Iterator[None]:
    """Hold the lock file beside `destination`."""
    lock = destination.with_name(f".{destination.name}.lock")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(lock).acquire(timeout=SECONDS_FOR_ANOTHER)
    except Timeout:
        raise DataError(f"another process is downloading {destination} and holds {lock}") from None
    except OSError as error:
        raise DataError(f"cannot write to {destination.parent}: {error.strerror}") from None
    try:
        with held:
            yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()


def _download(address: str, destination: Path, md5: str) -> None:
    # The process's number keeps two apart where a network folder knows no locks.
    part = destination.with_name(f".{destination.name}.{os.getpid()}.part")
    try:
        received = _receive(address, part)
        if received.md5 != md5:
            raise DataError(received.fault(address, md5))
        part.replace(destination)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise DataError(f"{address} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DataError(f"no connection to {address}: {error.reason}") from None
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise DataError(f"the connection to {address} broke off: {error}") from None
    except OSError as error:
        raise DataError(f"cannot write {destination}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _receive(address: str, part: Path) -> _Received:
    digest, size, beginning = hashlib.md5(usedforsecurity=False), 0, b""
    with (
        urllib.request.urlopen(address, timeout=SECONDS_TO_ANSWER) as answer,
        part.open("wb") as file,
    ):
        while chunk := answer.read(CHUNK):
            beginning = beginning or chunk[:64]
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        announced = answer.headers.get("Content-Length")
    return _Received(
        size=size,
        announced=int(announced) if announced else None,
        md5=digest.hexdigest(),
        is_html=beginning.lstrip().lower().startswith((b"<!doctype html", b"<html")),
    )
