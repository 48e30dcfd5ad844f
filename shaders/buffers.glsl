// SPDX-License-Identifier: Apache-2.0
// How krafla's runtime hands buffers to a kernel (src/vk_runtime/pipeline.h): with ADDRESSES the push constants begin
// with the address of a row of buffer addresses, else buffers are the descriptors of set 0. WORD(i, at) is word `at` of
// buffer i, push.words are the launch's own.
#ifdef ADDRESSES
#extension GL_EXT_buffer_reference : require
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint w[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Row { Words buffers[4]; };
layout(push_constant) uniform Push { Row row; uint words[14]; } push;
#define WORD(i, at) push.row.buffers[i].w[at]
#else
layout(push_constant) uniform Push { layout(offset = 8) uint words[14]; } push;
layout(set = 0, binding = 0, std430) buffer B0 { uint w[]; } b0;
layout(set = 0, binding = 1, std430) buffer B1 { uint w[]; } b1;
layout(set = 0, binding = 2, std430) buffer B2 { uint w[]; } b2;
#define WORD(i, at) b##i.w[at]
#endif
#define FLOAT(i, at) uintBitsToFloat(WORD(i, at))
