"""Building the CUDA library, with a stand-in for nvcc; what a real one makes of it stands in
test_resources.py."""

import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]

NVCC = """#!/bin/sh
echo "$@" >> "{calls}"
case "$1" in
  --version) echo "Cuda compilation tools, release {release}"; exit;;
  --list-gpu-code) echo "{codes}"; exit;;
esac
{body}
"""
WRITES = 'while [ "$1" != -o ]; do shift; done; echo built > "$2"; echo "ptxas info" >&2'
FAILS = 'echo "some words" >&2; echo "row.cu(3): error: no such thing" >&2; exit 1'
ALL = "sm_80\nsm_86\nsm_90\nsm_100\nsm_120"


@pytest.fixture
def build_cuda(monkeypatch, tmp_path):
    """The build script, for two small sources in a folder whose name holds a space."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "kernels"))
    import build_cuda

    sources = tmp_path / "the sources"
    sources.mkdir()
    (sources / "rows.cuh").write_text("// rows\n")
    (sources / "row.cu").write_text('#include "rows.cuh"\n')
    (sources / "plain.cu").write_text("#include <cstdint>\n")
    monkeypatch.setattr(build_cuda, "SOURCES", sources)
    monkeypatch.setattr(build_cuda.cpu, "why_not", lambda: None)
    monkeypatch.delenv("SDROP_BUILD_CUDA", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    yield build_cuda
    sys.modules.pop("build_cuda")


@pytest.fixture
def nvcc(monkeypatch, tmp_path):
    """Puts a stand-in on PATH; the file that it writes its calls into."""
    folder, calls = tmp_path / "the toolkit" / "bin", tmp_path / "calls"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(release="13.0", codes=ALL, body=WRITES):
        calls.unlink(missing_ok=True)
        script = folder / "nvcc"
        script.write_text(NVCC.format(calls=calls, release=release, codes=codes, body=body))
        script.chmod(0o755)
        return calls

    return make


def compiled(calls):
    """The names of the sources that were compiled."""
    text = calls.read_text() if calls.exists() else ""
    return sorted(re.findall(r"-c .*/(\w+\.cu) -o", text))


def test_without_nvcc_the_reason_says_what_to_install(build_cuda, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_cuda.why_not().startswith("not built: no nvcc was found on PATH")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert f"no nvcc was found in CUDA_HOME={tmp_path / 'cuda'}" in build_cuda.why_not()


def test_cuda_home_goes_before_path(build_cuda, nvcc, monkeypatch, tmp_path):
    nvcc()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "the toolkit"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert build_cuda.find_compiler().path == str(tmp_path / "the toolkit" / "bin" / "nvcc")


def test_the_switch_leaves_it_out(build_cuda, nvcc, monkeypatch):
    nvcc()
    assert build_cuda.why_not() is None
    monkeypatch.setenv("SDROP_BUILD_CUDA", "0")
    assert build_cuda.why_not().startswith("not built: SDROP_BUILD_CUDA=0 was set")


def test_what_the_cpu_kernels_lack_the_cuda_kernels_lack_too(build_cuda, nvcc, monkeypatch):
    nvcc()
    monkeypatch.setattr(build_cuda.cpu, "why_not", lambda: "not built: no C++ compiler was found")
    assert build_cuda.why_not() == "not built: no C++ compiler was found"


def test_a_release_too_old_for_anything_is_told(build_cuda, nvcc):
    nvcc(release="11.8")
    assert build_cuda.why_not().startswith("not built: nvcc 11.8 is too old; install CUDA 12.0")


def test_architectures_that_nvcc_does_not_know_are_left_out_with_a_line(build_cuda, nvcc, tmp_path):
    calls = nvcc(release="12.4", codes="sm_80\nsm_86\nsm_90\nsm_90a")
    said = build_cuda.build(tmp_path / "lib.so", tmp_path / "objects")
    assert said.startswith("nvcc 12.4 does not know sm_100, sm_120")
    assert "arch=compute_90,code=[sm_90,compute_90]" in calls.read_text()
    assert "sm_100" not in calls.read_text()


def test_a_failing_compiler_gives_its_first_error_in_a_line(build_cuda, nvcc, tmp_path):
    nvcc(body=FAILS)
    with pytest.raises(build_cuda.CannotBuildError) as raised:
        build_cuda.build(tmp_path / "lib.so", tmp_path / "objects")
    assert "(row.cu(3): error: no such thing)" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "lib.so").exists()


def test_objects_that_cannot_be_kept_are_a_reason_too(build_cuda, nvcc, tmp_path):
    nvcc()
    (tmp_path / "a file").touch()
    with pytest.raises(build_cuda.CannotBuildError, match="not built: .*a file"):
        build_cuda.build(tmp_path / "lib.so", tmp_path / "a file" / "objects")


def test_only_what_changed_is_compiled_again(build_cuda, nvcc, tmp_path):
    library, objects = tmp_path / "lib.so", tmp_path / "the objects"
    calls = nvcc()
    assert build_cuda.build(library, objects) is None
    assert library.exists()
    assert compiled(calls) == ["plain.cu", "row.cu"]
    calls = nvcc()
    build_cuda.build(library, objects)
    assert compiled(calls) == []
    (build_cuda.SOURCES / "rows.cuh").write_text("// other rows\n")
    build_cuda.build(library, objects)
    assert compiled(calls) == ["row.cu"]
    kept = {path.suffix for path in objects.iterdir()}
    assert kept == {".o", ".log"}
    assert len(list(objects.iterdir())) == 4
    nvcc(release="13.1")
    build_cuda.build(library, objects)
    assert compiled(calls) == ["plain.cu", "row.cu"]


@pytest.mark.parametrize("has", [True, False])
def test_a_wheel_tells_whether_it_holds_the_kernels(build_cuda, monkeypatch, tmp_path, capsys, has):
    wheel = tmp_path / "sdrop.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sdrop/_CUDA.so" if has else "sdrop/_CUDA.missing", "not built: no nvcc\n")
    monkeypatch.setattr(sys, "argv", ["build_cuda.py", str(wheel)])
    build_cuda.main()
    said = "with CUDA kernels" if has else "WITHOUT CUDA kernels, which are not built: no nvcc"
    assert capsys.readouterr().out == f"{wheel}: {said}\n"
