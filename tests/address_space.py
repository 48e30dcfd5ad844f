# SPDX-License-Identifier: Apache-2.0
"""A limit of the address space of the programs that tests run."""
import functools
import pathlib
import resource


@functools.cache
def has_sanitizer(program):
    """A build with the address sanitizer maps terabytes for itself, so that nothing of it starts within a limit."""
    return b"__asan_init" in pathlib.Path(program).read_bytes()


def limit(program, size):
    """For a preexec_fn: at most `size` bytes for the program that follows, where that can be."""
    if not has_sanitizer(program):
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
