#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel into build/wheels, installs it into a clean environment and tries it from there.
#
#   scripts/wheel.sh [--no-test]
#
# Needs scikit-build-core for PYTHON (python3) and what scripts/setup.sh installs; fetches nothing. With JAX in that
# interpreter, JAX is tried too, from its folder.
set -euo pipefail
case "${1:-}" in
  ''|--no-test) ;;
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "wheel.sh: what is '$1'? (try --help)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
out=$root/build/wheels
mkdir -p "$out"
"$python" -m pip wheel --no-build-isolation --no-deps --no-index -w "$out" "$root"
wheel=$(ls -t "$out"/krafla-*.whl | head -1)
echo "built $wheel"
[ "${1:-}" = --no-test ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$python" -m venv clean
clean/bin/python -m pip install --no-index --no-deps --quiet "$wheel"
clean/bin/krafla --version
clean/bin/krafla devices
clean/bin/python -c 'import krafla; print(krafla.library_path(), krafla.pjrt_library_path())'
site=$("$python" -c 'import pathlib, jax; print(pathlib.Path(jax.__file__).parent.parent)' 2>/dev/null) || {
  echo "$python has no jax: the plugin was not tried"; exit 0; }
# After the clean environment's own packages, so that krafla is the installed one.
echo "$site" >"$(clean/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_jax.pth"
env -u PYTHONPATH -u KRAFLA_PJRT_LIBRARY JAX_PLATFORMS=vulkan,cpu clean/bin/python - <<'PYTHON'
import jax, jax.numpy as jnp, jax_plugins.krafla as plugin
print("plugin", plugin.__file__)
x = jnp.arange(12.0).reshape(3, 4)
assert jax.default_backend() == "vulkan"
assert float(jax.jit(lambda v: (v @ v.T).sum())(x)) == float((x.sum(0) ** 2).sum())
print("jax", jax.__version__, jax.devices(), jnp.linalg.svd(x, compute_uv=False))
PYTHON
echo "the wheel works"
