// What the files of the C API share.
#pragma once

#include <ringway/ringway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <ringway/ringway.hpp>
#include <string>
#include <utility>

#include "client/src/fork_guard.h"

struct ringwayComm {
  std::unique_ptr<ringway::Session> session;
  std::uint64_t generation = ringway::internal::ForkGeneration();
  std::mutex mutex;                          // guards `buffers`; a thread of the parent may hold it when a child begins
  std::map<void*, ringway::Buffer> buffers;  // made by ringwayAlloc
};

struct ringwayWork {
  ringway::Work work;
};

namespace ringway::c {

// Keeps the sentence for ringwayGetLastError of this thread.
ringwayResult_t Report(const Status& error);
ringwayResult_t Refuse(const char* text);

// No exception reaches C. `function` returns a ringwayResult_t.
template <typename Function>
ringwayResult_t Guarded(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return ringwayResourceExhausted;
  } catch (...) {
    return ringwayInternalError;
  }
}

// Completes a struct of a caller whose header may have fewer fields than this one; nullopt: an impossible size.
template <typename T>
std::optional<T> Whole(const T* given, T defaults, std::size_t bytes_min) {
  if (given->size < bytes_min || given->size > sizeof(T)) return std::nullopt;
  std::memcpy(&defaults, given, given->size);
  return defaults;
}

// The session rejects values outside the enums; here they must only not wrap around.
template <typename Enum>
Enum Convert(int value) {
  return static_cast<Enum>(value < 0 || value > UINT8_MAX ? UINT8_MAX : value);
}

// Returns nullopt if the size is impossible.
std::optional<OpOptions> OpOptionsOf(const ringwayOpOptions_t* options);
// Returns whether a result can be written there, or is not wanted (null).
bool IsWritable(const ringwayOpInfo_t* info);
ringwayResult_t RefuseInfo();

// Submits by `start(session, args..., options)`, which returns a Result<Work>.
template <typename Start, typename... Args>
ringwayResult_t StartWork(const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work, Start&& start,
                          const Args&... args) {
  return Guarded([&] {
    if (comm == nullptr || work == nullptr) return Refuse("comm or work is NULL");
    *work = nullptr;
    const std::optional<OpOptions> converted = OpOptionsOf(options);
    if (!converted) return Refuse("start options from RINGWAY_OP_OPTIONS_INITIALIZER");
    auto created = std::make_unique<ringwayWork>();
    auto submitted = std::invoke(start, *comm->session, args..., *converted);
    if (!submitted.ok()) return Report(submitted.status());
    created->work = std::move(submitted.value());
    *work = created.release();
    return ringwaySuccess;
  });
}

// Submits by `start(args..., &work)`, and waits.
template <typename... Params, typename... Args>
ringwayResult_t RunWork(ringwayOpInfo_t* info, ringwayResult_t (*start)(Params...), const Args&... args) {
  if (!IsWritable(info)) return Guarded(RefuseInfo);
  ringwayWork_t work = nullptr;
  const ringwayResult_t submitted = start(args..., &work);
  if (submitted != ringwaySuccess) return submitted;
  const ringwayResult_t result = ringwayWorkWait(work, RINGWAY_FOREVER, info);
  (void)ringwayWorkFree(work);
  return result;
}

}  // namespace ringway::c
