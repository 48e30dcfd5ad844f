# SPDX-License-Identifier: Apache-2.0
"""krafla.load."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Callable, Mapping, Sequence

from krafla import _abi
from krafla._buffer import Client, Handle, path_bytes, text_bytes
from krafla._model import Model
from krafla._open_model import OpenModel, OpenTensor


def load(program: str | os.PathLike[str] | bytes, device: str | Client = "", *, threads: int = 0,
         concurrent_runs: int = 0, shapes: Mapping[str, Sequence[int]] | None = None, strict: bool = False,
         profile: bool = False, cache_folder: str | os.PathLike[str] | None = None, memory_limit: int = 0,
         progress: Callable[[int, int], None] | None = None, enable: str | Sequence[str] = (),
         disable: str | Sequence[str] = (), kept_shapes: int = 8) -> Model | OpenModel:
    """Makes a program ready: a path, or the bytes, of HLO text, a HloModuleProto, StableHLO, ONNX or a compiled model.

    device: "cpu", "vulkan", "vulkan:1", ..; "" is the best one here; or a Client, with options of its own, which several
    models share with their buffers. threads: of the CPU's kernels; 0: as many as there are processors. concurrent_runs:
    how many threads may be in the model at once on the CPU. shapes: of inputs of which the program leaves sizes open, by
    name or number ("0"); where some are missing, the model is made ready for those of each call (OpenModel), which keeps
    the last `kept_shapes` of these, each with weights of its own. strict: refuse a program of which a step is not taken
    by the device. profile: Model.profile may be called. progress(done, total): told of kernels that are ready. enable,
    disable: features and passes by name, as the command has them.
    """
    if isinstance(device, Client):
        if threads or cache_folder is not None or memory_limit:
            raise TypeError("threads, cache_folder and memory_limit are the client's; this program is loaded by one.")
        client = device
    else:
        client = Client(device, threads=threads, cache_folder=cache_folder, memory_limit=memory_limit)
    if kept_shapes < 1:
        raise ValueError(f"kept_shapes is at least 1, not {kept_shapes}.")
    if isinstance(program, (bytes, bytearray, memoryview)):
        program = bytes(program)

    def make(given: Mapping[str, Sequence[int]]) -> Model:
        options = _abi.SessionOptions(strict=strict, concurrent_runs=concurrent_runs, for_profile=profile,
                                      enabled=_names(enable), disabled=_names(disable))
        raised: list[BaseException] = []
        if progress is not None:
            options.progress = _abi.PROGRESS(_telling(progress, raised))
        sizes = [_abi.InputSizes(text_bytes("input", name), (ctypes.c_int64 * len(shape))(*shape), len(shape))
                 for name, shape in given.items()]
        options.input_sizes = (_abi.InputSizes * len(sizes))(*sizes)
        options.input_sizes_count = len(sizes)
        session = _made(client, program, options)
        if raised:
            raise raised[0]
        return Model(client, session)

    given = dict(shapes or {})
    try:
        return make(given)
    except (_abi.InvalidArgument, _abi.Unimplemented):
        # It may be that sizes are missing, and what is wrong else is said again where it is made ready for them.
        inputs = _inputs_of(client, program)
        known = {name for i, t in enumerate(inputs) for name in (str(i), t.name) if name in given}
        missing = [t for i, t in enumerate(inputs) if t.is_open and not known & {str(i), t.name}]
        if not missing or len(known) < len(given):
            raise
    return OpenModel(inputs, given, make, kept_shapes)


def _made(client: Client, program: str | os.PathLike[str] | bytes, options: _abi.SessionOptions) -> Handle:
    library, session = client._library, Handle(client._library.session_free)
    handle, to = client._handle.pointer, ctypes.byref(session.pointer)
    if isinstance(program, bytes):
        library.session_load_bytes(handle, program, len(program), ctypes.byref(options), to)
    else:
        library.session_load_file(handle, path_bytes(program), ctypes.byref(options), to)
    return session


def _inputs_of(client: Client, program: str | os.PathLike[str] | bytes) -> list[OpenTensor]:
    """Nothing where the program cannot be read that far."""
    text = Handle(client._library.text_free)
    try:
        if isinstance(program, bytes):
            client._library.inputs_of_bytes(program, len(program), ctypes.byref(text.pointer))
        else:
            client._library.inputs_of_file(path_bytes(program), ctypes.byref(text.pointer))
    except _abi.Error:
        return []
    listed: list[dict[str, Any]] = json.loads(client._library.text_data(text.pointer))
    return [OpenTensor(t["name"], None if t["dims"] is None else tuple(t["dims"]), t["type"]) for t in listed]


def _names(names: str | Sequence[str]) -> bytes:
    return text_bytes("list of features", names if isinstance(names, str) else ",".join(names))


def _telling(progress: Callable[[int, int], None], raised: list[BaseException]) -> Callable[[int, int, Any], None]:
    """Nothing can be raised through the library: the first is kept, and the last that `progress` is told of."""
    if not callable(progress):
        raise TypeError(f"progress is a function of two numbers, not {progress!r}.")

    def tell(done: int, total: int, _user: Any) -> None:
        if raised:
            return
        try:
            progress(done, total)
        except BaseException as error:
            raised.append(error)
    return tell
