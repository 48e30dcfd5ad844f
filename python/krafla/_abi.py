# SPDX-License-Identifier: Apache-2.0
"""krafla/krafla.h by ctypes: declarations, and statuses as exceptions. Nothing here is compiled for a version of Python."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

ABI_VERSION = 5

CODES = ("OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
         "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
         "UNAUTHENTICATED").split()


class Error(RuntimeError):
    """What krafla refused or could not do. `code` is the status code's name: "INVALID_ARGUMENT"."""

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Cancelled(Error):
    pass


class InvalidArgument(Error, ValueError):
    pass


class NotFound(Error, LookupError):
    pass


class DeadlineExceeded(Error, TimeoutError):
    pass


class OutOfMemory(Error, MemoryError):
    pass


class Unimplemented(Error, NotImplementedError):
    pass


_ERRORS = {"CANCELLED": Cancelled, "INVALID_ARGUMENT": InvalidArgument, "NOT_FOUND": NotFound,
           "DEADLINE_EXCEEDED": DeadlineExceeded, "RESOURCE_EXHAUSTED": OutOfMemory, "UNIMPLEMENTED": Unimplemented}


class _Sized(Structure):
    def __init__(self, **fields: Any):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class TensorInfo(_Sized):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("type", c_int32), ("rank", c_int32),
                ("dims", POINTER(c_int64)), ("dynamic", c_uint64), ("bytes", c_size_t)]


class ClientOptions(_Sized):
    _fields_ = [("struct_size", c_size_t), ("threads", c_int32), ("wait_limit_ms", c_int32),
                ("cache_folder", c_char_p), ("memory_limit", c_int64), ("parallel_for", c_void_p),
                ("parallel_for_user", c_void_p)]


PROGRESS = ctypes.CFUNCTYPE(None, c_int32, c_int32, c_void_p)
DONE = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
RELEASE = ctypes.CFUNCTYPE(None, c_void_p)


class InputSizes(Structure):
    _fields_ = [("name", c_char_p), ("sizes", POINTER(c_int64)), ("rank", c_size_t)]


class SessionOptions(_Sized):
    _fields_ = [("struct_size", c_size_t), ("strict", c_int32), ("concurrent_runs", c_int32), ("for_profile", c_int32),
                ("reserved", c_int32), ("progress", PROGRESS), ("progress_user", c_void_p),
                ("input_sizes", POINTER(InputSizes)), ("input_sizes_count", c_size_t), ("enabled", c_char_p),
                ("disabled", c_char_p)]


class RunOptions(_Sized):
    _fields_ = [("struct_size", c_size_t), ("timeout_us", c_int64), ("cancel", c_void_p)]


class Memory(Structure):  # krafla_input and krafla_output
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class BufferInput(Structure):
    _fields_ = [("buffer", c_void_p), ("donated", c_int32), ("reserved", c_int32)]


# name: (what it gives, what it takes); "status" is a krafla_status*, raised unless NULL.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "abi_version": (c_uint32, []),
    "version": (c_char_p, []),
    "status_code": (c_int32, [c_void_p]),
    "status_message": (c_char_p, [c_void_p]),
    "status_free": (None, [c_void_p]),
    "text_data": (c_char_p, [c_void_p]),
    "text_free": (None, [c_void_p]),
    "type_name": (c_char_p, [c_int32]),
    "type_bytes": (c_size_t, [c_int32]),
    "devices_list": ("status", [POINTER(c_void_p)]),
    "devices_count": (c_size_t, [c_void_p]),
    "devices_selector": (c_char_p, [c_void_p, c_size_t]),
    "devices_description": (c_char_p, [c_void_p, c_size_t]),
    "devices_free": (None, [c_void_p]),
    "client_create": ("status", [c_char_p, POINTER(ClientOptions), POINTER(c_void_p)]),
    "client_selector": (c_char_p, [c_void_p]),
    "client_description": (c_char_p, [c_void_p]),
    "client_free": (None, [c_void_p]),
    "session_load_file": ("status", [c_void_p, c_char_p, POINTER(SessionOptions), POINTER(c_void_p)]),
    "session_load_bytes": ("status", [c_void_p, c_char_p, c_size_t, POINTER(SessionOptions), POINTER(c_void_p)]),
    "session_free": (None, [c_void_p]),
    "session_input_count": (c_size_t, [c_void_p]),
    "session_output_count": (c_size_t, [c_void_p]),
    "session_input": ("status", [c_void_p, c_size_t, POINTER(TensorInfo)]),
    "session_output": ("status", [c_void_p, c_size_t, POINTER(TensorInfo)]),
    "session_placement": (c_char_p, [c_void_p]),
    "session_run": ("status", [c_void_p, POINTER(Memory), c_size_t, POINTER(Memory), c_size_t, POINTER(RunOptions)]),
    "session_warm": ("status", [c_void_p, POINTER(RunOptions)]),
    "session_profile": ("status", [c_void_p, c_int32, POINTER(c_void_p)]),
    "session_submit": ("status", [c_void_p, POINTER(Memory), c_size_t, POINTER(Memory), c_size_t, POINTER(RunOptions),
                                  DONE, c_void_p, POINTER(c_void_p)]),
    "submission_is_done": (c_int32, [c_void_p]),
    "submission_wait": ("status", [c_void_p, c_int64]),
    "submission_cancel": (None, [c_void_p]),
    "submission_free": (None, [c_void_p]),
    "buffer_create": ("status", [c_void_p, c_int32, POINTER(c_int64), c_size_t, c_void_p, c_size_t, c_int32, RELEASE,
                                 c_void_p, POINTER(c_void_p)]),
    "buffer_info": ("status", [c_void_p, POINTER(TensorInfo)]),
    "buffer_wait": ("status", [c_void_p]),
    "buffer_read": ("status", [c_void_p, c_void_p, c_size_t]),
    "buffer_free": (None, [c_void_p]),
    "inputs_of_file": ("status", [c_char_p, POINTER(c_void_p)]),
    "inputs_of_bytes": ("status", [c_char_p, c_size_t, POINTER(c_void_p)]),
    "session_run_buffers": ("status", [c_void_p, POINTER(BufferInput), c_size_t, POINTER(c_void_p), c_size_t,
                                       POINTER(RunOptions)]),
    "cancel_create": ("status", [POINTER(c_void_p)]),
    "cancel_request": (None, [c_void_p]),
    "cancel_free": (None, [c_void_p]),
}


class Library:
    """libkrafla.so with Python's types: `library.session_run(..)` is krafla_session_run, and raises what it refuses."""

    def __init__(self, path: str):
        self.path = path
        self._library = ctypes.CDLL(path)
        for name, (gives, takes) in _FUNCTIONS.items():
            function = getattr(self._library, "krafla_" + name)
            function.argtypes = takes
            function.restype = c_void_p if gives == "status" else gives
            setattr(self, name, self._raising(function) if gives == "status" else function)
        if self.abi_version() < ABI_VERSION:
            raise ImportError(f"{path} has version {self.abi_version()} of the C interface; this package needs "
                              f"{ABI_VERSION}.")

    def __getattr__(self, name: str) -> Any:  # for type checkers: all attributes are set above
        raise AttributeError(name)

    def _raising(self, function: Any) -> Any:
        def call(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                code = CODES[self.status_code(status)]
                message = self.status_message(status).decode(errors="replace")
                self.status_free(status)
                raise _ERRORS.get(code, Error)(code, message)
        return call
