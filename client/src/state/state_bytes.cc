#include "client/src/state/state_bytes.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <set>
#include <string>
#include <thread>

#include "client/src/device_part.h"
#include "client/src/state/hashing.h"
#include "client/src/state/labels.h"
#include "proto/device/signals_blocked.h"

namespace ringway::internal {
namespace {

using device::Direction;

constexpr std::size_t kStateBytesMax = std::size_t{1} << 46;
constexpr std::size_t kHashThreadsMax = 8;
constexpr std::size_t kDescriptionBytesMax = 1024;
constexpr std::size_t kSmallTensorBytes = std::size_t{64} << 10;

Status Refuse(const StateTensor& tensor, const std::string& why) {
  return Status(Code::kInvalidArgument, "tensor \"" + tensor.name + "\" of the shared state " + why);
}

std::string Counted(const std::string& text) { return std::to_string(text.size()) + ":" + text; }

}  // namespace

Result<StateBytes> StateBytes::Make(const std::vector<StateTensor>& tensors) {
  StateBytes made;
  std::set<std::string> names;
  std::string layout;
  std::string layout_undescribed;
  for (const StateTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) return Refuse(tensor, "is listed twice");
    if (tensor.bytes > kStateBytesMax - made.bytes_) return Refuse(tensor, "is too large");
    if (tensor.description.size() > kDescriptionBytesMax) return Refuse(tensor, "has a description that is too long");
    const std::string entry = Counted(tensor.name) + ":" + std::to_string(tensor.bytes);
    layout_undescribed += entry + ";";
    layout += tensor.description.empty() ? entry + ";" : entry + ":" + Counted(tensor.description) + ";";
    AddLabel(tensor, &made.labels_);
    if (tensor.bytes == 0) continue;
    if (tensor.data == nullptr) return Refuse(tensor, "has no memory");
    auto found = FindDeviceMemory({tensor.data, tensor.bytes}, {});
    if (!found.ok()) return Status(found.status().code(), "\"" + tensor.name + "\": " + found.status().text());
    Tensor& added = made.tensors_.emplace_back();
    added = {static_cast<std::byte*>(tensor.data), tensor.bytes, made.bytes_, std::nullopt};
    if (*found != nullptr && (*found)->input) {
      added.device = (*found)->input;
      if (made.copier_ == nullptr) made.copier_ = std::make_unique<DeviceCopier>((*found)->library);
    }
    made.bytes_ += tensor.bytes;
  }
  made.CutIntoPieces();
  made.layout_ = HashOf(layout.data(), layout.size()).low;
  made.layout_undescribed_ = HashOf(layout_undescribed.data(), layout_undescribed.size()).low;
  return made;
}

void StateBytes::CutIntoPieces() {
  const auto is_large = [](const Tensor& tensor) { return tensor.bytes > kSmallTensorBytes; };
  const auto first = std::find_if(tensors_.begin(), tensors_.end(), is_large);
  const auto last = std::find_if(tensors_.rbegin(), tensors_.rend(), is_large);
  const std::size_t large_begin = first == tensors_.end() ? bytes_ : first->begin;
  const std::size_t large_end = last == tensors_.rend() ? bytes_ : last->begin + last->bytes;
  const auto cut = [this](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; at += kStatePieceBytes) begins_.push_back(at);
  };
  cut(0, large_begin);
  cut(large_begin, large_end);
  cut(large_end, bytes_);
}

std::size_t StateBytes::bytes_of(std::size_t piece) const {
  return (piece + 1 < begins_.size() ? begins_[piece + 1] : bytes_) - begins_[piece];
}

template <typename Visit>
Status StateBytes::ForEachPart(std::size_t begin, std::size_t bytes, Visit visit) const {
  const std::size_t end = begin + bytes;
  auto tensor = std::upper_bound(tensors_.begin(), tensors_.end(), begin,
                                 [](std::size_t at, const Tensor& one) { return at < one.begin; });
  --tensor;
  for (std::size_t at = begin; at < end; ++tensor) {
    const std::size_t offset = at - tensor->begin;
    const std::size_t part = std::min(tensor->bytes - offset, end - at);
    if (Status error = visit(*tensor, offset, at - begin, part); !error.ok()) return error;
    at += part;
  }
  return {};
}

Status StateBytes::Read(std::size_t piece, std::size_t begin, std::size_t bytes, std::byte* to) {
  const auto copy = [&](const Tensor& tensor, std::size_t from, std::size_t at, std::size_t part) {
    if (tensor.device) return copier_->Copy(Direction::kToHost, *tensor.device, tensor.data + from, to + at, part);
    std::memcpy(to + at, tensor.data + from, part);
    return Status();
  };
  return ForEachPart(begins_[piece] + begin, bytes, copy);
}

Status StateBytes::Write(const Pieces& pieces) {
  for (const auto& [piece, content] : pieces) {
    std::byte* const data = content.get();
    const auto copy = [&](const Tensor& tensor, std::size_t to, std::size_t at, std::size_t part) {
      if (tensor.device) return copier_->Copy(Direction::kToDevice, *tensor.device, tensor.data + to, data + at, part);
      std::memcpy(tensor.data + to, data + at, part);
      return Status();
    };
    if (Status error = ForEachPart(begins_[piece], bytes_of(piece), copy); !error.ok()) return error;
  }
  return {};
}

Hash StateBytes::HashOfHostPiece(std::size_t piece) const {
  Hasher hasher;
  const auto add = [&](const Tensor& tensor, std::size_t from, std::size_t, std::size_t part) {
    hasher.Add(tensor.data + from, part);
    return Status();
  };
  (void)ForEachPart(begins_[piece], bytes_of(piece), add);
  return hasher.Result();
}

Result<std::vector<Hash>> StateBytes::Hashes() {
  std::vector<Hash> hashes(piece_count());
  if (!IsOnHost()) {
    const auto content = std::make_unique_for_overwrite<std::byte[]>(std::min(kStatePieceBytes, bytes_));
    for (std::size_t piece = 0; piece < hashes.size(); ++piece) {
      if (Status error = Read(piece, 0, bytes_of(piece), content.get()); !error.ok()) return error;
      hashes[piece] = HashOf(content.get(), bytes_of(piece));
    }
    return hashes;
  }
  std::atomic<std::size_t> next = 0;
  const auto hash = [&] {
    for (std::size_t piece = next++; piece < hashes.size(); piece = next++) hashes[piece] = HashOfHostPiece(piece);
  };
  const std::size_t useful = std::min<std::size_t>(hashes.size(), std::thread::hardware_concurrency());
  const device::SignalsBlocked blocked;
  std::vector<std::jthread> threads;
  try {
    while (threads.size() + 1 < std::min(useful, kHashThreadsMax)) threads.emplace_back(hash);
  } catch (const std::exception&) {  // goes on with the threads that there are
  }
  hash();
  threads.clear();
  return hashes;
}

}  // namespace ringway::internal
