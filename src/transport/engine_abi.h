/* SPDX-License-Identifier: Apache-2.0
 * What a library that moves bytes between machines offers krafla: libkrafla_mpi.so, libkrafla_gloo.so. C, so that
 * neither krafla nor the library depends on how the other was compiled. */
#ifndef KRAFLA_TRANSPORT_ENGINE_ABI_H
#define KRAFLA_TRANSPORT_ENGINE_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KRAFLA_ENGINE_ABI 1

typedef struct krafla_engine krafla_engine;
typedef struct krafla_engine_request krafla_engine_request;

/* Where a function fails it returns a negative number and writes why, as a text that ends with zero. */
typedef struct krafla_engine_error {
  char text[512];
} krafla_engine_error;

/* A store that all ranks see: what one has put, all get. `get` waits, and writes at most `room` bytes; it returns how
 * many there are, or a negative number. */
typedef struct krafla_engine_store {
  void* user;
  int (*put)(void* user, const char* key, const void* value, size_t bytes);
  int64_t (*get)(void* user, const char* key, void* value, size_t room);
} krafla_engine_store;

typedef struct krafla_engine_functions {
  uint32_t abi;
  /* Null, or: who this process is, as its launcher says. Called once, before `open`. */
  int (*identify)(int* rank, int* size, krafla_engine_error* error);
  /* With `identify`: `bytes` of every rank, in their order. */
  int (*all_gather)(const void* own, size_t bytes, void* all, krafla_engine_error* error);
  /* `address`: of this machine, as others reach it; empty: not known. */
  krafla_engine* (*open)(int rank, int size, const char* address, const krafla_engine_store* store, int limit_ms,
                         krafla_engine_error* error);
  /* Any thread. Messages of one slot between two ranks keep their order. The bytes stay until the request is released.
   */
  krafla_engine_request* (*send)(krafla_engine*, int rank, uint64_t slot, const void* from, size_t bytes,
                                 krafla_engine_error* error);
  krafla_engine_request* (*receive)(krafla_engine*, int rank, uint64_t slot, void* to, size_t bytes,
                                    krafla_engine_error* error);
  /* 1: done, 0: not within limit_ms, or ended by `abort`. One that was late may not be waited for again. */
  int (*wait)(krafla_engine*, krafla_engine_request*, int limit_ms, krafla_engine_error* error);
  /* Of one that is done; or it is given up, and with it the engine. */
  void (*release)(krafla_engine*, krafla_engine_request*, int is_done);
  /* Ends all waits, and those to come. Any thread. */
  void (*abort)(krafla_engine*);
  /* `failed`: other ranks may be gone, and are not waited for. */
  void (*close)(krafla_engine*, int failed); /* null: it was identified, and never opened */
} krafla_engine_functions;

/* The one symbol of such a library. */
typedef const krafla_engine_functions* (*krafla_transport_engine_function)(void);

#ifdef __cplusplus
}
#endif
#endif
