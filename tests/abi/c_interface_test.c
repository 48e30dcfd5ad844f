/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of krafla/krafla.h: what it does, and what it answers to null pointers and wrong sizes. */
#include <krafla/krafla.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
static int called[3]; /* release, done, log */

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) {                                            \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);       \
      ++failures;                                                  \
    }                                                              \
  } while (0)

static void expect_at(int line, krafla_status* status, int code) {
  if (krafla_status_code(status) != code || (code != KRAFLA_OK && krafla_status_message(status)[0] == '\0')) {
    printf("line %d: %s: %s\n", line, krafla_code_name(krafla_status_code(status)), krafla_status_message(status));
    ++failures;
  }
  krafla_status_free(status);
}
#define OK(call) expect_at(__LINE__, call, KRAFLA_OK)
#define REFUSED(call) expect_at(__LINE__, call, KRAFLA_INVALID_ARGUMENT)
#define GIVES(call, code) expect_at(__LINE__, call, code)

static void released(void* user) { ++*(int*)user; }
static void done(const krafla_status* status, void* user) {
  if (status == NULL) ++*(int*)user;
}
static void logged(int32_t level, const char* message, size_t size, void* user) {
  if (level > 0 && strlen(message) == size) ++*(int*)user;
}
static void progressed(int32_t now, int32_t total, void* user) {
  if (now <= total) ++*(int*)user;
}
static void parallel_for(int32_t tasks, void (*task)(int32_t, void*), void* data, void* user) {
  int32_t i;
  for (i = 0; i < tasks; ++i) task(i, data);
  ++*(int*)user;
}
static long until_none = -1; /* so many more allocations; -1: no end */
static void* allocate(size_t size, size_t alignment, void* user) {
  if (until_none == 0) return NULL;
  if (until_none > 0) --until_none;
  ++*(int*)user;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
static void release(void* data, size_t size, size_t alignment, void* user) {
  (void)size;
  (void)alignment;
  --*(int*)user;
  free(data);
}

static const char kText[] =
    "HloModule m, frontend_attributes={krafla.result_names=\"sum,product\"}\n"
    "ENTRY main { x = f32[4,131072] parameter(0) y = f32[4,131072] parameter(1) a = f32[4,131072] add(x, y)\n"
    "  b = f32[4,131072] multiply(x, y) ROOT t = (f32[4,131072], f32[4,131072]) tuple(a, b) }";
enum { COUNT = 4 * 131072, BYTES = COUNT * 4 };
static float x[COUNT + 1], y[COUNT], sum[COUNT], product[COUNT];

static void test_library(void) {
  CHECK(krafla_abi_version() == KRAFLA_ABI_VERSION);
  CHECK(strcmp(krafla_version(), KRAFLA_VERSION_STRING) == 0);
  CHECK(krafla_status_code(NULL) == KRAFLA_OK && krafla_status_message(NULL)[0] == '\0');
  krafla_status_free(NULL);
  CHECK(strcmp(krafla_code_name(KRAFLA_DATA_LOSS), "DATA_LOSS") == 0);
  CHECK(strcmp(krafla_code_name(0), "OK") == 0 && strcmp(krafla_code_name(-1), "UNKNOWN") == 0);
  CHECK(krafla_text_data(NULL)[0] == '\0' && krafla_text_size(NULL) == 0);
  krafla_text_free(NULL);
  CHECK(strcmp(krafla_type_name(KRAFLA_BF16), "bf16") == 0 && krafla_type_bytes(KRAFLA_BF16) == 2);
  CHECK(krafla_type_bytes(KRAFLA_F8E8M0FNU) == 1 && krafla_type_bytes(KRAFLA_C128) == 16);
  CHECK(krafla_type_name(13)[0] == '\0' && krafla_type_bytes(13) == 0); /* a tuple */
  CHECK(krafla_type_name(-5)[0] == '\0' && krafla_type_bytes(99) == 0);
}

static void test_devices(void) {
  krafla_devices* devices = NULL;
  size_t i, count;
  int has_cpu = 0;
  REFUSED(krafla_devices_list(NULL));
  OK(krafla_devices_list(&devices));
  count = krafla_devices_count(devices);
  for (i = 0; i < count; ++i) {
    has_cpu += strcmp(krafla_devices_selector(devices, i), "cpu") == 0;
    CHECK(krafla_devices_description(devices, i)[0] != '\0');
  }
  CHECK(has_cpu == 1);
  CHECK(krafla_devices_selector(devices, count)[0] == '\0' && krafla_devices_description(devices, count)[0] == '\0');
  CHECK(krafla_devices_count(NULL) == 0 && krafla_devices_selector(NULL, 0)[0] == '\0');
  CHECK(krafla_devices_description(NULL, 0)[0] == '\0');
  krafla_devices_free(devices);
  krafla_devices_free(NULL);
}

static void test_clients(void) {
  krafla_client* client = NULL;
  struct {
    krafla_client_options known;
    int64_t later;
  } newer;
  krafla_client_options options = KRAFLA_INIT(krafla_client_options);
  REFUSED(krafla_client_create("cpu", NULL, NULL));
  REFUSED(krafla_client_create("toaster", NULL, &client));
  options.struct_size = 0;
  REFUSED(krafla_client_create("cpu", &options, &client));
  options.struct_size = sizeof(options) - 1;
  REFUSED(krafla_client_create("cpu", &options, &client));
  options.struct_size = (size_t)-1;
  REFUSED(krafla_client_create("cpu", &options, &client));
  options.struct_size = sizeof(options);
  options.threads = -1;
  REFUSED(krafla_client_create("cpu", &options, &client));
  options.threads = 0;
  options.wait_limit_ms = -1;
  REFUSED(krafla_client_create("cpu", &options, &client));
  options.wait_limit_ms = 0;
  options.memory_limit = -1;
  REFUSED(krafla_client_create("cpu", &options, &client));
  CHECK(client == NULL);
  /* A newer header's struct: its field is refused unless it is zero. */
  memset(&newer, 0, sizeof(newer));
  newer.known.struct_size = sizeof(newer);
  newer.later = 1;
  REFUSED(krafla_client_create("cpu", &newer.known, &client));
  newer.later = 0;
  newer.known.cache_folder = "";
  OK(krafla_client_create("cpu", &newer.known, &client));
  CHECK(strcmp(krafla_client_selector(client), "cpu") == 0);
  CHECK(krafla_client_description(client)[0] != '\0');
  CHECK(krafla_client_selector(NULL)[0] == '\0' && krafla_client_description(NULL)[0] == '\0');
  krafla_client_free(client);
  krafla_client_free(NULL);
}

static const char kOpen[] =
    "module { func.func public @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {\n"
    "  %0 = stablehlo.add %x, %x : tensor<?x3xf32>\n"
    "  return %0 : tensor<?x3xf32> } }\n";

static void test_inputs(const char* path) {
  krafla_text* json = NULL;
  OK(krafla_inputs_of_file(path, &json));
  CHECK(strstr(krafla_text_data(json), "\"type\":\"f32\"") != NULL);
  krafla_text_free(json);
  OK(krafla_inputs_of_bytes(kOpen, sizeof(kOpen) - 1, &json));
  CHECK(strcmp(krafla_text_data(json), "[{\"name\":\"x\",\"type\":\"f32\",\"dims\":[null,3]}]") == 0);
  krafla_text_free(json);
  OK(krafla_inputs_of_bytes(kText, sizeof(kText) - 1, &json));
  CHECK(strstr(krafla_text_data(json), "{\"name\":\"y\",\"type\":\"f32\",\"dims\":[4,131072]}") != NULL);
  krafla_text_free(json);
  REFUSED(krafla_inputs_of_file(NULL, &json));
  REFUSED(krafla_inputs_of_file(path, NULL));
  GIVES(krafla_inputs_of_file("/nonexistent", &json), KRAFLA_NOT_FOUND);
  REFUSED(krafla_inputs_of_bytes(NULL, 5, &json));
  REFUSED(krafla_inputs_of_bytes(kText, 40, &json));
  REFUSED(krafla_inputs_of_bytes(kText, sizeof(kText) - 1, NULL));
}

static void test_loading(const krafla_client* client, const char* path) {
  krafla_session* session = NULL;
  krafla_session_options options = KRAFLA_INIT(krafla_session_options);
  krafla_tensor_info info = KRAFLA_INIT(krafla_tensor_info);
  const int64_t sizes[] = {5, 3};
  krafla_input_sizes open_input = {NULL, NULL, 2};
  int kernels = 0;
  open_input.sizes = sizes;
  REFUSED(krafla_session_load_file(NULL, path, NULL, &session));
  REFUSED(krafla_session_load_file(client, NULL, NULL, &session));
  REFUSED(krafla_session_load_file(client, path, NULL, NULL));
  GIVES(krafla_session_load_file(client, "/nonexistent", NULL, &session), KRAFLA_NOT_FOUND);
  REFUSED(krafla_session_load_file(client, "/", NULL, &session));
  REFUSED(krafla_session_load_bytes(NULL, kText, sizeof(kText) - 1, NULL, &session));
  REFUSED(krafla_session_load_bytes(client, NULL, 5, NULL, &session));
  REFUSED(krafla_session_load_bytes(client, NULL, 0, NULL, &session));
  REFUSED(krafla_session_load_bytes(client, kText, 40, NULL, &session));
  REFUSED(krafla_session_load_bytes(client, kText, sizeof(kText) - 1, NULL, NULL));
  options.struct_size = 3;
  REFUSED(krafla_session_load_bytes(client, kText, sizeof(kText) - 1, &options, &session));
  options.struct_size = sizeof(options);
  options.reserved = 1;
  REFUSED(krafla_session_load_bytes(client, kText, sizeof(kText) - 1, &options, &session));
  options.reserved = 0;
  options.concurrent_runs = -1;
  REFUSED(krafla_session_load_bytes(client, kText, sizeof(kText) - 1, &options, &session));
  options.concurrent_runs = 0;
  options.input_sizes_count = 1;
  REFUSED(krafla_session_load_bytes(client, kText, sizeof(kText) - 1, &options, &session));
  options.input_sizes = &open_input;
  REFUSED(krafla_session_load_bytes(client, kOpen, sizeof(kOpen) - 1, &options, &session));
  open_input.name = "0";
  GIVES(krafla_session_load_bytes(client, kOpen, sizeof(kOpen) - 1, NULL, &session), KRAFLA_UNIMPLEMENTED);
  CHECK(session == NULL);
  OK(krafla_session_load_bytes(client, kOpen, sizeof(kOpen) - 1, &options, &session));
  OK(krafla_session_input(session, 0, &info));
  CHECK(info.rank == 2 && info.dims[0] == 5 && info.dims[1] == 3);
  krafla_session_free(session);
  session = NULL;
  options.input_sizes_count = 0;
  options.input_sizes = NULL;
  options.disabled = "fusion,,nothing_of_this_name";
  REFUSED(krafla_session_load_file(client, path, &options, &session));
  options.disabled = "fusion,bda";
  options.enabled = "nothing_of_this_name";
  REFUSED(krafla_session_load_file(client, path, &options, &session));
  options.enabled = "";
  OK(krafla_session_load_file(client, path, &options, &session));
  krafla_session_free(session);
  session = NULL;
  options.enabled = options.disabled = NULL;
  options.struct_size = offsetof(krafla_session_options, input_sizes); /* of a program built with version 1 */
  options.concurrent_runs = 2;
  options.strict = 1;
  options.progress = progressed;
  options.progress_user = &kernels;
  OK(krafla_session_load_file(client, path, &options, &session));
  CHECK(kernels > 0);
  CHECK(krafla_session_input_count(session) == 7 && krafla_session_output_count(session) == 1);
  CHECK(krafla_session_placement(session)[0] != '\0');
  krafla_session_free(session);
  krafla_session_free(NULL);
  CHECK(krafla_session_input_count(NULL) == 0 && krafla_session_output_count(NULL) == 0);
  CHECK(krafla_session_placement(NULL)[0] == '\0');
}

static void test_names(const krafla_session* session) {
  struct {
    krafla_tensor_info known;
    int64_t later;
  } newer;
  krafla_tensor_info info = KRAFLA_INIT(krafla_tensor_info);
  size_t i = 77;
  OK(krafla_session_input(session, 1, &info));
  CHECK(strcmp(info.name, "y") == 0 && info.type == KRAFLA_F32 && info.rank == 2 && info.dynamic == 0);
  CHECK(info.dims[0] == 4 && info.dims[1] == 131072 && info.bytes == BYTES && info.struct_size == sizeof(info));
  OK(krafla_session_output(session, 0, &info));
  CHECK(strcmp(info.name, "sum") == 0);
  GIVES(krafla_session_input(session, 2, &info), KRAFLA_OUT_OF_RANGE);
  GIVES(krafla_session_output(session, 2, &info), KRAFLA_OUT_OF_RANGE);
  REFUSED(krafla_session_input(NULL, 0, &info));
  REFUSED(krafla_session_output(NULL, 0, &info));
  REFUSED(krafla_session_input(session, 0, NULL));
  REFUSED(krafla_session_output(session, 0, NULL));
  info.struct_size = 8;
  REFUSED(krafla_session_input(session, 0, &info));
  memset(&newer, 0, sizeof(newer));
  newer.known.struct_size = sizeof(newer);
  OK(krafla_session_input(session, 0, &newer.known));
  CHECK(newer.known.struct_size == sizeof(newer) && newer.later == 0 && newer.known.rank == 2);
  OK(krafla_session_find_input(session, "y", &i));
  CHECK(i == 1);
  OK(krafla_session_find_output(session, "product", &i));
  CHECK(i == 1);
  GIVES(krafla_session_find_input(session, "z", &i), KRAFLA_NOT_FOUND);
  GIVES(krafla_session_find_output(session, "z", &i), KRAFLA_NOT_FOUND);
  REFUSED(krafla_session_find_input(NULL, "y", &i));
  REFUSED(krafla_session_find_input(session, NULL, &i));
  REFUSED(krafla_session_find_input(session, "y", NULL));
  REFUSED(krafla_session_find_output(NULL, "y", &i));
  REFUSED(krafla_session_find_output(session, NULL, &i));
  REFUSED(krafla_session_find_output(session, "sum", NULL));
}

static void test_runs(krafla_session* session) {
  krafla_input in[2];
  krafla_output out[2];
  krafla_run_options options = KRAFLA_INIT(krafla_run_options);
  krafla_cancel* cancel = NULL;
  krafla_text* json = NULL;
  in[0].data = x, in[1].data = y, in[0].size = in[1].size = BYTES;
  out[0].data = sum, out[1].data = product, out[0].size = out[1].size = BYTES;
  OK(krafla_session_run(session, in, 2, out, 2, NULL));
  CHECK(sum[5] == 5.5f + 3 && product[COUNT - 1] == (COUNT - 0.5f) * 3);
  REFUSED(krafla_session_run(NULL, in, 2, out, 2, NULL));
  REFUSED(krafla_session_run(session, NULL, 2, out, 2, NULL));
  REFUSED(krafla_session_run(session, in, 2, NULL, 2, NULL));
  REFUSED(krafla_session_run(session, in, 1, out, 2, NULL));
  REFUSED(krafla_session_run(session, in, 2, out, 1, NULL));
  REFUSED(krafla_session_run(session, NULL, 0, NULL, 0, NULL));
  in[1].size = BYTES - 4;
  REFUSED(krafla_session_run(session, in, 2, out, 2, NULL));
  in[1].size = BYTES, in[1].data = NULL;
  REFUSED(krafla_session_run(session, in, 2, out, 2, NULL));
  in[1].data = (const char*)x + 1;
  REFUSED(krafla_session_run(session, in, 2, out, 2, NULL));
  in[1].data = y, out[0].data = NULL;
  REFUSED(krafla_session_run(session, in, 2, out, 2, NULL));
  out[0].data = sum;
  options.struct_size = 1;
  REFUSED(krafla_session_run(session, in, 2, out, 2, &options));
  options.struct_size = sizeof(options);
  options.timeout_us = -1;
  REFUSED(krafla_session_run(session, in, 2, out, 2, &options));
  options.timeout_us = INT64_MAX;
  REFUSED(krafla_cancel_create(NULL));
  OK(krafla_cancel_create(&cancel));
  options.cancel = cancel;
  OK(krafla_session_run(session, in, 2, out, 2, &options));
  krafla_cancel_request(cancel);
  GIVES(krafla_session_run(session, in, 2, out, 2, &options), KRAFLA_CANCELLED);
  krafla_cancel_free(cancel);
  krafla_cancel_request(NULL);
  krafla_cancel_free(NULL);
  OK(krafla_session_warm(session, NULL));
  REFUSED(krafla_session_warm(NULL, NULL));
  OK(krafla_session_profile(session, 2, &json));
  CHECK(strstr(krafla_text_data(json), "\"run_ms\"") != NULL);
  CHECK(krafla_text_size(json) == strlen(krafla_text_data(json)));
  krafla_text_free(json);
  REFUSED(krafla_session_profile(session, 0, &json));
  REFUSED(krafla_session_profile(NULL, 2, &json));
  REFUSED(krafla_session_profile(session, 2, NULL));
}

static void test_submissions(krafla_session* session) {
  krafla_input in[2];
  krafla_output out[2];
  krafla_submission* submission = NULL;
  in[0].data = x, in[1].data = y, in[0].size = in[1].size = BYTES;
  out[0].data = sum, out[1].data = product, out[0].size = out[1].size = BYTES;
  memset(sum, 0, sizeof(sum));
  OK(krafla_session_submit(session, in, 2, out, 2, NULL, done, &called[1], &submission));
  OK(krafla_submission_wait(submission, -1));
  CHECK(krafla_submission_is_done(submission) == 1 && sum[1] == 4.5f && called[1] == 1);
  OK(krafla_submission_wait(submission, 0));
  krafla_submission_cancel(submission);
  krafla_submission_free(submission);
  OK(krafla_session_submit(session, in, 2, out, 2, NULL, done, &called[1], NULL));
  /* Nobody can wait for that one, but submissions run in their order: the next one's end is its end too. */
  submission = NULL;
  OK(krafla_session_submit(session, in, 2, out, 2, NULL, NULL, NULL, &submission));
  OK(krafla_submission_wait(submission, -1));
  CHECK(called[1] == 2);
  krafla_submission_free(submission);
  submission = NULL;
  REFUSED(krafla_session_submit(NULL, in, 2, out, 2, NULL, done, NULL, &submission));
  REFUSED(krafla_session_submit(session, NULL, 2, out, 2, NULL, done, NULL, &submission));
  REFUSED(krafla_session_submit(session, in, 2, NULL, 2, NULL, done, NULL, &submission));
  REFUSED(krafla_session_submit(session, in, 1, out, 2, NULL, done, NULL, &submission));
  REFUSED(krafla_submission_wait(NULL, -1));
  CHECK(krafla_submission_is_done(NULL) == 1);
  krafla_submission_cancel(NULL);
  krafla_submission_free(NULL);
}

static void test_buffers(const krafla_client* client, krafla_session* session) {
  const int64_t dims[2] = {4, 131072}, wrong[1] = {-1};
  krafla_buffer *a = NULL, *b = NULL, *none = NULL, *out[2] = {NULL, NULL};
  krafla_buffer_input in[2];
  krafla_tensor_info info = KRAFLA_INIT(krafla_tensor_info);
  const void* data = NULL;
  size_t size = 0;
  OK(krafla_buffer_create(client, KRAFLA_F32, dims, 2, x, BYTES, KRAFLA_COPY, released, &called[0], &a));
  CHECK(called[0] == 1);
  OK(krafla_buffer_create(client, KRAFLA_F32, dims, 2, y, BYTES, KRAFLA_SHARE, released, &called[0], &b));
  REFUSED(krafla_buffer_create(NULL, KRAFLA_F32, dims, 2, x, BYTES, KRAFLA_COPY, NULL, NULL, &none));
  REFUSED(krafla_buffer_create(client, 13, dims, 2, x, BYTES, KRAFLA_COPY, NULL, NULL, &none));
  REFUSED(krafla_buffer_create(client, KRAFLA_F32, NULL, 2, x, BYTES, KRAFLA_COPY, NULL, NULL, &none));
  REFUSED(krafla_buffer_create(client, KRAFLA_F32, wrong, 1, x, BYTES, KRAFLA_COPY, NULL, NULL, &none));
  REFUSED(krafla_buffer_create(client, KRAFLA_F32, dims, 2, NULL, BYTES, KRAFLA_COPY, NULL, NULL, &none));
  REFUSED(krafla_buffer_create(client, KRAFLA_F32, dims, 2, x, BYTES - 1, KRAFLA_COPY, NULL, NULL, &none));
  REFUSED(krafla_buffer_create(client, KRAFLA_F32, dims, 2, x, BYTES, 2, released, &called[0], &none));
  CHECK(called[0] == 2 || called[0] == 3); /* and b, if it was copied */
  REFUSED(krafla_buffer_create(client, KRAFLA_F32, dims, 2, x, BYTES, KRAFLA_COPY, NULL, NULL, NULL));
  OK(krafla_buffer_info(a, &info));
  CHECK(info.rank == 2 && info.dims[1] == 131072 && info.bytes == BYTES && info.name[0] == '\0');
  REFUSED(krafla_buffer_info(NULL, &info));
  REFUSED(krafla_buffer_info(a, NULL));
  memset(in, 0, sizeof(in));
  in[0].buffer = a, in[1].buffer = b;
  OK(krafla_session_run_buffers(session, in, 2, out, 2, NULL));
  OK(krafla_buffer_wait(out[0]));
  REFUSED(krafla_buffer_wait(NULL));
  memset(sum, 0, sizeof(sum));
  OK(krafla_buffer_read(out[0], sum, BYTES));
  CHECK(sum[7] == 7.5f + 3);
  REFUSED(krafla_buffer_read(NULL, sum, BYTES));
  REFUSED(krafla_buffer_read(out[0], NULL, BYTES));
  REFUSED(krafla_buffer_read(out[0], sum, BYTES - 4));
  OK(krafla_buffer_view(out[1], &data, &size));
  CHECK(size == BYTES && ((const float*)data)[2] == 2.5f * 3);
  REFUSED(krafla_buffer_view(NULL, &data, &size));
  REFUSED(krafla_buffer_view(out[1], NULL, &size));
  REFUSED(krafla_buffer_view(out[1], &data, NULL));
  REFUSED(krafla_session_run_buffers(NULL, in, 2, out, 2, NULL));
  REFUSED(krafla_session_run_buffers(session, NULL, 2, out, 2, NULL));
  REFUSED(krafla_session_run_buffers(session, in, 2, NULL, 2, NULL));
  REFUSED(krafla_session_run_buffers(session, in, 1, out, 2, NULL));
  REFUSED(krafla_session_run_buffers(session, in, 2, out, 1, NULL));
  in[1].buffer = NULL;
  REFUSED(krafla_session_run_buffers(session, in, 2, out, 2, NULL));
  in[1].buffer = b, in[1].reserved = 1;
  REFUSED(krafla_session_run_buffers(session, in, 2, out, 2, NULL));
  krafla_buffer_free(a);
  krafla_buffer_free(b);
  krafla_buffer_free(out[0]);
  krafla_buffer_free(out[1]);
  krafla_buffer_free(NULL);
  CHECK(called[0] == 3);
}

/* Every allocation of a load and a run in turn gives nothing. */
static void test_allocations(krafla_client* client) {
  static const char kNorm[] =
      "HloModule n\nENTRY main { x = f32[8,4,4,40] parameter(0) s = f32[40] parameter(1) o = f32[40] parameter(2)\n"
      "  ROOT b = (f32[8,4,4,40], f32[40], f32[40]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=3 }";
  const krafla_input in[3] = {{x, 8 * 640 * 4}, {y, 160}, {y, 160}};
  const krafla_output out[3] = {{sum, 8 * 640 * 4}, {product, 160}, {product + 40, 160}};
  int n, refused = 0;
  for (n = 0; n < 1000; ++n) {
    krafla_session* session = NULL;
    krafla_status* status = NULL;
    until_none = n;
    status = krafla_session_load_bytes(client, kNorm, sizeof(kNorm) - 1, NULL, &session);
    if (status == NULL) status = krafla_session_run(session, in, 3, out, 3, NULL);
    until_none = -1;
    if (status == NULL) break;
    ++refused;
    GIVES(status, KRAFLA_RESOURCE_EXHAUSTED);
    if (session != NULL) OK(krafla_session_run(session, in, 3, out, 3, NULL));
    krafla_session_free(session);
  }
  CHECK(refused > 0 && n < 1000);
}

/* Outputs where inputs lie, and where another output does. */
static void test_overlaps(krafla_session* session) {
  krafla_input in[2] = {{NULL, BYTES}, {y, BYTES}};
  krafla_output out[2] = {{NULL, BYTES}, {product, BYTES}};
  float* state = (float*)malloc(BYTES + 64);
  int i;
  if (state == NULL) return;
  in[0].data = state;
  for (i = 0; i < COUNT; ++i) state[i] = (float)i;
  out[0].data = state;
  OK(krafla_session_run(session, in, 2, out, 2, NULL));
  for (i = 0; i < COUNT; i += 999) CHECK(state[i] == (float)i + 3 && product[i] == (float)i * 3);
  for (i = 0; i < COUNT; ++i) state[i] = (float)i;
  out[0].data = state + 16;
  OK(krafla_session_run(session, in, 2, out, 2, NULL));
  for (i = 0; i < COUNT; i += 999) CHECK(state[i + 16] == (float)i + 3 && product[i] == (float)i * 3);
  out[1].data = state;
  REFUSED(krafla_session_run(session, in, 2, out, 2, NULL));
  free(state);
}

int main(int argc, char** argv) {
  int i, blocks = 0, loops = 0;
  krafla_client* client = NULL;
  krafla_session* session = NULL;
  krafla_session_options options = KRAFLA_INIT(krafla_session_options);
  krafla_client_options threads = KRAFLA_INIT(krafla_client_options);
  if (argc != 2) return 2;
  for (i = 0; i < COUNT; ++i) x[i] = (float)i + 0.5f, y[i] = 3;
  REFUSED(krafla_set_allocator(NULL, release, &blocks));
  REFUSED(krafla_set_allocator(allocate, NULL, &blocks));
  OK(krafla_set_allocator(allocate, release, &blocks));
  OK(krafla_set_log_sink(logged, &called[2]));
  test_library();
  test_devices();
  test_clients();
  threads.threads = 2;
  threads.parallel_for = parallel_for;
  threads.parallel_for_user = &loops;
  OK(krafla_client_create("cpu", &threads, &client));
  test_inputs(argv[1]);
  test_loading(client, argv[1]);
  options.for_profile = 1;
  OK(krafla_session_load_bytes(client, kText, sizeof(kText) - 1, &options, &session));
  CHECK(called[2] > 0);
  test_names(session);
  test_runs(session);
  CHECK(loops > 0);
  test_submissions(session);
  test_overlaps(session);
  test_buffers(client, session);
  test_allocations(client);
  CHECK(blocks > 0);
  GIVES(krafla_set_allocator(allocate, release, &blocks), KRAFLA_FAILED_PRECONDITION);
  krafla_client_free(client);
  krafla_session_free(session);
  CHECK(called[1] == 2);
  OK(krafla_set_log_sink(NULL, NULL));
  printf("%d failures\n", failures);
  return failures != 0;
}
