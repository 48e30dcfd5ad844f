// SPDX-License-Identifier: Apache-2.0
// The application's own kernel of examples/vulkan_app: a picture that grows darker, made where the network reads
// it. Numbers are exact, so that the host knows them too.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) writeonly buffer Picture { float pixels[]; };
layout(push_constant) uniform Push { uint count; uint frame; } push;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= push.count) return;
  pixels[i] = float(i * 37u & 1023u >> push.frame) / 256.0;
}
