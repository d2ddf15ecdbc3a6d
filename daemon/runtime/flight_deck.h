// Where the daemon's flight recorder has its memory, and when it is dumped.
//
//   memory    a file, so that a crash or SIGKILL leaves it readable; else private memory
//   its file  made anew, with all of its room, at each start; the one that was there gets the suffix .old
//   a dump    by an abort, a stuck operation (operation_stuck) or a signal (SIGUSR1); each at most every kPause. Its
//             image is taken on the data thread, and handed to `write`, which may take its time elsewhere
//
// Threads: one (data thread), but Open and DumpFiles. Errors: kIo, kInvalidArgument with what to do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/flight/recorder.h"
#include "proto/clock.h"
#include "proto/result.h"

namespace ringway::daemon {

// The memory of a recorder: zeros at first.
class FlightMemory {
 public:
  // An empty path: private memory. The directory of the path has to be there.
  static Result<FlightMemory> Open(const std::string& path);
  ~FlightMemory();
  FlightMemory(FlightMemory&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  FlightMemory& operator=(FlightMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }

  std::span<std::byte> bytes() const { return memory_; }

 private:
  explicit FlightMemory(std::span<std::byte> memory) : memory_(memory) {}

  std::span<std::byte> memory_;
};

enum class DumpCause : std::uint8_t { kAbort, kStuck, kSignal };
const char* NameOf(DumpCause cause);

struct FlightDump {
  DumpCause cause = DumpCause::kSignal;
  std::string image;
};

class FlightDeck {
 public:
  static constexpr Duration kPause = std::chrono::seconds(10);

  // `write`: outlives it.
  FlightDeck(FlightMemory memory, const flight::Origin& origin, std::function<void(FlightDump)> write)
      : memory_(std::move(memory)), recorder_(memory_.bytes(), origin), write_(std::move(write)) {}

  flight::Recorder& recorder() { return recorder_; }
  void Dump(DumpCause cause, TimePoint now);

 private:
  FlightMemory memory_;
  flight::Recorder recorder_;
  std::function<void(FlightDump)> write_;
  std::array<std::optional<TimePoint>, 3> last_;  // by cause
};

// Writes dumps beside the recorder's file: PATH.1 to PATH.kCount, over the oldest of this process. Any thread, one at a
// time.
class DumpFiles {
 public:
  static constexpr unsigned kCount = 8;

  explicit DumpFiles(std::string path) : path_(std::move(path)) {}
  // Returns the file's name. kInvalidArgument: there is no path.
  Result<std::string> Write(const FlightDump& dump);

 private:
  std::string path_;
  unsigned written_ = 0;
};

}  // namespace ringway::daemon
