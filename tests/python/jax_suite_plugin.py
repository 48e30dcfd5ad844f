# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for running JAX's own test-suite through a PJRT plugin (scripts/jax_tests.sh).

KRAFLA_JAX_TEST_TIMEOUT  seconds a test may take; then its worker process ends, and pytest-xdist names the test
KRAFLA_JAX_TEST_DUT      the platform whose tests are run, where JAX's tests know only platforms by name: "cpu"
KRAFLA_JAX_TEST_SOURCES  a checkout of JAX: modules of jax._src that its tests import and its wheel leaves out
KRAFLA_JAX_TEST_SAMPLE   the share of the tests to run, chosen by a hash of the test's name: "0.25"
KRAFLA_JAX_TEST_SEED     draws other generated cases: with JAX's own seed, which is 42, each run has the same ones
"""
import faulthandler
import functools
import os
import sys
import types
import zlib

import pytest

_TIMEOUT = float(os.environ.get("KRAFLA_JAX_TEST_TIMEOUT", "120"))
_SAMPLE = float(os.environ.get("KRAFLA_JAX_TEST_SAMPLE", "1"))


def pytest_configure(config):
    sources = os.environ.get("KRAFLA_JAX_TEST_SOURCES")
    if sources:
        import jax._src
        import jax._src.pallas

        for package in (jax._src, jax._src.pallas):
            package.__path__.append(os.path.join(sources, *package.__name__.split(".")))
    named, seed = os.environ.get("KRAFLA_JAX_TEST_DUT"), os.environ.get("KRAFLA_JAX_TEST_SEED")
    if named or seed:
        _change_test_util(named, seed)


def _change_test_util(named, seed):
    import numpy
    from jax._src import test_util

    # These keep the output of the time of the import, which pytest replaces later on.
    test_util.capture_stdout = lambda: test_util._capture_output(sys.stdout)
    test_util.capture_stderr = lambda: test_util._capture_output(sys.stderr)
    if named:
        test_util._TEST_DUT = types.SimpleNamespace(value=named)
    if seed:
        # Every product of a test's parameters is drawn from by this function of JAX's.
        @functools.cache
        def choice(n, m):
            return numpy.random.RandomState(int(seed)).choice(n, size=m, replace=False)

        test_util._choice = choice


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    faulthandler.dump_traceback_later(_TIMEOUT, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def pytest_collection_modifyitems(config, items):
    if _SAMPLE >= 1:
        return
    kept, left = [], []
    for item in items:
        share = (zlib.crc32(item.nodeid.encode()) & 0xFFFF) / 65536.0
        (kept if share < _SAMPLE else left).append(item)
    items[:] = kept
    if left:
        config.hook.pytest_deselected(items=left)
