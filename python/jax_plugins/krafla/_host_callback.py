# SPDX-License-Identifier: Apache-2.0
"""Python functions that a compiled program calls: jax.pure_callback, io_callback, jax.debug, checkify.

JAX's own way hands function pointers to platforms that it knows by name. Here the program holds a custom call
`krafla_python_callback` whose backend_config names the function: "id:SALT:N" one of this process, kept alive by the
executable that calls it, or "name:NAME:JSON" one that every process with this package has (_linalg.py). The plugin
calls one C function, set below, with arrays in host memory.
"""
import collections
import ctypes
import functools
import itertools
import json
import os
import traceback
import weakref

import numpy as np

TARGET = "krafla_python_callback"


class _Array(ctypes.Structure):
    # KraflaHostArray in plugins/pjrt/python_callback.h
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_size_t), ("type", ctypes.c_char_p)]


_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Array), ctypes.c_size_t,
                             ctypes.POINTER(_Array), ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)


class _Owner:
    """What an executable keeps alive so that its function stays in the table."""


# Runs that were begun may outlive their executable: that many functions stay after their owners have gone, several
# times as many as runs that a device lets wait.
_RETIRED = 1024

_SALT = os.urandom(8).hex()
_ids = itertools.count()
_functions = {}
_retired = collections.deque()
_named = {}
_installed = None  # what ctypes must keep


def register_named(name, make):
    """make(parameters) gives a function of arrays that returns a tuple of arrays. It also takes `results`, the shape and
    dtype of each: a program that was exported with symbolic shapes learns them when it is compiled."""
    _named[name] = make


def _dtypes():
    import ml_dtypes

    table = {"pred": np.bool_, "f16": np.float16, "f32": np.float32, "f64": np.float64, "c64": np.complex64,
             "c128": np.complex128, "bf16": ml_dtypes.bfloat16}
    for bits in (8, 16, 32, 64):
        table[f"s{bits}"] = np.dtype(f"int{bits}")
        table[f"u{bits}"] = np.dtype(f"uint{bits}")
    for bits in (2, 4):
        for short, long in (("s", "int"), ("u", "uint")):
            if hasattr(ml_dtypes, f"{long}{bits}"):
                table[f"{short}{bits}"] = getattr(ml_dtypes, f"{long}{bits}")
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
                 "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn"):
        if hasattr(ml_dtypes, name):
            table[name.replace("float", "f").replace("_", "")] = getattr(ml_dtypes, name)
    return {name: np.dtype(dtype) for name, dtype in table.items()}


_DTYPES = _dtypes()


def _view(array):
    dtype = _DTYPES[array.type.decode()]
    dims = tuple(array.dims[i] for i in range(array.rank))
    if array.bytes == 0:
        return np.zeros(dims, dtype)
    memory = (ctypes.c_char * array.bytes).from_address(array.data)
    return np.frombuffer(memory, dtype=dtype, count=int(np.prod(dims, dtype=np.int64))).reshape(dims)


def _find(config, results):
    if config.startswith('"'):  # as HLO text has it
        config = json.loads(config)
    kind, first, rest = config.split(":", 2)
    if kind == "name":
        if first not in _named:
            raise RuntimeError(f"The program calls the host function {first!r}, which this version of krafla does not "
                               "have.")
        return functools.partial(_named[first](json.loads(rest)), results=results)
    function = _functions.get(int(rest)) if first == _SALT else None
    if function is None:
        raise RuntimeError("The program calls a Python function of another process.")
    return function


def _retire(number):
    # May run within any allocation of this thread: no lock, and what a deque and a dictionary do alone is atomic.
    _retired.append(number)
    if len(_retired) > _RETIRED:
        _functions.pop(_retired.popleft(), None)


def _call(config, config_size, operands, n_operands, results, n_results, error, error_capacity):
    try:
        views = [_view(results[i]) for i in range(n_results)]
        function = _find(ctypes.string_at(config, config_size).decode(), [(v.shape, v.dtype) for v in views])
        # Copies: what the function keeps must outlive the call.
        out = function(*(_view(operands[i]).copy() for i in range(n_operands)))
        if len(out) != n_results:
            raise RuntimeError(f"Mismatched number of outputs from callback. Expected: {n_results}, Actual: {len(out)}")
        for view, value in zip(views, out):
            view[...] = np.asarray(value).astype(view.dtype, copy=False)
        return 0
    except BaseException:  # nothing may cross the C frame
        text = traceback.format_exc().encode("utf-8", "replace")
        text = text[-(error_capacity - 1):] if len(text) >= error_capacity else text
        ctypes.memmove(error, text + b"\0", len(text) + 1)
        return 1


def _emit(config, operands, result_types, has_side_effect):
    from jax._src.interpreters import mlir

    return mlir.custom_call(TARGET, result_types=result_types, operands=operands, backend_config=config,
                            api_version=1, has_side_effect=has_side_effect)


def custom_call(ctx, target, operands, result_avals, config="", num_batch_dims=0):
    """A custom call without effects. Its results may have symbolic shapes. The first num_batch_dims dimensions of all
    operands and results count problems that may be spread over devices."""
    from jax._src.interpreters import mlir

    types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in result_avals]
    shapes = None
    if any(not isinstance(d, int) for aval in result_avals for d in aval.shape):
        shapes = [mlir.eval_dynamic_shape_as_tensor(ctx, aval.shape) for aval in result_avals]
    attributes = None
    if num_batch_dims > 0:
        attributes = {"mhlo.frontend_attributes": mlir.ir_attribute({"num_batch_dims": str(num_batch_dims)})}
    return mlir.custom_call(target, result_types=types, operands=list(operands), backend_config=config, api_version=1,
                            result_shapes=shapes, extra_attributes=attributes).results


def named_call(ctx, name, parameters, operands, result_avals, num_batch_dims):
    """A custom call of a registered function."""
    return custom_call(ctx, TARGET, operands, result_avals, f"name:{name}:{json.dumps(parameters)}", num_batch_dims)


def _make_emitter(original, platform):
    def emit_python_callback(ctx, callback, token, operands, operand_avals, result_avals, *args, **options):
        if list(ctx.module_context.platforms) != [platform]:
            return original(ctx, callback, token, operands, operand_avals, result_avals, *args, **options)
        from jax._src import dtypes
        from jax._src.interpreters import mlir
        from jax._src.lib.mlir.dialects import hlo

        def checked(*arrays):
            out = tuple(dtypes.canonicalize_value(np.asarray(a)) for a in callback(*arrays))
            if len(out) != len(result_avals):
                raise RuntimeError("Mismatched number of outputs from callback. "
                                   f"Expected: {len(result_avals)}, Actual: {len(out)}")
            for i, (value, aval) in enumerate(zip(out, result_avals)):
                if value.shape != aval.shape:
                    raise RuntimeError(f"Incorrect output shape for return value #{i}: "
                                       f"Expected: {aval.shape}, Actual: {value.shape}")
                if value.dtype != aval.dtype:
                    raise RuntimeError(f"Incorrect output dtype for return value #{i}: "
                                       f"Expected: {aval.dtype}, Actual: {value.dtype}")
            return out

        owner, number = _Owner(), next(_ids)
        _functions[number] = checked
        weakref.finalize(owner, _retire, number).atexit = False
        ctx.module_context.add_keepalive(owner)
        types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in result_avals]
        if token:
            operands, types = [token, *operands], [hlo.TokenType.get(), *types]
        call = _emit(f"id:{_SALT}:{number}", list(operands), types, options.get("has_side_effect", True))
        if options.get("sharding") is not None and not token:
            mlir.set_sharding(ctx.module_context, call, options["sharding"])
        results = list(call.results)
        if token:
            token, *results = results
        return results, token, owner

    emit_python_callback.krafla = True
    return emit_python_callback


def install(platform, library):
    global _installed
    if _installed is not None:
        return
    setter = ctypes.CDLL(library).krafla_set_python_callback
    setter.argtypes, setter.restype = [_FUNCTION], None
    _installed = _FUNCTION(_call)
    setter(_installed)

    # Named functions keep their names and parameters, so programs that call them may be exported and serialized. Functions
    # of one process are kept alive by their executable, and jax.export refuses programs that need that.
    from jax._src.export import _export

    _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE.update((TARGET, "krafla_svd"))

    from jax._src import callback, checkify, debugging
    from jax._src.interpreters import mlir

    callback.emit_python_callback = _make_emitter(callback.emit_python_callback, platform)
    # pure_callback and io_callback lower alike on every platform; these do not.
    mlir.register_lowering(debugging.debug_callback_p, debugging.debug_callback_lowering, platform=platform,
                           cacheable=False)
    if hasattr(debugging, "debug_print_p"):
        mlir.register_lowering(debugging.debug_print_p, debugging.debug_print_lowering_rule, platform=platform,
                               cacheable=False)
    mlir.register_lowering(checkify.check_p, checkify.check_lowering_rule, platform=platform, cacheable=False)
