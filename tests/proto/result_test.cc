#include "proto/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ringway {
namespace {

Result<std::unique_ptr<int>> Make(int value) {
  if (value < 0) return Status(Code::kInvalidArgument, "negative");
  return std::make_unique<int>(value);
}

TEST(ResultTest, StatusIsOkUntilSetOtherwise) {
  EXPECT_TRUE(Status().ok());
  EXPECT_TRUE(Status::Ok().ok());
  EXPECT_EQ(Status().text(), "");
  const Status bad(Code::kIo, "disk full");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.code(), Code::kIo);
  EXPECT_EQ(bad.text(), "disk full");
}

TEST(ResultTest, HoldsAValueThatCanBeMovedOut) {
  Result<std::unique_ptr<int>> made = Make(5);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made.status().ok());
  *made.value() += 1;
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 6);
}

TEST(ResultTest, HoldsTheFailure) {
  const Result<std::unique_ptr<int>> made = Make(-1);
  EXPECT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(made.status().text(), "negative");
  EXPECT_EQ(Result<int>(Code::kTimeout, "late").status().code(), Code::kTimeout);
}

TEST(ResultDeathTest, ValueOfAFailureBreaksTheContract) {
  EXPECT_DEATH((void)Make(-1).value(), "invariant broken: negative");
  const Result<int> constant(Code::kIo, "x");
  EXPECT_DEATH((void)constant.value(), "invariant broken");
}

TEST(ResultDeathTest, SuccessWithoutAValueBreaksTheContract) {
  EXPECT_DEATH((void)Result<int>(Status::Ok()), "invariant broken");
}

TEST(CodeFromWireTest, NumbersWithoutACodeAreNone) {
  EXPECT_EQ(CodeFromWire(0), Code::kOk);
  EXPECT_EQ(CodeFromWire(kCodeCount - 1), static_cast<Code>(kCodeCount - 1));
  EXPECT_EQ(CodeFromWire(kCodeCount), Code::kProtocol);
  EXPECT_EQ(FailureFromWire(0, Code::kEvicted), Code::kEvicted) << "success is no failure";
  EXPECT_EQ(FailureFromWire(~0U, Code::kJoinRefused), Code::kJoinRefused);
  EXPECT_EQ(FailureFromWire(static_cast<std::uint32_t>(Code::kMismatch)), Code::kMismatch);
}

}  // namespace
}  // namespace ringway
