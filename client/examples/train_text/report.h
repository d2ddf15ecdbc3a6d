// Output of a training run: a log with one JSON object a line, and a hash of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

namespace train_text {

struct StepRecord {
  std::uint64_t step = 0;
  double loss = 0;  // average of all ranks, nats a character
  double progress = 0;
  double milliseconds = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::uint64_t epoch = 0;
  std::uint64_t retries = 0;     // so far
  std::uint64_t wire_bytes = 0;  // sent by this rank so far
};

// Each line is flushed, so that the file can be followed.
class StepLog {
 public:
  // Returns whether the file could be created. Without Open, Write does nothing.
  [[nodiscard]] bool Open(const std::string& path);
  void Write(const StepRecord& record);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> file_;
};

// FNV-1a, 64 bits.
std::uint64_t HashOf(std::span<const std::byte> bytes);

}  // namespace train_text
