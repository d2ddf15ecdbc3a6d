// Where the daemon's flight recorder has its memory, and when it is dumped.
//
//   memory    a file, so that a crash or SIGKILL leaves it readable; else private memory
//   its file  made anew, with all of its room, at each start, and locked while the daemon runs; the one that was there
//             gets the suffix .old if it has records
//   a dump    by an abort, a stuck operation (operation_stuck) or a signal (SIGUSR1); each at most every kPause in a
//             group. Its image is taken on the data thread, and handed to `write`, which may take its time elsewhere
//
// Threads: one (data thread), but Open and DumpFiles. Errors: kIo, kInvalidArgument with what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/flight/recorder.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "proto/stream/unique_fd.h"

namespace ringway::daemon {

// The memory of a recorder: zeros at first, but for the mark of a file.
class FlightMemory {
 public:
  // An empty path: private memory. The directory of the path has to be there. Files of others are left alone, as is one
  // that another daemon writes to.
  static Result<FlightMemory> Open(const std::string& path);
  // Whether what lies there would be left alone; a daemon that runs may write to it. Changes nothing.
  static Status Check(const std::string& path);
  ~FlightMemory();
  FlightMemory(FlightMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, {})), lock_(std::move(other.lock_)) {}
  FlightMemory& operator=(FlightMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(lock_, other.lock_);
    return *this;
  }

  std::span<std::byte> bytes() const { return memory_; }

 private:
  FlightMemory(std::span<std::byte> memory, net::UniqueFd lock) : memory_(memory), lock_(std::move(lock)) {}

  std::span<std::byte> memory_;
  net::UniqueFd lock_;  // the file's
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
  // `group`: empty: of none.
  void Dump(DumpCause cause, const std::string& group, TimePoint now);

 private:
  FlightMemory memory_;
  flight::Recorder recorder_;
  std::function<void(FlightDump)> write_;
  std::map<std::pair<std::string, DumpCause>, TimePoint> last_;  // of dumps less than kPause ago
};

// Writes dumps beside the recorder's file: PATH.1 to PATH.kCount, over the oldest; what is no dump is left alone. Any
// thread, one at a time.
class DumpFiles {
 public:
  static constexpr unsigned kCount = 8;

  explicit DumpFiles(std::string path) : path_(std::move(path)) {}
  // Returns the file's name. kInvalidArgument: there is no path, or all of these files are others'.
  Result<std::string> Write(const FlightDump& dump);

 private:
  std::string PathOf(unsigned number) const;
  unsigned OldestNumber() const;
  static Result<std::string> WriteTo(const std::string& path, const FlightDump& dump);

  std::string path_;
  std::optional<unsigned> next_;  // nothing: none was written yet
};

}  // namespace ringway::daemon
