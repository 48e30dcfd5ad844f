# SPDX-License-Identifier: Apache-2.0
"""For scripts/jax_multiprocess.sh, whose processes start themselves anew: modules of jax._src that JAX's wheel leaves out
are found in a checkout."""
import importlib.abc
import importlib.util
import os
import sys


class CheckoutFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        sources = os.environ.get("KRAFLA_JAX_TEST_SOURCES", "")
        file = os.path.join(sources, *name.split(".")) + ".py"
        if not name.startswith("jax._src.") or not os.path.exists(file):
            return None
        return importlib.util.spec_from_file_location(name, file)


sys.meta_path.append(CheckoutFinder())
