// A device library: what Ringway needs of a GPU's runtime, behind one interface, in a shared object of its own that is
// loaded when a process first meets device memory (loader.h). Implementations: CUDA (daemon/staging/cuda_library.cc),
// and the tests' device, whose memory only asynchronous copies reach (tests/device/test_device.h).
//
// Copies: each device has two copy streams, one a direction. A direction carries its copies out one after the other,
// each slice by slice, and reports every slice that has arrived; so the network sends the first slice of an input while
// the next is being copied, and inputs and results cross at the same time. A copy takes its place in that order only
// when the work it comes after (CopyJob::after) is done: that may wait for the result of another operation, which then
// needs the same copy stream.
//
// Host memory of copies is pinned. Device memory stays the caller's, and lives until the last report of its copies.
//
// Errors: a Status with a code of ringway/types.h: kInvalidArgument (memory or stream of the wrong device, too short, a
// stream that is being captured), kResourceExhausted (no memory, pinned or on the device), kDeviceFailed (a lost
// device; the driver's words are in the text).
//
// Threads: every function from any thread, but not from within a report. Objects handed out belong to the caller.
// Forks: not to be called in forked children.
#pragma once

#include <ringway/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <ringway/result.hpp>

namespace ringway::device {

// Version of this interface: a library of another one is refused.
inline constexpr std::uint32_t kLibraryVersion = 3;

// cudaStream_t. Null: the default stream.
using Stream = void*;

// Plain: it crosses from one shared object to another.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  char text[224] = {};
  bool ok() const { return code == Code::kOk; }
};

// `format` and `arguments` are printf's, and at least one argument; a text of its own needs none.
template <typename First, typename... Rest>
Status Failure(Code code, const char* format, First first, Rest... rest) {
  Status status{.code = code};
  (void)std::snprintf(status.text, sizeof status.text, format, first, rest...);
  return status;
}

inline ringway::Status ToStatus(const Status& status) { return {status.code, status.text}; }

inline Status Failure(Code code, const char* text) { return Failure(code, "%s", text); }

struct Location {
  bool on_device = false;  // copies have to reach it; false: the host may read and write it
  std::int32_t device = -1;
};

// What a stream held when it was marked.
class Mark {
 public:
  Mark() = default;
  virtual ~Mark() = default;
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
};

enum class Direction : std::uint8_t { kToHost, kToDevice };

struct CopyJob {
  Direction direction = Direction::kToHost;
  std::int32_t device = 0;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;                        // at least 1
  std::shared_ptr<const Mark> after = nullptr;  // begins when the marked work is done; null: at once
  // The first `arrived` bytes are there. Called on a thread of the library, never within Start: with 0 when the marked
  // work is done (and, of a Hold, the stream is there), then for each slice in order, the last time with `arrived` ==
  // bytes or with a failure. Calls nothing of the library but GoOn, ~Hold, ~Mark and UnpinLater.
  void (*report)(void* context, std::size_t arrived, const Status& status) = nullptr;
  void* context = nullptr;
};

// A stream that waits for a result: what is enqueued in it later begins after the result was copied or, if there is
// none, after GoOn. Everything the stream needs is enqueued with it, so that it is reached while a driver that serves
// one thread at a time is in the hands of one that waits for that very stream: Release, GoOn and the destructor, which
// is GoOn, never block and call nothing of the driver.
class Hold {
 public:
  Hold() = default;
  virtual ~Hold() = default;
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // The result is there: carries out the copy to the device of HoldStream, from pinned memory named there, and then
  // lets the streams go on. Always reports; `after` was HoldStream's. Once at most.
  virtual void Release(const CopyJob& job) = 0;
  // There is no result. Nothing after Release. Also while another thread is in AddStream.
  virtual void GoOn() = 0;
  // Another stream waits, too. kNotSupported: the caller has to, in its place.
  virtual Status AddStream(Stream stream) = 0;
};

class Library {
 public:
  Library() = default;
  virtual ~Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  virtual const char* name() const = 0;
  // A copy of which nothing was reported for so long, once it could begin, has failed: the device hangs.
  virtual std::chrono::milliseconds patience() const = 0;

  // Finds where `bytes` of memory are; any address may be asked for. kInvalidArgument if they begin on a device and end
  // elsewhere.
  virtual Status Locate(const void* memory, std::size_t bytes, Location* location) = 0;
  // Pinned memory is copied at full speed and without blocking, by `device` and all others. Whole pages, each pinned
  // once at most.
  virtual Status Pin(std::int32_t device, void* host, std::size_t bytes) = 0;
  // Unpins on a thread of the library, then calls `then(context)` there. Never blocks: drivers may wait for a device to
  // be idle before they unpin, and it may be waiting for a Hold.
  virtual void UnpinLater(std::int32_t device, void* host, void (*then)(void* context), void* context) = 0;

  virtual Status MarkStream(std::int32_t device, Stream stream, std::shared_ptr<Mark>* mark) = 0;
  // Makes a stream wait for a result that is still to come, once `after` (or null) is done; the result will be copied
  // from the pinned `host` memory, or a part of it, to the device. kNotSupported: the caller has to wait in its place.
  virtual Status HoldStream(std::int32_t device, Stream stream, const std::shared_ptr<const Mark>& after,
                            const void* host, std::shared_ptr<Hold>* hold) = 0;
  // Never blocks. After a failure nothing is reported.
  virtual Status Start(const CopyJob& job) = 0;

  // Benchmarks and tests use these; they block.
  virtual Status Allocate(std::int32_t device, std::size_t bytes, void** memory) = 0;
  virtual void Free(void* memory) = 0;
  virtual Status CopyNow(void* to, const void* from, std::size_t bytes) = 0;
};

// A device library exports this function, as C, under kFactoryName. It returns the process's one library, which is
// never destroyed; null if it has another version.
using Factory = Library* (*)(std::uint32_t version);
inline constexpr char kFactoryName[] = "RingwayDeviceLibrary";

}  // namespace ringway::device
