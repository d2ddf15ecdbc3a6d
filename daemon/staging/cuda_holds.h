// Streams of CUDA that wait for results. What a stream needs is enqueued in it at once: to wait for a word in memory,
// to copy what the memory beside it says by then, and to write a word that it has passed. So a result needs nothing of
// the driver: while a thread of the trainer waits for such a stream in a copy of pageable memory, or a synchronous one,
// the driver lets no other thread in (seen with 580.159).
//
// The words are looked at by a thread that calls nothing of the driver. If a device is silent for long, another one
// asks whether it is lost: that may be kept waiting.
//
// Threads: any. At the process's exit all streams go on.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/staging/cuda_calls.h"
#include "daemon/staging/held_streams.h"
#include "proto/device/library.h"

namespace ringway::staging {

// Returns the one of the process.
HeldStreams& TheHeldStreams();

// Implements Library::HoldStream. `after` is null, or recorded.
Status HoldStream(std::int32_t device, device::Stream stream, const Event* after, const void* host,
                  std::shared_ptr<device::Hold>* hold);

}  // namespace ringway::staging
