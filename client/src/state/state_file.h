// A state on disk: replaced atomically, and read only if it is complete.
//
//   8 bytes    "RINGWAY2"
//   8          revision, little-endian; so all below
//   8          bytes of content
//   8          layout: a hash of names, sizes and descriptions. One of names and sizes alone is accepted as well: it is
//              from a writer without descriptions
//   16         a 128-bit hash of the four above and the content
//   the content
//
// Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <ringway/shared_state.hpp>
#include <string>

#include "client/src/state/state_bytes.h"

namespace ringway::internal {

class StateFile {
 public:
  explicit StateFile(std::string path) : path_(std::move(path)), new_path_(path_ + ".new") {}

  // Replaces the file. kIo, or the state's error; the earlier file stays then.
  Status Save(std::uint64_t revision, StateBytes* state) const;
  // Fills the tensors, if the file is complete. Returns the revision, or nothing if there is no file.
  // kInvalidArgument: it is damaged, another model's, or has no directory; kResourceExhausted: no room to save; kIo.
  Result<std::optional<std::uint64_t>> Load(StateBytes* state) const;

 private:
  Status CheckRoom(std::size_t bytes) const;
  std::string directory() const;

  std::string path_;
  std::string new_path_;
};

}  // namespace ringway::internal
