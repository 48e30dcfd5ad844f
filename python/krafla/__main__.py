# SPDX-License-Identifier: Apache-2.0
from krafla import _main

_main()
