// A session of a fake daemon whose trainer has the tests' device.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <ringway/ringway.hpp>
#include <string>
#include <vector>

#include "tests/client/fake_daemon.h"
#include "tests/client/joining.h"
#include "tests/device/test_device.h"

namespace ringway {

using std::chrono::seconds;
using testing::FakeDaemon;
using testing::Faults;
using testing::TestDevice;
using testing::TestStream;

inline constexpr std::size_t kLarge = (std::size_t{9} << 20) + 5;

// Device memory with a known pattern.
class Memory {
 public:
  explicit Memory(std::size_t bytes, std::uint8_t first = 3, std::int32_t device = 0) : bytes_(bytes) {
    const auto status = TestDevice::Get().Allocate(device, bytes, &data_);
    EXPECT_TRUE(status.ok()) << status.text;
    std::iota(begin(), end(), first);
  }
  ~Memory() { TestDevice::Get().Free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return data_; }
  std::uint8_t* begin() const { return reinterpret_cast<std::uint8_t*>(TestDevice::Get().Contents(data_)); }
  std::uint8_t* end() const { return begin() + bytes_; }
  std::vector<std::uint8_t> Copy() const { return {begin(), end()}; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

inline std::vector<std::uint8_t> Pattern(std::size_t bytes, std::uint8_t first) {
  std::vector<std::uint8_t> values(bytes);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = testing::MustJoin(testing::OptionsFor(daemon_));
    ASSERT_NE(session_, nullptr);
  }
  void TearDown() override { device().Reset(); }

  // Joins with a session that rejoins.
  void JoinAgain() {
    JoinOptions options = testing::OptionsFor(daemon_);
    options.reconnect = seconds(30);
    session_.reset();
    session_ = testing::MustJoin(options);
    ASSERT_NE(session_, nullptr);
  }

  static TestDevice& device() { return TestDevice::Get(); }
  Result<OpResult> Reduce(const void* input, void* output, std::size_t bytes, TestStream* stream = nullptr) {
    OpOptions options;
    if (stream != nullptr) options.stream = stream->handle();
    return session_->AllReduce(input, output, bytes, DType::kU8, ReduceOp::kSum, options);
  }
  Result<Work> Start(const void* input, void* output, std::size_t bytes, TestStream* stream = nullptr,
                     std::uint32_t channel = 0) {
    OpOptions options{.channel = channel};
    if (stream != nullptr) options.stream = stream->handle();
    return session_->AllReduceAsync(input, output, bytes, DType::kU8, ReduceOp::kSum, options);
  }
  // Waits until the client has reported to the daemon that a whole input of `bytes` is staged.
  bool IsStaged(std::size_t bytes) {
    return daemon_.WaitUntil(
        [bytes](const FakeDaemon::Seen& seen) { return !seen.progress.empty() && seen.progress.back() == bytes; });
  }
  // Waits until the result is on its way to the device.
  static void AwaitCopying(Work& work) {
    for (std::string reported; reported.find("being copied") == std::string::npos;) {
      const Status error = work.Wait(Milliseconds(0)).status();
      ASSERT_EQ(error.code(), Code::kTimeout) << error.text();
      reported = error.text();
    }
  }
  // An operation on host memory succeeds: the session is unharmed.
  void ExpectHostWorks() {
    std::uint8_t value = 1;
    const auto result = Reduce(&value, &value, 1);
    EXPECT_TRUE(result.ok()) << result.status().text();
    EXPECT_EQ(value, 2);
  }

  FakeDaemon daemon_;
  std::unique_ptr<Session> session_;
};

}  // namespace ringway
