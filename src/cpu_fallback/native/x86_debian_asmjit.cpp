// SPDX-License-Identifier: Apache-2.0
// What of Debian's AsmJit, which is compiled for programs and without NDEBUG, is replaced at link time.
#ifdef KRAFLA_HAVE_JIT

#include <asmjit/core.h>

#include <cstdlib>

ASMJIT_BEGIN_NAMESPACE
// One of the archive's objects, which writes to stderr where the assembler finds a fault of its own, cannot be part of
// a shared library. With these functions here no linker takes it.
namespace DebugUtils {
const char* errorAsString(Error) noexcept { return ""; }
void debugOutput(const char*) noexcept {}
void assertionFailed(const char*, int, const char*) noexcept { std::abort(); }
}  // namespace DebugUtils

#ifdef __ELF__
// The register allocator of a debug build looks through all values of a routine after each register that it assigns:
// half of the time of compiling a program of 8,000 operations, a fifth of the first run of small ones. A release build
// has no such check. The function is a weak symbol, of an internal header, and this one is not; where there is none
// nothing calls this one.
class RAAssignment {
 public:
  bool verify() noexcept;
};
bool RAAssignment::verify() noexcept { return true; }
#endif
ASMJIT_END_NAMESPACE

#endif
