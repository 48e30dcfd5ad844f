# SPDX-License-Identifier: Apache-2.0
"""krafla: HLO and StableHLO programs on Vulkan devices and the CPU.

`krafla.load("model.mlirbc")` gives an object to call with numpy arrays. The wheel carries the command `krafla`, the library libkrafla.so with its C and C++ headers, and libpjrt_krafla.so, through
which JAX uses Vulkan devices (the package jax_plugins.krafla registers it; nothing has to be imported by hand).
"""
from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from krafla._abi import Cancelled, DeadlineExceeded, Error, InvalidArgument, NotFound, OutOfMemory, Unimplemented

if TYPE_CHECKING:
    from krafla._buffer import Buffer, Client
    from krafla._load import load
    from krafla._model import Model, Profile, Run, Step, Tensor, devices
    from krafla._open_model import OpenModel, OpenTensor

__all__ = ["Buffer", "Cancelled", "Client", "DeadlineExceeded", "Error", "InvalidArgument", "Model", "NotFound",
           "OpenModel", "OpenTensor", "OutOfMemory", "Profile", "Run", "Step", "Tensor", "Unimplemented", "__version__", "command_path", "devices", "include_path",
           "library_path", "load", "pjrt_library_path", "run"]
__version__ = "0.1.0"

_HERE = pathlib.Path(__file__).resolve().parent


# What needs numpy, which the rest of the package does without, and the module that has it.
_LAZY = {"Buffer": "_buffer", "Client": "_buffer", "Model": "_model", "OpenModel": "_open_model", "OpenTensor": "_open_model",
         "Profile": "_model", "Run": "_model", "Step": "_model", "Tensor": "_model", "devices": "_model", "load": "_load"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'krafla' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"krafla.{_LAZY[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise ModuleNotFoundError(f"krafla.{name} needs numpy: pip install 'krafla[numpy]'.", name="numpy") from None


def _find(what: str, variable: str, *names: str) -> str:
    named = os.environ.get(variable)
    if named:
        if not os.path.exists(named):
            raise FileNotFoundError(f"{variable} names {named}, which does not exist.")
        return named
    for name in names:
        if (_HERE / name).exists():
            return str(_HERE / name)
    raise FileNotFoundError(
        f"This installation of the package krafla has no {what} (looked for {', '.join(names)} in {_HERE}); "
        f"set {variable} to one that was built elsewhere.")


def command_path() -> str:
    """The program `krafla`; KRAFLA_COMMAND names another one."""
    return _find("program", "KRAFLA_COMMAND", "bin/krafla")


def library_path() -> str:
    """libkrafla.so, for programs that embed krafla; KRAFLA_LIBRARY names another one. In the source tree: the one that
    was built there."""
    built = ("../../build/release/libkrafla.so",) if (_HERE / "../../CMakeLists.txt").exists() else ()
    return _find("libkrafla.so", "KRAFLA_LIBRARY", "lib/libkrafla.so", "lib64/libkrafla.so", *built)


def pjrt_library_path() -> str:
    """libpjrt_krafla.so, the PJRT plugin; KRAFLA_PJRT_LIBRARY names another one."""
    return _find("libpjrt_krafla.so", "KRAFLA_PJRT_LIBRARY", "lib/libpjrt_krafla.so", "lib64/libpjrt_krafla.so")


def include_path() -> str:
    """The folder with krafla/krafla.h and krafla/krafla.hpp."""
    return str(_HERE / "include")


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Runs the command with these arguments: subprocess.run([command_path(), ...], **options)."""
    return subprocess.run([command_path(), *map(str, arguments)], **options)


def _main() -> None:
    try:
        program = command_path()
    except FileNotFoundError as error:
        sys.exit(f"krafla: {error}")
    if (_HERE / "share" / "digits").exists():
        os.environ.setdefault("KRAFLA_DEMO_DIR", str(_HERE / "share" / "digits"))
    os.execv(program, [program, *sys.argv[1:]])
