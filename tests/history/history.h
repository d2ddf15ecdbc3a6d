// Writes a history: submissions and outcomes of trainers, one JSON object a line (README.md). It is the input of
// check_history.py, which has to find what contradicts the promises without knowing how inputs and results are made.
//
//   join --> submit --> outcome --> submit --> outcome --> ... --> end
//
// A line is one write to a file that is opened for appending, so it is there whole however its writer ends.
//
// One thread.
#pragma once

#include <ringway/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringway::history {

// A JSON object that is being written: members in the order of the calls.
class Object {
 public:
  Object& Add(std::string_view name, std::string_view text);
  Object& Add(std::string_view name, const char* text) { return Add(name, std::string_view(text)); }
  Object& Add(std::string_view name, std::uint64_t number);
  Object& Add(std::string_view name, bool value);
  Object& Add(std::string_view name, double number);
  Object& Add(std::string_view name, const std::vector<std::uint64_t>& numbers);
  // `json`: a value.
  Object& AddRaw(std::string_view name, std::string_view json);
  std::string Text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

// Elements of a buffer that was, or is to be, reduced. `whole`: how many elements the operation has; `part`: which of
// them begin at `data`. All ranks have to name one `salt` for an operation: it chooses the elements that are sampled.
struct Reduced {
  DType dtype = DType::kF32;
  const void* data = nullptr;
  Part part;
  std::size_t whole = 0;
  std::uint64_t salt = 0;
};
// "{sketch, max, at, values, whole}".
std::string Describe(const Reduced& elements);

// Hashes of consecutive pieces of these sizes, in bytes, that are moved as they are: "{pieces}".
std::string DescribePieces(const void* data, const std::vector<std::size_t>& bytes);

std::string HexOf(std::uint64_t number);

class Writer {
 public:
  // Appends to a file. An empty path: writes nothing.
  explicit Writer(const std::string& path);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  bool on() const { return fd_ >= 0; }
  // Adds the event's name and the time of the host's monotonic clock. Returns false if it could not be written.
  bool Write(std::string_view event, const Object& members) const;

 private:
  int fd_ = -1;
};

}  // namespace ringway::history
