// SPDX-License-Identifier: Apache-2.0
// Where the program begins. What it does is in main.cpp, which libkrafla holds where an installation has the engine
// once (KRAFLA_ONE_LIBRARY).
extern "C" int KraflaCommand(int argc, char** argv);

int main(int argc, char** argv) { return KraflaCommand(argc, argv); }
