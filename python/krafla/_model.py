# SPDX-License-Identifier: Apache-2.0
"""A program as an object to call with numpy arrays."""
from __future__ import annotations

import atexit
import ctypes
import dataclasses
import json
import math
import os
import threading
from concurrent import futures
from typing import Any, Collection, Mapping, Sequence

import numpy as np

from krafla import _abi
from krafla._buffer import Buffer, Client, Handle, dtype_of


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or an output of a program. Of a dynamic dimension `shape` has the bound."""
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    type: str  # krafla's name of the element type: "bf16"
    dynamic: bool = False  # a dimension of the shape is a bound; a run decides how large it is

    def __str__(self) -> str:
        return f"{self.name}: {self.type}[{','.join(map(str, self.shape))}]"


@dataclasses.dataclass(frozen=True)
class Step:
    """What a step of the program takes in a run: a kernel, a copy, a loop."""
    kernel: str
    family: str
    op_name: str
    source: str
    place: str
    times: int
    ms: float
    flops: float
    bytes: float


@dataclasses.dataclass(frozen=True)
class Profile:
    run_ms: float
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        rows = [f"{s.ms:10.4f} ms  {s.times:6d} x  {s.place:10s} {s.family:12s} {s.kernel}  {s.op_name}"
                for s in sorted(self.steps, key=lambda s: -s.ms)]
        return "\n".join([f"a run takes {self.run_ms:.4f} ms", *rows])

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for ui.perfetto.dev and chrome://tracing: the steps one after the other."""
        at, events = 0.0, []
        for s in self.steps:
            events.append({"name": s.kernel, "cat": s.family, "ph": "X", "pid": 1, "tid": s.place, "ts": at,
                           "dur": s.ms * 1000, "args": {"op_name": s.op_name, "source": s.source, "times": s.times}})
            at += s.ms * 1000
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)


_library: _abi.Library | None = None
_library_lock = threading.Lock()


def load_library() -> _abi.Library:
    global _library
    with _library_lock:
        if _library is None:
            from krafla import library_path
            _library = _abi.Library(library_path())
        return _library


def devices() -> list[tuple[str, str]]:
    """(selector, description) of the devices that are here, best first."""
    library = load_library()
    listed = Handle(library.devices_free)
    library.devices_list(ctypes.byref(listed.pointer))
    return [(library.devices_selector(listed.pointer, i).decode(), library.devices_description(listed.pointer, i).decode())
            for i in range(library.devices_count(listed.pointer))]


class Run(futures.Future):
    """A run that was submitted. result() is what calling the model gives."""

    def __init__(self, library: _abi.Library) -> None:
        super().__init__()
        self._cancel_handle = Handle(library.cancel_free)
        self._library = library
        library.cancel_create(ctypes.byref(self._cancel_handle.pointer))

    def cancel(self) -> bool:
        """Ends the run as soon as it can; result() then raises krafla.Cancelled. False where it is done already."""
        if self.done():
            return False
        self._library.cancel_request(self._cancel_handle.pointer)
        return True


_running: set[Run] = set()


@atexit.register
def _end_runs() -> None:
    """A run that ended after the interpreter could not say so."""
    for run in list(_running):
        run.cancel()
        futures.wait([run])


class Model:
    """A program made ready for a device. Made by krafla.load; may be called by several threads at once."""

    def __init__(self, client: Client, session: Handle):
        library = client._library
        self.client, self._library, self._session = client, library, session
        self.inputs: tuple[Tensor, ...] = self._tensors(library.session_input_count, library.session_input)
        self.outputs: tuple[Tensor, ...] = self._tensors(library.session_output_count, library.session_output)
        self._pending: dict[int, Any] = {}  # what runs in the background use, by number
        self._ended: list[int] = []
        self._next = 0
        self._worker: futures.ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def _tensors(self, count: Any, info_of: Any) -> tuple[Tensor, ...]:
        out = []
        for i in range(count(self._session.pointer)):
            info = _abi.TensorInfo()
            info_of(self._session.pointer, i, ctypes.byref(info))
            name = self._library.type_name(info.type).decode()
            out.append(Tensor(info.name.decode(errors="replace"), tuple(info.dims[: info.rank]),
                              dtype_of(name, self._library.type_bytes(info.type)), name, info.dynamic != 0))
        return tuple(out)

    @property
    def placement(self) -> str:
        """Where the program runs: "412/412 instructions on vulkan:0 (..); 61 kernels"."""
        return self._library.session_placement(self._session.pointer).decode(errors="replace")

    @property
    def device(self) -> str:
        return self.client.device

    def __repr__(self) -> str:
        return (f"krafla.Model({', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}; "
                f"{self.placement})")

    def _given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[np.ndarray]:
        if len(args) > len(self.inputs):
            raise TypeError(f"The model takes {len(self.inputs)} inputs, {len(args)} were given.")
        names = [t.name for t in self.inputs]
        by_name = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names:
                raise TypeError(f"The model has no input {name!r}; its inputs are {', '.join(names)}.")
            if name in by_name:
                raise TypeError(f"The input {name!r} was given by position and by name.")
            by_name[name] = value
        missing = [str(t) for t in self.inputs if t.name not in by_name]
        if missing:
            raise TypeError(f"Inputs are missing: {'; '.join(missing)}.")
        return [self._array(t, by_name[t.name]) for t in self.inputs]

    @staticmethod
    def _array(tensor: Tensor, value: Any) -> np.ndarray:
        """In the memory that it has, where that is dense."""
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            try:
                value = np.from_dlpack(value)
            except (BufferError, RuntimeError, TypeError):  # another device, or a type that dlpack's users lack
                pass
        array = np.asarray(value)
        if array.dtype != tensor.dtype:
            # Numbers of Python's have no type of their own.
            if isinstance(value, (int, float, bool, complex, list, tuple)):
                array = Model._numbers(tensor, array)
            else:
                raise TypeError(f"The input {tensor.name!r} is {tensor.dtype}, {array.dtype} was given.")
        if array.shape != tensor.shape:
            raise ValueError(f"The input {tensor.name!r} has the shape {list(tensor.shape)}, "
                             f"{list(array.shape)} was given.")
        if array.nbytes and array.ctypes.data % min(array.dtype.itemsize, 8):
            array = array.copy()
        return np.require(array, requirements="C")

    @staticmethod
    def _numbers(tensor: Tensor, array: np.ndarray) -> np.ndarray:
        """Python's numbers as the input's, those that its type has. Floats are rounded."""
        is_whole = tensor.type[0] in "su" or tensor.type == "pred"
        kinds = "biu" if is_whole else "biufc" if tensor.type[0] == "c" else "biuf"
        if array.size and array.dtype.kind not in kinds:
            raise TypeError(f"The input {tensor.name!r} is {tensor.dtype}, {array.dtype} was given.")
        made = array.astype(tensor.dtype)
        if is_whole and not np.array_equal(made.astype(object), array.astype(object)):
            raise OverflowError(f"The input {tensor.name!r} is {tensor.dtype}, which does not have all of the numbers given.")
        return made

    def _results(self, out: Any) -> list[np.ndarray]:
        if out is None:
            return [np.empty(t.shape, t.dtype) for t in self.outputs]
        arrays = [out] if isinstance(out, np.ndarray) else list(out)
        if not all(isinstance(a, np.ndarray) for a in arrays):
            raise TypeError("The memory for the outputs is a numpy array, or a list of them.")
        if len(arrays) != len(self.outputs):
            raise TypeError(f"The model gives {len(self.outputs)} outputs, memory for {len(arrays)} was given.")
        for tensor, array in zip(self.outputs, arrays):
            if array.shape != tensor.shape or array.dtype != tensor.dtype or not array.flags.c_contiguous or \
                    not array.flags.writeable:
                raise ValueError(f"The memory for the output {tensor} must be a dense array of that shape and type "
                                 "that may be written to.")
        return arrays

    @staticmethod
    def _memory(arrays: Sequence[np.ndarray]) -> Any:
        return (_abi.Memory * len(arrays))(*((a.ctypes.data if a.nbytes else None, a.nbytes) for a in arrays))

    @staticmethod
    def _micros(timeout: float | None) -> int:
        if timeout is None:
            return 0
        if not timeout > 0:
            raise ValueError(f"A timeout is a number of seconds above 0, not {timeout}.")
        return max(1, min(math.ceil(timeout * 1e6) if timeout < 1e12 else 2**62, 2**62))

    def _shaped(self, results: list[np.ndarray]) -> Any:
        return results[0] if len(results) == 1 else tuple(results)

    def __call__(self, *args: Any, out: Any = None, timeout: float | None = None, **kwargs: Any) -> Any:
        """Runs once. Inputs by position or name, as numpy arrays or whatever has __dlpack__; in the memory that they
        have, if it is dense. One array, or a tuple of them; into `out`, if that is given, which may be an input's memory. `timeout` in seconds. Outputs
        whose size depends on the data have the size that they turn out to have."""
        inputs = self._given(args, kwargs)
        if self._is_sized_by_run(out):
            return self._run_sized(inputs, _abi.RunOptions(timeout_us=self._micros(timeout)))
        results = self._results(out)
        options = _abi.RunOptions(timeout_us=self._micros(timeout))
        self._library.session_run(self._session.pointer, self._memory(inputs), len(inputs), self._memory(results),
                                  len(results), ctypes.byref(options))
        return self._shaped(results)

    def submit(self, *args: Any, out: Any = None, timeout: float | None = None, **kwargs: Any) -> Run:
        """The same later, in the order of submission: a concurrent.futures.Future. The inputs must not change until it
        is done."""
        inputs, run = self._given(args, kwargs), Run(self._library)
        options = _abi.RunOptions(timeout_us=self._micros(timeout), cancel=run._cancel_handle.pointer)
        if self._is_sized_by_run(out):
            return self._submit_sized(run, inputs, options)
        results = self._results(out)
        with self._lock:
            number = self._next
            self._next += 1

        def done(status: Any, _user: Any) -> None:
            error = None
            if status:
                code = _abi.CODES[self._library.status_code(status)]
                message = self._library.status_message(status).decode(errors="replace")
                error = _abi._ERRORS.get(code, _abi.Error)(code, message)
            _running.discard(run)
            if error is not None:
                run.set_exception(error)
            else:
                run.set_result(self._shaped(results))
            # The function that is running is let go of by the next submission, or with the model.
            with self._lock:
                self._ended.append(number)

        callback = _abi.DONE(done)
        with self._lock:
            for ended in self._ended[:-1]:
                self._pending.pop(ended, None)
            del self._ended[:-1]
            self._pending[number] = (callback, inputs, results)
        run.set_running_or_notify_cancel()
        _running.add(run)
        try:
            self._library.session_submit(self._session.pointer, self._memory(inputs), len(inputs),
                                         self._memory(results), len(results), ctypes.byref(options), callback, None,
                                         None)
        except _abi.Error:
            _running.discard(run)
            with self._lock:
                self._pending.pop(number, None)
            raise
        return run

    def _is_sized_by_run(self, out: Any) -> bool:
        """Buffers alone say how large such outputs are."""
        return out is None and any(t.dynamic for t in self.inputs + self.outputs)

    def _run_sized(self, inputs: Sequence[Any], options: _abi.RunOptions) -> Any:
        return self._shaped([buffer.numpy() for buffer in self._run_buffers(inputs, (), options)])

    def _submit_sized(self, run: Run, inputs: Sequence[Any], options: _abi.RunOptions) -> Run:
        """On a thread of the model's own: the C interface submits runs whose outputs have memory already."""
        def work() -> None:
            try:
                result = self._run_sized(inputs, options)
            except BaseException as error:
                _running.discard(run)
                run.set_exception(error)
            else:
                _running.discard(run)
                run.set_result(result)

        with self._lock:
            if self._worker is None:
                self._worker = futures.ThreadPoolExecutor(1, "krafla")
        run.set_running_or_notify_cancel()
        _running.add(run)
        self._worker.submit(work)
        return run

    def run_buffers(self, *args: Any, donate: Collection[int] = (), timeout: float | None = None) -> tuple[Buffer, ...]:
        """Runs once on arrays that stay on the device: all inputs in their order, as buffers (krafla.Buffer) or as what
        calling the model takes. Gives a buffer for each output, maybe before the device is done. `donate`: the places
        of inputs that nobody reads any more; an output that takes the place of one is written into its memory."""
        return self._run_buffers(args, donate, _abi.RunOptions(timeout_us=self._micros(timeout)))

    def _run_buffers(self, args: Sequence[Any], donate: Collection[int], options: _abi.RunOptions) -> tuple[Buffer, ...]:
        if len(args) != len(self.inputs):
            raise TypeError(f"The model takes {len(self.inputs)} inputs, {len(args)} were given.")
        for place in donate:
            if place not in range(len(args)):
                raise IndexError(f"donate has {place!r}; the places of inputs are from 0 to {len(args) - 1}.")
        buffers = [a if isinstance(a, Buffer) else self.client.put(self._array(t, a), type=t.type)
                   for t, a in zip(self.inputs, args)]
        given = (_abi.BufferInput * len(buffers))(*((b._handle.pointer.value, i in donate, 0)
                                                    for i, b in enumerate(buffers)))
        made = (ctypes.c_void_p * len(self.outputs))()
        self._library.session_run_buffers(self._session.pointer, given, len(buffers), made, len(self.outputs),
                                          ctypes.byref(options))
        handles = []
        for pointer in made:
            handles.append(Handle(self._library.buffer_free))
            handles[-1].pointer = ctypes.c_void_p(pointer)
        return tuple(Buffer(self._library, handle) for handle in handles)

    def warm(self, timeout: float | None = None) -> None:
        """One run on zeros, so that the next is as fast as all others."""
        options = _abi.RunOptions(timeout_us=self._micros(timeout))
        self._library.session_warm(self._session.pointer, ctypes.byref(options))

    def profile(self, runs: int = 10) -> Profile:
        """Where the time of a run on zeros goes. Of a model that was loaded with profile=True."""
        text = Handle(self._library.text_free)
        self._library.session_profile(self._session.pointer, runs, ctypes.byref(text.pointer))
        document = json.loads(self._library.text_data(text.pointer))
        return Profile(document["run_ms"], tuple(Step(**s) for s in document["steps"]))
