// Tests the errors that ranks get for states that do not match.
#include "client/src/state/labels.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::internal {
namespace {

std::string LabelsOf(const std::vector<StateTensor>& tensors) {
  std::string labels;
  for (const StateTensor& tensor : tensors) AddLabel(tensor, &labels);
  return labels;
}

std::string Difference(const std::vector<StateTensor>& one, const std::vector<StateTensor>& other) {
  return FirstDifference({2, LabelsOf(one)}, {5, LabelsOf(other)});
}

TEST(LabelsTest, FirstTensorThatDiffersIsNamedWithBothRanks) {
  const StateTensor same{"a", nullptr, 4, "float32[1]"};
  EXPECT_EQ(Difference({same, {"w", nullptr, 6, "bfloat16[3]"}, {"x"}}, {same, {"w", nullptr, 6, "float16[3]"}, {"y"}}),
            "tensor 1 of the shared state differs: rank 2 has \"w\" of bfloat16[3] (6 bytes), and rank 5 has \"w\" of "
            "float16[3] (6 bytes)");
  EXPECT_EQ(Difference({same}, {same, {"w", nullptr, 6}}),
            "tensor 1 of the shared state differs: rank 2's list ends before it, and rank 5 has \"w\" (6 bytes)");
}

TEST(LabelsTest, LongNamesAreShortenedToFitInASentence) {
  const std::string name(100000, 'n');
  const std::string difference = Difference({{name, nullptr, 1, name}}, {{name, nullptr, 2, name}});
  EXPECT_LE(difference.size(), kDifferenceBytesMax);
  EXPECT_NE(difference.find("(1 bytes)"), std::string::npos);
  EXPECT_NE(difference.find("(2 bytes)"), std::string::npos);
}

TEST(LabelsTest, ListsThatAreCutAreEqualUpToThere) {
  std::string labels;
  const StateTensor tensor{std::string(100, 'n'), nullptr, 1};
  for (std::size_t bytes = 0; bytes <= kLabelsBytesMax; bytes += tensor.name.size()) AddLabel(tensor, &labels);
  EXPECT_LE(labels.size(), kLabelsBytesMax);
  const std::string before = labels;
  AddLabel({"n"}, &labels);
  EXPECT_EQ(labels, before);
  EXPECT_NE(FirstDifference({0, labels}, {1, labels}).find("after the first"), std::string::npos);
}

TEST(LabelsTest, AnyBytesOfAnotherRankAreReadAsAList) {
  const std::string own = LabelsOf({{"w", nullptr, 6}});
  for (std::size_t at = 0; at < own.size(); ++at) {
    std::string theirs = own;
    theirs[at] = static_cast<char>(0xff);
    EXPECT_NE(FirstDifference({0, theirs}, {1, own}).find("differs"), std::string::npos) << at;
    EXPECT_NE(FirstDifference({0, own.substr(0, at)}, {1, own}).find("list ends before it"), std::string::npos) << at;
  }
}

}  // namespace
}  // namespace ringway::internal
