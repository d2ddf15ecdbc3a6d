// The bytes of all tensors of a state, one after the other, in pieces of up to 16 MiB.
//
//   counters      weights, moments and others        counters
//   | own piece | 16 MiB | 16 MiB | the rest        | own piece |
//
// Small tensors at either end have a piece of their own: a number that changes with each step would otherwise make the
// rest of its piece travel, too, while all wait.
//
// Threads: one; Hashes uses more within.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ringway/shared_state.hpp>
#include <string>
#include <vector>

#include "client/src/fork_guard.h"
#include "client/src/state/choose.h"
#include "client/src/state/device_copier.h"

namespace ringway::internal {

inline constexpr std::size_t kStatePieceBytes = std::size_t{16} << 20;

// Contents of pieces, by number.
using Pieces = std::map<std::size_t, std::unique_ptr<std::byte[]>>;

class StateBytes {
 public:
  // kInvalidArgument: the tensors cannot be used; kNotSupported: they are a device's, and there is no library for it.
  static Result<StateBytes> Make(const std::vector<StateTensor>& tensors);

  // A forked child has neither the session nor the device.
  bool IsForked() const { return generation_ != ForkGeneration(); }
  std::size_t bytes() const { return bytes_; }
  // Hashes of names, sizes and descriptions, and of names and sizes; they are equal without descriptions.
  std::uint64_t layout() const { return layout_; }
  std::uint64_t layout_undescribed() const { return layout_undescribed_; }
  const std::string& labels() const { return labels_; }  // as in labels.h
  std::size_t piece_count() const { return begins_.size(); }
  std::size_t bytes_of(std::size_t piece) const;

  // Copies `bytes` of a piece from byte `begin` of it on. REQUIRES: it has them.
  Status Read(std::size_t piece, std::size_t begin, std::size_t bytes, std::byte* to);
  // All bytes are in a Buffer, one after the other, from which they can be sent without a copy.
  void SetBuffer(std::byte* buffer) { buffer_ = buffer; }
  bool is_in_buffer() const { return buffer_ != nullptr; }
  // REQUIRES: is_in_buffer().
  std::byte* InBuffer(std::size_t piece, std::size_t begin) const { return buffer_ + begins_[piece] + begin; }
  Status Write(const Pieces& pieces);
  // Returns the hash of each piece.
  Result<std::vector<Hash>> Hashes();

 private:
  struct Tensor {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t begin = 0;               // among all bytes
    std::optional<std::int32_t> device;  // nullopt: the host's
  };
  // Calls visit(tensor, offset in it, offset in the range, bytes) for each part of a range within one tensor.
  template <typename Visit>
  Status ForEachPart(std::size_t begin, std::size_t bytes, Visit visit) const;
  void CutIntoPieces();
  Hash HashOfHostPiece(std::size_t piece) const;
  bool IsOnHost() const { return copier_ == nullptr; }

  std::uint64_t generation_ = ForkGeneration();
  std::vector<Tensor> tensors_;  // without empty ones
  std::size_t bytes_ = 0;
  std::vector<std::size_t> begins_;  // of the pieces
  std::uint64_t layout_ = 0;
  std::uint64_t layout_undescribed_ = 0;
  std::string labels_;
  std::unique_ptr<DeviceCopier> copier_;  // null: all is the host's
  std::byte* buffer_ = nullptr;           // null: the tensors are no Buffer
};

}  // namespace ringway::internal
