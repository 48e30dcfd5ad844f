# SPDX-License-Identifier: Apache-2.0
"""Decompositions that JAX takes from LAPACK on the CPU and from vendor libraries on GPUs.

cholesky, triangular_solve, lu, qr, householder products, and eigh and svd of small matrices are instructions or custom
calls of krafla itself; the others run in LAPACK (NumPy's and SciPy's) on the host, as named host functions
(_host_callback.py). Where LAPACK does not converge, or the matrix has NaNs or infinities, the results are NaN, as
everywhere in JAX.
"""
import functools

import numpy as np

from . import _host_callback


_LAPACK_LETTER = {np.dtype(dtype): letter for dtype, letter in
                  ((np.float32, "s"), (np.float64, "d"), (np.complex64, "c"), (np.complex128, "z"))}


def _lapack(name, dtype):
    import scipy.linalg.lapack

    return getattr(scipy.linalg.lapack, _LAPACK_LETTER[dtype] + name)


def _as_lapack_has_it(a):
    """Types that LAPACK does not know, f16, bf16 and f8 of all kinds, are decomposed as f32; the results are rounded."""
    return a if a.dtype in _LAPACK_LETTER or a.dtype.kind in "biu" else a.astype(np.float32)


def _stacked(decompose):
    """Calls decompose(a), which gives a tuple, once for all matrices of a batch; NaN for those that are not finite or do
    not converge. Gives arrays like `results`."""

    def run(a, results):
        good = np.isfinite(a).all((-2, -1))
        a = np.where(good[..., None, None], a, 0)
        try:
            found = decompose(a)
        except np.linalg.LinAlgError:  # one of them does not converge: zeros always do
            good = good.copy()
            for at in np.ndindex(*good.shape):
                try:
                    decompose(a[at])
                except np.linalg.LinAlgError:
                    good[at] = False
            found = decompose(np.where(good[..., None, None], a, 0))
        out = []
        for (shape, dtype), value in zip(results, found):
            array = np.array(value, dtype).reshape(shape)
            array[~good] = np.nan
            out.append(array)
        return tuple(out)

    return run


def _batched(one, rank=2):
    """Calls one(array..) for every first operand of this rank in a batch; NaN for those that fail. Gives arrays like
    `results`."""

    def run(*operands, results):
        out = [np.zeros(shape, dtype) for shape, dtype in results]
        if operands[0].size == 0:  # LAPACK objects to leading dimensions of zero
            return tuple(out)
        batch = operands[0].shape[:-rank]
        for at in np.ndindex(*batch):
            matrices = [x[at] for x in operands]
            try:
                if not np.all(np.isfinite(matrices[0])):
                    raise np.linalg.LinAlgError("not finite")
                values = one(*matrices)
            except (np.linalg.LinAlgError, ValueError):
                values = [np.nan] * len(out)
            for array, value in zip(out, values):
                if np.issubdtype(array.dtype, np.integer) and np.isscalar(value):
                    value = 0
                array[at] = value
        return tuple(out)

    return run


def _eigh(p):
    first, last = p["range"] or (0, None)

    def decompose(a):
        w, v = np.linalg.eigh(a, UPLO="L" if p["lower"] else "U")
        return v[..., first:last], w[..., first:last]
    return _stacked(decompose)


def _svd(p):
    if not p["compute_uv"]:
        return _stacked(lambda a: (np.linalg.svd(a, compute_uv=False),))

    def decompose(a):
        u, s, vh = np.linalg.svd(a, full_matrices=p["full_matrices"])
        return s, u, vh
    return _stacked(decompose)


def _eig(p):
    if not p["left"]:
        return _stacked(np.linalg.eig if p["right"] else lambda a: (np.linalg.eigvals(a),))

    def one(a):
        if np.iscomplexobj(a):
            w, left, right, info = _lapack("geev", a.dtype)(a, compute_vl=p["left"], compute_vr=p["right"])
        else:
            re, im, left, right, info = _lapack("geev", a.dtype)(a, compute_vl=p["left"], compute_vr=p["right"])
            w = re + 1j * im
            left, right = (_pairs(w, v) if wanted else v
                           for v, wanted in ((left, p["left"]), (right, p["right"])))
        if info != 0:
            raise np.linalg.LinAlgError("geev")
        return [w] + ([left] if p["left"] else []) + ([right] if p["right"] else [])
    return _batched(one)


def _pairs(w, v):
    """LAPACK keeps the real and imaginary parts of a conjugate pair's vectors in two columns."""
    out = v.astype(np.result_type(v.dtype, np.complex64))
    for k in range(len(w) - 1):
        if w[k].imag > 0:
            out[:, k] = v[:, k] + 1j * v[:, k + 1]
            out[:, k + 1] = np.conj(out[:, k])
    return out


def _schur(p):
    def one(a):
        import scipy.linalg

        t, z = scipy.linalg.schur(a, output="complex" if np.iscomplexobj(a) else "real")
        return (t, z) if p["vectors"] else (t,)
    return _batched(one)


def _hessenberg(p):
    def one(a):
        packed, taus, info = _lapack("gehrd", a.dtype)(a)
        if info != 0:
            raise np.linalg.LinAlgError("gehrd")
        return packed, taus[:a.shape[-1] - 1]
    return _batched(one)


def _tridiagonal(p):
    def one(a):
        name = "hetrd" if np.iscomplexobj(a) else "sytrd"
        packed, d, e, taus, info = _lapack(name, a.dtype)(a, lower=1 if p["lower"] else 0)
        if info != 0:
            raise np.linalg.LinAlgError(name)
        return packed, d, e, taus
    return _batched(one)


def _chosen_to_the_front(chosen):
    """The order of columns that LAPACK gives a matrix before it pivots, and how many it leaves where they are: those
    whose entry in `chosen` is not zero."""
    order, front = np.arange(len(chosen)), 0
    for column in np.flatnonzero(chosen):
        order[[front, column]] = order[[column, front]]
        front += 1
    return order, front


def _pivoted_qr(p):
    def checked(name, *result):
        if result[-1] != 0:
            raise np.linalg.LinAlgError(name)
        return result

    def one(a, chosen):
        order, front = _chosen_to_the_front(chosen)
        a, done = a[:, order], min(front, len(a))
        taus = np.zeros(0, a.dtype)
        if done > 0:
            packed, taus, *_ = checked("geqrf", *_lapack("geqrf", a.dtype)(a[:, :front]))
            a[:, :front] = packed
            if front < len(order):
                name, adjoint = ("unmqr", "C") if np.iscomplexobj(a) else ("ormqr", "T")
                reflectors, rest = packed[:, :done], a[:, front:]
                a[:, front:] = checked(name, *_lapack(name, a.dtype)("L", adjoint, reflectors, taus, rest,
                                                                     max(1, 64 * rest.shape[1])))[0]
        if done < min(a.shape):
            packed, pivots, more, *_ = checked("geqp3", *_lapack("geqp3", a.dtype)(a[done:, front:]))
            a[:done, front:] = a[:done, front:][:, pivots - 1]
            a[done:, front:] = packed
            order[front:] = order[front:][pivots - 1]
            taus = np.concatenate([taus, more])
        return a, order + 1, taus

    batched = _batched(one)

    def run(a, chosen, results):
        if a.size > 0:
            return batched(a, chosen, results=results)
        order = [_chosen_to_the_front(row)[0] + 1 for row in chosen.reshape(-1, chosen.shape[-1])]
        return tuple(np.array(order if k == 1 else [], dtype).reshape(shape) for k, (shape, dtype) in enumerate(results))
    return run


def _tridiagonal_solve(p):
    """With pivots that vanish made as large as rounding: eigenvectors by inverse iteration ask for that."""
    def one(lower, diagonal, upper, right):
        n = len(diagonal)
        if n < 3:  # LAPACK's interface wants three; the added ones are their own
            lower, upper = (np.concatenate([v, np.zeros(3 - n, v.dtype)]) for v in (lower, upper))
            upper[n - 1] = 0
            diagonal = np.concatenate([diagonal, np.ones(3 - n, diagonal.dtype)])
            right = np.concatenate([right, np.zeros((3 - n, right.shape[1]), right.dtype)])
            lower[n:] = 0
        parts = _lapack("gttrf", diagonal.dtype)(lower[1:], diagonal, upper[:-1])[:5]
        pivots = parts[1]
        largest = max(np.abs(v).max() for v in (lower[1:], diagonal, upper[:-1]))
        least = np.finfo(pivots.dtype).eps * (largest or 1)
        pivots[np.abs(pivots) < least] = least
        return (_lapack("gttrs", diagonal.dtype)(*parts, right)[0][:n],)
    return _batched(one, rank=1)


# Each gives a function of arrays and of the shapes and types of the results.
_ROUTINES = {"tridiagonal_solve": _tridiagonal_solve, "eigh": _eigh, "svd": _svd, "eig": _eig, "schur": _schur,
             "hessenberg": _hessenberg, "tridiagonal": _tridiagonal, "geqp3": _pivoted_qr}


def _named(name, parameters):
    run = _ROUTINES[name](parameters)

    def call(*operands, results):
        with np.errstate(all="ignore"):
            return run(*(_as_lapack_has_it(operand) for operand in operands), results=results)
    return call


for _name in _ROUTINES:
    _host_callback.register_named(_name, functools.partial(_named, _name))


def _rule(name, parameters_of):
    def rule(ctx, *operands, **params):
        # Before the matrices; the vectors beside them have a dimension less.
        num_batch_dims = max(len(aval.shape) for aval in ctx.avals_in) - 2
        return _host_callback.named_call(ctx, name, parameters_of(ctx.avals_in, params), list(operands), ctx.avals_out,
                                         num_batch_dims)
    return rule


def _range(avals_in, subset, what):
    from jax._src import core

    # min_dim, as sizes of exports may be symbols that Python's min does not compare.
    if subset is None or tuple(subset) == (0, core.min_dim(*avals_in[0].shape[-2:])):
        return None
    if what == "svd":
        raise NotImplementedError("subset_by_index of svd is not supported on the platform vulkan")
    return list(subset)


# The smaller side of the largest matrix that krafla decomposes itself.
_MOST_EIGH = 256
_MOST_SVD = 256


def _larger(aval, most):
    rows, columns = aval.shape[-2:]
    return isinstance(rows, int) and isinstance(columns, int) and min(rows, columns) > most


def install(platform):
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    def eigh(avals_in, p):
        return {"lower": bool(p["lower"]), "range": _range(avals_in, p.get("subset_by_index"), "eigh")}

    def svd(avals_in, p):
        _range(avals_in, p.get("subset_by_index"), "svd")
        return {"compute_uv": bool(p["compute_uv"]), "full_matrices": bool(p["full_matrices"])}

    def eig(avals_in, p):
        return {"left": bool(p["compute_left_eigenvectors"]), "right": bool(p["compute_right_eigenvectors"])}

    def schur(avals_in, p):
        if p.get("sort_eig_vals"):
            raise NotImplementedError("sorted Schur decompositions are not supported on the platform vulkan")
        return {"vectors": bool(p["compute_schur_vectors"])}

    plain = lambda avals_in, p: {}
    lower = lambda avals_in, p: {"lower": bool(p["lower"])}
    for primitive, name, parameters in (("eig_p", "eig", eig), ("schur_p", "schur", schur),
                                        ("hessenberg_p", "hessenberg", plain), ("tridiagonal_p", "tridiagonal", lower),
                                        ("geqp3_p", "geqp3", plain)):
        if hasattr(linalg, primitive):
            mlir.register_lowering(getattr(linalg, primitive), _rule(name, parameters), platform=platform)

    def lu(ctx, operand):
        return _host_callback.custom_call(ctx, "LuDecomposition", [operand], ctx.avals_out)

    mlir.register_lowering(linalg.lu_p, lu, platform=platform)

    # Kernels of krafla up to a size, and where the size is not known; LAPACK beyond, as its blocked algorithms win there.
    eigh_on_host, svd_on_host = _rule("eigh", eigh), _rule("svd", svd)

    def eigh_rule(ctx, operand, **params):
        a = ctx.avals_in[0]
        if _range(ctx.avals_in, params.get("subset_by_index"), "eigh") is not None or _larger(a, _MOST_EIGH):
            return eigh_on_host(ctx, operand, **params)
        config = f"{int(bool(params['lower']))},1,100,0"  # lower, sort; the others are of XLA's algorithm
        return _host_callback.custom_call(ctx, "Eigh", [operand], ctx.avals_out, config)

    def svd_rule(ctx, operand, **params):
        if _larger(ctx.avals_in[0], _MOST_SVD):
            return svd_on_host(ctx, operand, **params)
        _range(ctx.avals_in, params.get("subset_by_index"), "svd")
        return _host_callback.custom_call(ctx, "krafla_svd", [operand], ctx.avals_out)

    mlir.register_lowering(linalg.eigh_p, eigh_rule, platform=platform)
    mlir.register_lowering(linalg.svd_p, svd_rule, platform=platform)

    on_device = mlir.lower_fun(linalg._tridiagonal_solve_jax, multiple_results=False)
    on_host = _rule("tridiagonal_solve", plain)

    def tridiagonal_solve(ctx, *operands, **params):
        return (on_host if params.get("perturb_singular") else on_device)(ctx, *operands, **params)

    mlir.register_lowering(linalg.tridiagonal_solve_p, tridiagonal_solve, platform=platform)
