// SPDX-License-Identifier: Apache-2.0
// Three libraries: OTHER is somebody's LLVM that was opened for everyone, OWN is the driver's, DRIVER calls it.
#ifdef OTHER
int LLVMContextCreate(void) { return 1; }
#endif
#ifdef OWN
int LLVMContextCreate(void) { return 2; }
#endif
#ifdef DRIVER
int LLVMContextCreate(void);
int WhoseLlvm(void) { return LLVMContextCreate(); }
#endif
