/* SPDX-License-Identifier: Apache-2.0 */
/* An application that feeds a network frames, in C.    frames MODEL [FRAMES] [DEVICE]
 *
 * The weights are inputs of this model; they stay where they are, and so do the outputs: no run copies or allocates. */
#include <krafla/krafla.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void stop_on(krafla_status* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s: %s\n", krafla_code_name(krafla_status_code(error)), krafla_status_message(error));
  krafla_status_free(error);
  exit(1);
}

int main(int argc, char** argv) {
  krafla_client* client = NULL;
  krafla_session* session = NULL;
  krafla_input* inputs;
  krafla_output* outputs;
  krafla_tensor_info info = KRAFLA_INIT(krafla_tensor_info);
  size_t i, k, in, out;
  long frame, frames = argc > 2 ? atol(argv[2]) : 100;
  clock_t start;
  if (argc < 2) {
    fprintf(stderr, "usage: frames MODEL [FRAMES] [DEVICE]\n");
    return 2;
  }
  stop_on(krafla_client_create(argc > 3 ? argv[3] : "cpu", NULL, &client));
  stop_on(krafla_session_load_file(client, argv[1], NULL, &session));
  printf("%s\n", krafla_session_placement(session));

  in = krafla_session_input_count(session);
  out = krafla_session_output_count(session);
  inputs = calloc(in, sizeof(krafla_input));
  outputs = calloc(out, sizeof(krafla_output));
  for (i = 0; i < in; ++i) {
    float* values;
    stop_on(krafla_session_input(session, i, &info));
    if (info.type != KRAFLA_F32) return 1;
    values = malloc(info.bytes);
    for (k = 0; k < info.bytes / sizeof(float); ++k) values[k] = 0.01f;
    inputs[i].data = values;
    inputs[i].size = info.bytes;
  }
  for (i = 0; i < out; ++i) {
    stop_on(krafla_session_output(session, i, &info));
    outputs[i].data = malloc(info.bytes);
    outputs[i].size = info.bytes;
  }

  stop_on(krafla_session_warm(session, NULL));
  start = clock();
  for (frame = 0; frame < frames; ++frame) stop_on(krafla_session_run(session, inputs, in, outputs, out, NULL));
  printf("%ld frames, %.3f ms of processor time each; the first output begins with %g\n", frames,
         1e3 * (double)(clock() - start) / CLOCKS_PER_SEC / (double)frames, (double)*(const float*)outputs[0].data);

  for (i = 0; i < in; ++i) free((void*)inputs[i].data);
  for (i = 0; i < out; ++i) free(outputs[i].data);
  free(inputs);
  free(outputs);
  krafla_session_free(session);
  krafla_client_free(client);
  return 0;
}
