"""What `import sdrop` does beyond importing torch: little, and nothing that others would see."""

import subprocess
import sys

WATCHED_IMPORT = """
import sys
import torch

def watch(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        writes = isinstance(mode, str) and set(mode) & set("wax+")
        if writes and not str(path).endswith((".pyc", "/dev/null")) and ".pyc." not in str(path):
            seen.append((event, str(path), mode))
    elif event.startswith(("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork")):
        seen.append((event, str(arguments)))
    elif event in ("os.mkdir", "os.remove", "os.rename", "socket.connect"):
        if "__pycache__" not in str(arguments) and ".pyc" not in str(arguments):
            seen.append((event, str(arguments)))

seen = []
before = set(sys.modules)
sys.addaudithook(watch)
import sdrop
assert not seen, seen
new = {name.split(".")[0] for name in set(sys.modules) - before}
print(" ".join(sorted(new & {"hydra", "omegaconf", "lightning_fabric", "torchtext", "matplotlib",
                             "rich", "safetensors", "tensorboard"})))
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )


def test_import_starts_no_process_writes_no_file_and_warns_of_nothing():
    result = run(WATCHED_IMPORT)
    assert result.returncode == 0, result.stderr


def test_import_brings_in_none_of_the_packages_of_the_recipes():
    assert run(WATCHED_IMPORT).stdout.strip() == ""


def test_backends_say_which_there_are_and_why_others_are_missing():
    code = "import sdrop; print(sdrop.backends())"
    result = run(code)
    assert result.returncode == 0, result.stderr
    assert "'reference': 'available'" in result.stdout


def test_the_typing_marker_is_shipped():
    from importlib.resources import files

    assert (files("sdrop") / "py.typed").is_file()
