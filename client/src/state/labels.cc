#include "client/src/state/labels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace ringway::internal {
namespace {

constexpr std::size_t kTextBytesMax = 120;   // a name or a description in a label
constexpr std::size_t kLabelBytesMax = 300;  // so that two of them fit in kDifferenceBytesMax

std::string Shortened(const std::string& text) {
  if (text.size() <= kTextBytesMax) return text;
  return text.substr(0, kTextBytesMax / 2) + ".." + text.substr(text.size() - kTextBytesMax / 2);
}

// Takes the first label off `labels`; nullopt at the end, or where the rest is malformed.
std::optional<std::string_view> TakeLabel(std::string_view* labels) {
  std::uint32_t bytes = 0;
  if (labels->size() < sizeof(bytes)) return std::nullopt;
  std::memcpy(&bytes, labels->data(), sizeof(bytes));
  if (bytes > labels->size() - sizeof(bytes)) return std::nullopt;
  const std::string_view label = labels->substr(sizeof(bytes), bytes);
  labels->remove_prefix(sizeof(bytes) + bytes);
  return label;
}

std::string WhatRankHas(std::size_t rank, std::optional<std::string_view> label) {
  return "rank " + std::to_string(rank) + (label ? " has " + std::string(*label) : "'s list ends before it");
}

}  // namespace

void AddLabel(const StateTensor& tensor, std::string* labels) {
  const std::string label = "\"" + Shortened(tensor.name) + "\"" +
                            (tensor.description.empty() ? "" : " of " + Shortened(tensor.description)) + " (" +
                            std::to_string(tensor.bytes) + " bytes)";
  const auto bytes = static_cast<std::uint32_t>(label.size());
  if (labels->size() + sizeof(bytes) + kLabelBytesMax > kLabelsBytesMax) return;
  labels->append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  *labels += label;
}

std::string FirstDifference(const RankLabels& one, const RankLabels& other) {
  std::string_view first = one.labels;
  std::string_view second = other.labels;
  for (std::size_t index = 0;; ++index) {
    const auto label = TakeLabel(&first);
    const auto other_label = TakeLabel(&second);
    if (!label && !other_label) {
      return "ranks " + std::to_string(one.rank) + " and " + std::to_string(other.rank) +
             " differ in tensors after the first " + std::to_string(index) + " of their shared states";
    }
    if (label == other_label) continue;
    return "tensor " + std::to_string(index) + " of the shared state differs: " + WhatRankHas(one.rank, label) +
           ", and " + WhatRankHas(other.rank, other_label);
  }
}

}  // namespace ringway::internal
