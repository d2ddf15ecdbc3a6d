// Operations in the messages of members, and the values that they stand for. Pure.
#pragma once

#include "proto/control.pb.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

// kProtocol if a number fits no segment's header. One that fits and that this build does not know makes a descriptor
// that differs from all of its own.
Result<Descriptor> DescriptorFrom(const control::Ready& ready);

}  // namespace ringway::agreement
