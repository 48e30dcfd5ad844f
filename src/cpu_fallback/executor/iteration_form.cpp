// SPDX-License-Identifier: Apache-2.0
namespace krafla::cpu {}
