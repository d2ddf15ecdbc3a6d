// Runs the C trainer of c_api_compile_test.c against the fake daemon.
#include <gtest/gtest.h>
#include <ringway/ringway.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/client/fake_daemon.h"

extern "C" int RunCTrainer(const char* socket_path);

namespace ringway {
namespace {

TEST(CApiTest, TrainerInCSaysEverything) {
  testing::FakeDaemon daemon;
  EXPECT_EQ(RunCTrainer(daemon.socket_path().c_str()), 0) << "the line in c_api_compile_test.c";
  const auto submits = daemon.Look().submits;
  ASSERT_EQ(submits.size(), 5u);
  EXPECT_EQ(submits[0].spec.algorithm, 0u) << "as the plan says";
  EXPECT_EQ(submits[2].spec.algorithm, 1u + static_cast<std::uint32_t>(Algorithm::kHalvingDoubling));
  EXPECT_EQ(submits[2].spec.channel, 3u);
  const auto scatters = [](const abi::Submit& submit) { return submit.spec.kind == OpKind::kReduceScatter; };
  EXPECT_EQ(std::count_if(submits.begin(), submits.end(), scatters), 1);
}

TEST(CApiTest, WhoIsAskedEndsAWait) {
  testing::FakeDaemon daemon({.holds = true});
  ringwayConfig_t config = RINGWAY_CONFIG_INITIALIZER;
  config.socketPath = daemon.socket_path().c_str();
  config.group = "job";
  config.waitWorld = 1;
  int asked = 0;
  config.interrupted = [](void* context) { return ++*static_cast<int*>(context) >= 2 ? 1 : 0; };
  config.interruptedContext = &asked;
  ringwayComm_t comm = nullptr;
  ASSERT_EQ(ringwayCommInit(&comm, &config), ringwaySuccess);
  std::uint8_t value = 1;
  EXPECT_EQ(ringwayAllReduce(&value, &value, 1, ringwayUint8, ringwaySum, comm), ringwayInterrupted);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(ringwayCommDestroy(comm), ringwaySuccess);
}

TEST(CApiTest, ForkedChildFreesNothing) {
  testing::FakeDaemon daemon;
  ringwayConfig_t config = RINGWAY_CONFIG_INITIALIZER;
  config.socketPath = daemon.socket_path().c_str();
  config.group = "job";
  config.waitWorld = 1;
  ringwayComm_t comm = nullptr;
  ASSERT_EQ(ringwayCommInit(&comm, &config), ringwaySuccess);
  void* memory = nullptr;
  ASSERT_EQ(ringwayAlloc(comm, 1000, &memory), ringwaySuccess);
  const pid_t child = fork();
  if (child == 0) _exit(ringwayFree(comm, memory) == ringwayForked ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ringwayFree(comm, memory), ringwaySuccess);
  EXPECT_EQ(ringwayCommDestroy(comm), ringwaySuccess);
}

TEST(CApiTest, NullHandlesAreRefused) {
  EXPECT_EQ(ringwayCommInit(nullptr, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwayCommRank(nullptr, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwayAllReduce(nullptr, nullptr, 0, ringwayUint8, ringwaySum, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwayWorkWait(nullptr, 0, nullptr), ringwayInvalidArgument);
  const ringwayWork_t none = nullptr;
  std::size_t index = 7;
  EXPECT_EQ(ringwayWorkWaitAny(&none, 1, 0, &index), ringwayInvalidArgument);
  EXPECT_EQ(ringwayWorkWaitAny(&none, 0, 0, &index), ringwayInvalidArgument);
  EXPECT_EQ(index, 7u);
}

}  // namespace
}  // namespace ringway
