// Several tensors as the buffer of one operation: one after the other, each aligned to `align` elements, so that no
// block of a codec reaches from one into the next. The gaps are zero.
//
// The memory is the trainer's. Threads: any; nothing changes once it is made.
#pragma once

#include <cstddef>
#include <ringway/ringway.hpp>
#include <vector>

namespace ringway::internal {

class TensorList {
 public:
  // Limit for the elements of all tensors together.
  static constexpr std::size_t kCountMax = std::size_t{1} << 46;

  // kInvalidArgument: null or overlapping memory, or too much of it.
  static Result<TensorList> Make(const std::vector<Tensor>& tensors, std::size_t element_bytes, std::size_t align);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Elements of the buffer, gaps included.
  std::size_t count() const { return count_; }
  // Copies the buffer's bytes from `begin` on, which are the inputs', to `to`. REQUIRES: they are within the buffer.
  void Gather(std::size_t begin, std::size_t bytes, std::byte* to) const;
  // Copies the buffer, which is `from`, to the outputs.
  void Scatter(const std::byte* from) const;

 private:
  std::vector<Tensor> tensors_;      // without empty ones
  std::vector<std::size_t> begins_;  // where each begins in the buffer, in bytes
  std::size_t element_bytes_ = 1;
  std::size_t count_ = 0;
};

}  // namespace ringway::internal
