/* SPDX-License-Identifier: Apache-2.0 */
/*
 * krafla for C, and for every language that calls C: programs in HLO and StableHLO on Vulkan devices and the CPU.
 *
 *   krafla_client* client;
 *   krafla_session* session;
 *   krafla_status* error = krafla_client_create("vulkan", NULL, &client);
 *   if (!error) error = krafla_session_load_file(client, "model.mlirbc", NULL, &session);
 *   krafla_input in = {image, sizeof image};
 *   krafla_output out = {scores, sizeof scores};
 *   if (!error) error = krafla_session_run(session, &in, 1, &out, 1, NULL);
 *   if (error) puts(krafla_status_message(error));
 *
 * Errors. Functions that can fail return NULL for success, else a status, which the caller frees. What they give
 * through pointers is untouched then. A null pointer where none may be, and a wrong size, are such errors: nothing
 * aborts. Functions that return a text or a number take any handle that is not freed, and NULL.
 *
 * Handles are opaque. Each is freed by its own function, which takes NULL too; in any order, but that a handle is not
 * freed while a call is using it. Texts belong to the handle they were asked of.
 *
 * Threads. Any thread may call any function with any handle at any time, but free it. Runs of one session are under way
 * at once on the CPU, as krafla_session_options.concurrent_runs says, and follow one another on Vulkan.
 *
 * Forks. A forked process has a copy of the handles, without the threads: calls with them are
 * KRAFLA_FAILED_PRECONDITION, but that runs, loads and buffers on the CPU go on, on the thread that calls. To free them
 * is harmless and does nothing.
 *
 * Versions. Structs with `struct_size` may grow: set it to sizeof the struct (KRAFLA_INIT does, and zeroes the rest). A
 * library takes those of older and newer headers, but refuses a newer one's fields that it does not know and that are
 * not zero. krafla_input, krafla_output, krafla_buffer_input, krafla_input_sizes and functions never change.
 * krafla_abi_version grows by one with each addition; a program built with KRAFLA_ABI_VERSION runs with any library
 * that says as much or more.
 */
#ifndef KRAFLA_KRAFLA_H_
#define KRAFLA_KRAFLA_H_

#include <stddef.h>
#include <stdint.h>

#include "krafla/version.h"

#define KRAFLA_ABI_VERSION 5

#if defined(__GNUC__) && !defined(_WIN32)
#define KRAFLA_API __attribute__((visibility("default")))
#else
#define KRAFLA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct krafla_status krafla_status;
typedef struct krafla_devices krafla_devices;
typedef struct krafla_client krafla_client;
typedef struct krafla_session krafla_session;
typedef struct krafla_buffer krafla_buffer;
typedef struct krafla_submission krafla_submission;
typedef struct krafla_cancel krafla_cancel;
typedef struct krafla_text krafla_text;

/* ---- library ---- */

KRAFLA_API uint32_t krafla_abi_version(void);
KRAFLA_API const char* krafla_version(void); /* "0.1.0" */

enum krafla_log_level { KRAFLA_LOG_INFO = 1, KRAFLA_LOG_WARNING = 2 };
/* A whole sentence, `size` bytes and a zero byte. By any thread, one call at a time; it must not call krafla. */
typedef void (*krafla_log_sink)(int32_t level, const char* message, size_t size, void* user);
/* NULL: nothing is logged any more, as before the first call. */
KRAFLA_API krafla_status* krafla_set_log_sink(krafla_log_sink sink, void* user);

/* Where arrays of more than 64 bytes on the host are allocated; before anything else is called. `allocate` gives NULL
 * when there is nothing left. */
typedef void* (*krafla_allocate)(size_t size, size_t alignment, void* user);
typedef void (*krafla_release)(void* data, size_t size, size_t alignment, void* user);
KRAFLA_API krafla_status* krafla_set_allocator(krafla_allocate allocate, krafla_release release, void* user);

/* ---- status ---- */

/* As absl::StatusCode and PJRT_Error_Code. */
enum krafla_code {
  KRAFLA_OK = 0,
  KRAFLA_CANCELLED = 1,
  KRAFLA_UNKNOWN = 2,
  KRAFLA_INVALID_ARGUMENT = 3,
  KRAFLA_DEADLINE_EXCEEDED = 4,
  KRAFLA_NOT_FOUND = 5,
  KRAFLA_ALREADY_EXISTS = 6,
  KRAFLA_PERMISSION_DENIED = 7,
  KRAFLA_RESOURCE_EXHAUSTED = 8,
  KRAFLA_FAILED_PRECONDITION = 9,
  KRAFLA_ABORTED = 10,
  KRAFLA_OUT_OF_RANGE = 11,
  KRAFLA_UNIMPLEMENTED = 12,
  KRAFLA_INTERNAL = 13,
  KRAFLA_UNAVAILABLE = 14,
  KRAFLA_DATA_LOSS = 15,
  KRAFLA_UNAUTHENTICATED = 16
};
KRAFLA_API int32_t krafla_status_code(const krafla_status* status);        /* of NULL: KRAFLA_OK */
KRAFLA_API const char* krafla_status_message(const krafla_status* status); /* of NULL: "" */
KRAFLA_API void krafla_status_free(krafla_status* status);
KRAFLA_API const char* krafla_code_name(int32_t code); /* "INVALID_ARGUMENT"; "UNKNOWN" for what is no code */

/* Texts that are made for the caller. */
KRAFLA_API const char* krafla_text_data(const krafla_text* text);
KRAFLA_API size_t krafla_text_size(const krafla_text* text);
KRAFLA_API void krafla_text_free(krafla_text* text);

/* ---- types ---- */

/* Elements as XLA numbers them (PrimitiveType). Elements of fewer than 8 bits take a byte each, a complex number is its
 * real and its imaginary part. A predicate is 0 or 1: of any other byte devices make different answers. */
enum krafla_type {
  KRAFLA_PRED = 1,
  KRAFLA_S8 = 2,
  KRAFLA_S16 = 3,
  KRAFLA_S32 = 4,
  KRAFLA_S64 = 5,
  KRAFLA_U8 = 6,
  KRAFLA_U16 = 7,
  KRAFLA_U32 = 8,
  KRAFLA_U64 = 9,
  KRAFLA_F16 = 10,
  KRAFLA_F32 = 11,
  KRAFLA_F64 = 12,
  KRAFLA_C64 = 15,
  KRAFLA_BF16 = 16,
  KRAFLA_C128 = 18,
  KRAFLA_F8E5M2 = 19,
  KRAFLA_F8E4M3FN = 20,
  KRAFLA_S4 = 21,
  KRAFLA_U4 = 22,
  KRAFLA_F8E4M3B11FNUZ = 23,
  KRAFLA_F8E5M2FNUZ = 24,
  KRAFLA_F8E4M3FNUZ = 25,
  KRAFLA_S2 = 26,
  KRAFLA_U2 = 27,
  KRAFLA_F8E4M3 = 28,
  KRAFLA_F8E3M4 = 29,
  KRAFLA_S1 = 30,
  KRAFLA_U1 = 31,
  KRAFLA_F4E2M1FN = 32,
  KRAFLA_F8E8M0FNU = 33
};
KRAFLA_API const char* krafla_type_name(int32_t type); /* "f32"; "" for what is none */
KRAFLA_API size_t krafla_type_bytes(int32_t type);     /* of an element; 0 for what is none */

typedef struct krafla_tensor_info {
  size_t struct_size;
  const char* name; /* of an input or output; "" of a buffer */
  int32_t type;     /* enum krafla_type */
  int32_t rank;
  const int64_t* dims;
  uint64_t dynamic; /* bit i: dims[i] is an upper bound */
  size_t bytes;     /* of the whole array; of the largest where dims are bounds */
} krafla_tensor_info;

/* ---- clients: devices ---- */

KRAFLA_API krafla_status* krafla_devices_list(krafla_devices** devices); /* best first */
KRAFLA_API size_t krafla_devices_count(const krafla_devices* devices);
KRAFLA_API const char* krafla_devices_selector(const krafla_devices* devices,
                                               size_t i); /* "vulkan:0"; "" past the end */
KRAFLA_API const char* krafla_devices_description(const krafla_devices* devices, size_t i);
KRAFLA_API void krafla_devices_free(krafla_devices* devices);

/* Calls task(0, data) .. task(tasks - 1, data), at once where it can, and returns when all have ended. */
typedef void (*krafla_parallel_for)(int32_t tasks, void (*task)(int32_t index, void* data), void* data, void* user);

typedef struct krafla_client_options {
  size_t struct_size;
  int32_t threads;                  /* of the CPU's kernels, the caller's included; 0: one a processor */
  int32_t wait_limit_ms;            /* the longest wait for the device; 0: 30 minutes */
  const char* cache_folder;         /* NULL: the user's; "": none */
  int64_t memory_limit;             /* bytes; 0: none */
  krafla_parallel_for parallel_for; /* NULL: krafla's own threads */
  void* parallel_for_user;
} krafla_client_options;
/* "cpu", "vulkan", "vulkan:1", ..; "" or NULL: the best device. `options` may be NULL. */
KRAFLA_API krafla_status* krafla_client_create(const char* selector, const krafla_client_options* options,
                                               krafla_client** client);
KRAFLA_API const char* krafla_client_selector(const krafla_client* client);
KRAFLA_API const char* krafla_client_description(const krafla_client* client);
/* Sessions and buffers of it stay good. */
KRAFLA_API void krafla_client_free(krafla_client* client);

/* ---- sessions: programs made ready ---- */

typedef void (*krafla_progress)(int32_t done, int32_t total, void* user);

/* All sizes of an input of which a StableHLO program or an ONNX model leaves some open. */
typedef struct krafla_input_sizes {
  const char* name;
  const int64_t* sizes;
  size_t rank;
} krafla_input_sizes;

/* What a program takes, as its file says it: [{"name": "x", "type": "f32", "dims": [null, 3, "height"]}, ..]. An open
 * size is null or its name; "dims" is null where their number is open; an input without a name ("") is called by its
 * number, "0", in krafla_input_sizes. Since 5. */
KRAFLA_API krafla_status* krafla_inputs_of_file(const char* path, krafla_text** json);
KRAFLA_API krafla_status* krafla_inputs_of_bytes(const void* bytes, size_t size, krafla_text** json);

typedef struct krafla_session_options {
  size_t struct_size;
  int32_t strict;           /* not 0: a step that the device does not take is an error */
  int32_t concurrent_runs;  /* 0: as many as the CPU's kernels have threads */
  int32_t for_profile;      /* not 0: krafla_session_profile may be called */
  int32_t reserved;         /* 0 */
  krafla_progress progress; /* of kernels made ready, by any thread, one call at a time; may be NULL */
  void* progress_user;
  const krafla_input_sizes* input_sizes; /* since 2; may be NULL */
  size_t input_sizes_count;              /* since 2 */
  const char* enabled;                   /* since 4: features by name, with commas between them; may be NULL */
  const char* disabled;                  /* since 4: features and passes; may be NULL */
} krafla_session_options;
/* A program as HLO text, HloModuleProto, StableHLO text or bytecode, a model that `krafla compile` made ready, which is
 * used where its file is mapped, or an ONNX model, whose weights may lie beside the file. `options` may be NULL. */
KRAFLA_API krafla_status* krafla_session_load_file(const krafla_client* client, const char* path,
                                                   const krafla_session_options* options, krafla_session** session);
/* The bytes are free again when it returns. */
KRAFLA_API krafla_status* krafla_session_load_bytes(const krafla_client* client, const void* bytes, size_t size,
                                                    const krafla_session_options* options, krafla_session** session);
/* Waits for what was submitted; not to be called by `done` of krafla_session_submit. */
KRAFLA_API void krafla_session_free(krafla_session* session);

KRAFLA_API size_t krafla_session_input_count(const krafla_session* session);
KRAFLA_API size_t krafla_session_output_count(const krafla_session* session);
/* Fills `info`, whose pointers are the session's. */
KRAFLA_API krafla_status* krafla_session_input(const krafla_session* session, size_t i, krafla_tensor_info* info);
KRAFLA_API krafla_status* krafla_session_output(const krafla_session* session, size_t i, krafla_tensor_info* info);
KRAFLA_API krafla_status* krafla_session_find_input(const krafla_session* session, const char* name, size_t* i);
KRAFLA_API krafla_status* krafla_session_find_output(const krafla_session* session, const char* name, size_t* i);
/* One line: "412/412 instructions on vulkan:0 (..); 61 kernels". */
KRAFLA_API const char* krafla_session_placement(const krafla_session* session);

typedef struct krafla_run_options {
  size_t struct_size;
  int64_t timeout_us;    /* from the call on; then KRAFLA_DEADLINE_EXCEEDED. 0: none */
  krafla_cancel* cancel; /* krafla_cancel_request ends the run with KRAFLA_CANCELLED; may be NULL */
} krafla_run_options;

/* Memory of the caller: exactly the bytes of the input or output, dense and row-major, at a multiple of the element's
 * size. */
typedef struct krafla_input {
  const void* data;
  size_t size;
} krafla_input;
typedef struct krafla_output {
  void* data;
  size_t size;
} krafla_output;

/* Runs once, to the end. All inputs and all outputs, in their order. The CPU reads and writes the memory where it is.
 * Inputs over which an output lies are copied first; two outputs may not overlap. */
KRAFLA_API krafla_status* krafla_session_run(krafla_session* session, const krafla_input* inputs, size_t input_count,
                                             const krafla_output* outputs, size_t output_count,
                                             const krafla_run_options* options);
/* One run on zeros, so that the next is as fast as all others. */
KRAFLA_API krafla_status* krafla_session_warm(krafla_session* session, const krafla_run_options* options);
/* Where the time of a run on zeros goes, as JSON: {"run_ms": .., "steps": [{"kernel": .., "family": .., "op_name": ..,
 * "source": .., "place": .., "times": .., "ms": .., "flops": .., "bytes": ..}, ..]}. */
KRAFLA_API krafla_status* krafla_session_profile(krafla_session* session, int32_t runs, krafla_text** json);

/* ---- submissions: runs in the background ---- */

/* `status` is NULL for success, and the library's: it is good during the call. By a thread of the session. */
typedef void (*krafla_done)(const krafla_status* status, void* user);
/* As krafla_session_run, later, in the order of submission. The memory must stay until the run is done; the arrays of
 * inputs and outputs need not. `done` and `submission` may be NULL. */
KRAFLA_API krafla_status* krafla_session_submit(krafla_session* session, const krafla_input* inputs, size_t input_count,
                                                const krafla_output* outputs, size_t output_count,
                                                const krafla_run_options* options, krafla_done done, void* user,
                                                krafla_submission** submission);
KRAFLA_API int32_t krafla_submission_is_done(const krafla_submission* submission); /* of NULL: 1 */
/* What the run came to, once it is done. KRAFLA_DEADLINE_EXCEEDED where it is not after `timeout_us`; below 0: waits
 * for as long as it takes. krafla_submission_is_done tells a run's own deadline from this one. */
KRAFLA_API krafla_status* krafla_submission_wait(krafla_submission* submission, int64_t timeout_us);
KRAFLA_API void krafla_submission_cancel(krafla_submission* submission);
/* The run goes on. */
KRAFLA_API void krafla_submission_free(krafla_submission* submission);

/* What ends runs: any number of them, now and later. May be freed while they go on. */
KRAFLA_API krafla_status* krafla_cancel_create(krafla_cancel** cancel);
KRAFLA_API void krafla_cancel_request(krafla_cancel* cancel);
KRAFLA_API void krafla_cancel_free(krafla_cancel* cancel);

/* ---- buffers: arrays that stay on the device ---- */

enum krafla_host_memory {
  KRAFLA_COPY = 0, /* the memory is free again when the call returns */
  KRAFLA_SHARE = 1 /* it is read where it is, if the device can: until `release` is called it must not change */
};
/* An array of the caller's, dense and row-major. `release` (may be NULL) is called once, when the memory is needed no
 * more, by any thread; also where the call fails. */
KRAFLA_API krafla_status* krafla_buffer_create(const krafla_client* client, int32_t type, const int64_t* dims,
                                               size_t rank, const void* data, size_t size, int32_t host_memory,
                                               void (*release)(void* user), void* user, krafla_buffer** buffer);
KRAFLA_API krafla_status* krafla_buffer_info(const krafla_buffer* buffer, krafla_tensor_info* info);
KRAFLA_API krafla_status* krafla_buffer_wait(const krafla_buffer* buffer);
/* Waits, then copies the array, which has `size` bytes. */
KRAFLA_API krafla_status* krafla_buffer_read(const krafla_buffer* buffer, void* data, size_t size);
/* Waits, then says where the bytes are: in the device's own memory if the host can read it, else in a copy. Good until
 * the buffer is freed, but not once it is donated. */
KRAFLA_API krafla_status* krafla_buffer_view(krafla_buffer* buffer, const void** data, size_t* size);
KRAFLA_API void krafla_buffer_free(krafla_buffer* buffer);

typedef struct krafla_buffer_input {
  const krafla_buffer* buffer;
  int32_t donated;  /* not 0: the run may overwrite it; nobody may read it any more */
  int32_t reserved; /* 0 */
} krafla_buffer_input;
/* Runs on buffers, and gives one for each output, which the caller frees. May return before the device is done. */
KRAFLA_API krafla_status* krafla_session_run_buffers(krafla_session* session, const krafla_buffer_input* inputs,
                                                     size_t input_count, krafla_buffer** outputs, size_t output_count,
                                                     const krafla_run_options* options);

/* krafla_run_options o = KRAFLA_INIT(krafla_run_options); */
#ifdef __cplusplus
}
#define KRAFLA_INIT(type)                   \
  [] {                                      \
    type krafla_init{};                     \
    krafla_init.struct_size = sizeof(type); \
    return krafla_init;                     \
  }()
#else
#define KRAFLA_INIT(type) ((type){.struct_size = sizeof(type)})
#endif

#endif /* KRAFLA_KRAFLA_H_ */
