# SPDX-License-Identifier: Apache-2.0
"""jax.experimental.custom_partitioning: functions that say how an operation is cut over devices.

JAX registers them with every plugin, and they give the program of one device as MLIR's bytecode of StableHLO, which only
the same build of MLIR reads. Under a name of krafla's own they give it as a portable artifact."""
import functools


def _partition(*args):
    from jax._src import custom_partitioning
    from jax._src.lib import xla_client

    program, operands, result = custom_partitioning._custom_partitioning_partition(*args)
    return xla_client._xla.mlir.serialize_portable_artifact(program, _oldest_version()), operands, result


def _result(*args):
    from jax._src import custom_partitioning

    return custom_partitioning._custom_partitioning_infer_sharding_from_operands(*args)


def _wish(*args):
    from jax._src import custom_partitioning

    return custom_partitioning._custom_partitioning_propagate_user_sharding(*args)


@functools.cache
def _oldest_version():
    import jaxlib.mlir.dialects.stablehlo as stablehlo

    return stablehlo.get_minimum_version()


def install(platform):
    from jax._src import xla_bridge
    from jax._src.lib import xla_client

    xla_bridge.register_plugin_callbacks(
        functools.partial(xla_client.register_custom_call_partitioner, name="krafla.CustomSPMDPartitioning",
                          prop_user_sharding=_wish, partition=_partition, infer_sharding_from_operands=_result,
                          can_side_effecting_have_replicated_sharding=True))
