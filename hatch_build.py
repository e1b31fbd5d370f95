"""Compile kernels/_fast.cpp while the package is built; without a compiler numpy serves.

hatchling calls this for wheels and editable installs. The loops use the limited API of CPython
3.11: one binary serves every later version. Processors of x86-64 get three: the first serves
all, the others those of x86-64-v3 (AVX2) and -v4 (AVX-512), chosen where the package is imported.
The last takes two thirds to four fifths of the time of -v3 on long rows of float32.

With FEDWQCP_BACKEND=compiled a failed compilation is an error, with numpy nothing is compiled.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path(__file__).parent / "src" / "fedwqcp" / "kernels"
SOURCE = KERNELS / "_fast.cpp"
# No -ffast-math and no fused products: every rounding of the reference happens here too.
UNIX = [
    *("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno"),
    *("-fno-trapping-math", "-ffp-contract=off", "-fopenmp-simd"),
]


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling runs before it packs a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say in one line why not where that fails."""
        del version
        wanted = os.environ.get("FEDWQCP_BACKEND", "")
        if self.target_name != "wheel" or wanted == "numpy":
            return
        try:
            built = compile_all()
        except (OSError, subprocess.SubprocessError) as error:
            if wanted == "compiled":
                raise
            self.app.display_warning(f"fedwqcp: the loops were not compiled, numpy serves: {error}")
            return
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{system}"
        for path in built:
            build_data["force_include"][str(path)] = f"fedwqcp/kernels/{path.name}"


def compile_all() -> list[Path]:
    """Compile the module, and on x86-64 others for newer processors where the compiler can."""
    levels = [3, 4] if platform.machine() == "x86_64" else []
    if "arm64" in os.environ.get("ARCHFLAGS", ""):
        levels = []
    with ThreadPoolExecutor() as pool:
        newer = [
            pool.submit(compile_one, f"_fast_v{level}", [f"-march=x86-64-v{level}"])
            for level in levels
        ]
        return [compile_one("_fast", []), *(job.result() for job in newer if not job.exception())]


def compile_one(name: str, options: list[str]) -> Path:
    """Compile one module beside its source."""
    digest = blake2b(SOURCE.read_bytes().replace(b"\r\n", b"\n"), digest_size=8).hexdigest()
    define = {"FAST_MODULE": name, "FAST_DIGEST": f'"{digest}"'}
    include = sysconfig.get_path("include")
    if sys.platform == "win32":
        return _with_msvc(name, define, include)
    compiler = next(
        filter(shutil.which, [os.environ.get("CXX", ""), "c++", "g++", "clang++"]), None
    )
    if compiler is None:
        raise FileNotFoundError("no C++ compiler (c++, g++, clang++) is on PATH")
    out = KERNELS / f"{name}.abi3.so"
    mine = out.with_suffix(f".{os.getpid()}")  # another build may read or replace it meanwhile
    shared = ["-shared"]
    if sys.platform == "darwin":
        shared = [
            "-bundle",
            "-undefined",
            "dynamic_lookup",
            *os.environ.get("ARCHFLAGS", "").split(),
        ]
    flags = [*UNIX, *options, *shared, *(f"-D{key}={value}" for key, value in define.items())]
    flags += os.environ.get("CXXFLAGS", "").split()
    _run([compiler, *flags, f"-I{include}", str(SOURCE), "-o", str(mine)])
    return mine.replace(out)


def _with_msvc(name: str, define: dict[str, str], include: str) -> Path:
    """Compile where Visual Studio's tools are on PATH, as a developer's prompt has them."""
    out, folder = KERNELS / f"{name}.pyd", Path(sysconfig.get_config_var("installed_base"))
    flags = ["/nologo", "/LD", "/O2", "/EHsc", "/std:c++17", "/fp:precise"]
    define = define | {"FAST_DIGEST": define["FAST_DIGEST"].replace('"', '\\"')}
    defines = [f"/D{key}={value}" for key, value in define.items()]
    link = ["/link", f"/LIBPATH:{folder / 'libs'}", f"/EXPORT:PyInit_{name}"]
    _run(["cl", *flags, *defines, f"/I{include}", str(SOURCE), f"/Fe:{out}", *link])
    return out


def _run(command: list[str]) -> None:
    """Run the compiler; what it says is shown where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise OSError(f"{command[0]} failed: {first.strip()[:300]}")
