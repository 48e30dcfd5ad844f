#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pypjrt's conformance checks on the plugin: conform_check.py PLUGIN DEVICE.

None may fail, and those that krafla does not offer are the ones listed here: a capability that goes away is a failure.
"""
import os
import sys

NOT_OFFERED = {
    "abi.unknown_slot_is_clean_error",  # there are no unknown slots
    "device.coords", "triton.compile", "stream.external_ready_events",
    "topology.serialize", "topology.deserialize", "topology.create_by_name", "topology.client_free_compile",
    "abi_version.extension_present", "abi_version.executable_proto", "abi_version.is_compatible_with_executable",
}


def main():
    plugin, device = sys.argv[1:3]
    os.environ["KRAFLA_DEVICE"] = device
    from pypjrt import conform
    from pypjrt._loader import Plugin
    report = conform.run(Plugin(plugin))
    failed = 0
    for check in report.checks:
        result = check.result.value
        offered = check.id not in NOT_OFFERED
        if result == "fail" or (offered and result != "pass"):
            failed += 1
            print(f"FAILED {check.id}: {result}: {check.detail}")
    counts = report.counts()
    print(f"{device}: {counts['pass']} passed, {failed} failed, {counts['unsupported'] + counts['skip']} skipped (not "
          "offered)")
    return 1 if failed or counts["pass"] < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
