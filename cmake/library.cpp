// SPDX-License-Identifier: Apache-2.0
// The shared library is made of the rooms' archives; a target needs a source of its own.
namespace krafla {
[[gnu::visibility("default")]] extern const char* const kLibraryName;
const char* const kLibraryName = "krafla";
}  // namespace krafla
