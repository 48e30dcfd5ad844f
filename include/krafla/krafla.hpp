// SPDX-License-Identifier: Apache-2.0
// All of krafla's public C++ headers. krafla/krafla.h is the interface for C and every other language.
#pragma once

// IWYU pragma: begin_exports
#include "krafla/custom_call.h"
#include "krafla/element_type.h"
#include "krafla/hooks.h"
#include "krafla/index_util.h"
#include "krafla/layout_util.h"
#include "krafla/literal.h"
#include "krafla/literal_util.h"
#include "krafla/local_client.h"
#include "krafla/program_inputs.h"
#include "krafla/run_options.h"
#include "krafla/session.h"
#include "krafla/shape.h"
#include "krafla/shape_util.h"
#include "krafla/span.h"
#include "krafla/status.h"
#include "krafla/version.h"
#include "krafla/xla_builder.h"
#include "krafla/xla_computation.h"
#include "krafla/xla_data.h"
// IWYU pragma: end_exports
