#include "client/src/tensor_list.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace ringway::internal {
namespace {

bool OverlapInPart(const Tensor& tensor, std::size_t bytes) {
  const auto input = reinterpret_cast<std::uintptr_t>(tensor.input);
  const auto output = reinterpret_cast<std::uintptr_t>(tensor.output);
  return input != output && (input < output ? output - input : input - output) < bytes;
}

}  // namespace

Result<TensorList> TensorList::Make(const std::vector<Tensor>& tensors, std::size_t element_bytes, std::size_t align) {
  TensorList list;
  list.element_bytes_ = element_bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const auto refuse = [i](const std::string& why) {
      return Status(Code::kInvalidArgument, "tensor " + std::to_string(i) + ": " + why);
    };
    if (tensor.count == 0) continue;
    if (tensor.input == nullptr || tensor.output == nullptr)
      return refuse("its memory is null, and its count is not 0");
    const std::size_t begin = (list.count_ + align - 1) / align * align;
    if (tensor.count > kCountMax / element_bytes - std::min(begin, kCountMax / element_bytes)) {
      return refuse("with it there are over 2^46 bytes; split the list");
    }
    if (OverlapInPart(tensor, tensor.count * element_bytes)) {
      return refuse("input and output overlap in part; they must be equal or disjoint");
    }
    list.tensors_.push_back(tensor);
    list.begins_.push_back(begin * element_bytes);
    list.count_ = begin + tensor.count;
  }
  return list;
}

void TensorList::Gather(std::size_t begin, std::size_t bytes, std::byte* to) const {
  // The last that begins at or before the range.
  auto next = std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin();
  if (next > 0) --next;
  const std::size_t end = begin + bytes;
  for (auto i = static_cast<std::size_t>(next); begin < end; ++i) {
    const std::size_t tensor_end = begins_[i] + tensors_[i].count * element_bytes_;
    if (begin < tensor_end) {
      const std::size_t piece = std::min(end, tensor_end) - begin;
      std::memcpy(to, static_cast<const std::byte*>(tensors_[i].input) + (begin - begins_[i]), piece);
      to += piece;
      begin += piece;
    }
    if (begin == end) return;
    const std::size_t gap = std::min(end, begins_[i + 1]) - begin;
    std::memset(to, 0, gap);
    to += gap;
    begin += gap;
  }
}

void TensorList::Scatter(const std::byte* from) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::memcpy(tensors_[i].output, from + begins_[i], tensors_[i].count * element_bytes_);
  }
}

}  // namespace ringway::internal
