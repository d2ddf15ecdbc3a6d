// The device library is found by whichever threads ask for it first.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <thread>
#include <vector>

#include "proto/device/loader.h"

namespace ringway {
namespace {

constexpr int kThreads = 4;

// Returns whether all threads find the library, in a process that has not asked yet.
bool AllFindIt() {
  ::setenv("RINGWAY_DEVICE_LIBRARY", RINGWAY_TEST_DEVICE_PATH, 1);
  std::atomic<int> found = 0;
  std::barrier start(kThreads);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      if (device::Load().library != nullptr) ++found;
    });
  }
  threads.clear();
  return found == kThreads;
}

TEST(DeviceLoaderTest, NoThreadLearnsOfNoLibraryWhileAnotherFindsIt) {
  constexpr int kProcesses = 300;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::syscall(SYS_exit_group, AllFindIt() ? 0 : 1);  // ThreadSanitizer's _exit sleeps for a second
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "process " << i;
  }
}

}  // namespace
}  // namespace ringway
