# SPDX-License-Identifier: Apache-2.0
"""krafla: HLO and StableHLO programs on Vulkan devices and the CPU.

The wheel carries the command `krafla`, the library libkrafla.so with its C++ headers, and libpjrt_krafla.so, through
which JAX uses Vulkan devices (the package jax_plugins.krafla registers it; nothing has to be imported by hand).
"""
import os
import pathlib
import subprocess
import sys

__all__ = ["__version__", "command_path", "include_path", "library_path", "pjrt_library_path", "run"]
__version__ = "0.1.0"

_HERE = pathlib.Path(__file__).resolve().parent


def _find(what, variable, *names):
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


def command_path():
    """The program `krafla`; KRAFLA_COMMAND names another one."""
    return _find("program", "KRAFLA_COMMAND", "bin/krafla")


def library_path():
    """libkrafla.so, for programs that embed krafla; KRAFLA_LIBRARY names another one."""
    return _find("libkrafla.so", "KRAFLA_LIBRARY", "lib/libkrafla.so", "lib64/libkrafla.so")


def pjrt_library_path():
    """libpjrt_krafla.so, the PJRT plugin; KRAFLA_PJRT_LIBRARY names another one."""
    return _find("libpjrt_krafla.so", "KRAFLA_PJRT_LIBRARY", "lib/libpjrt_krafla.so", "lib64/libpjrt_krafla.so")


def include_path():
    """The folder with krafla/krafla.h."""
    return str(_HERE / "include")


def run(*arguments, **options):
    """Runs the command with these arguments: subprocess.run([command_path(), ...], **options)."""
    return subprocess.run([command_path(), *map(str, arguments)], **options)


def _main():
    try:
        program = command_path()
    except FileNotFoundError as error:
        sys.exit(f"krafla: {error}")
    if (_HERE / "share" / "digits").exists():
        os.environ.setdefault("KRAFLA_DEMO_DIR", str(_HERE / "share" / "digits"))
    os.execv(program, [program, *sys.argv[1:]])
