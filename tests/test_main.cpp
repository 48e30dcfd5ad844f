// SPDX-License-Identifier: Apache-2.0
// The main function of every test binary, and the owner of their precompiled header.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
