#include "client/src/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace ringway::internal {
namespace {

struct Guard {
  std::mutex mutex;
  std::vector<int> descriptors;
  std::atomic<std::uint64_t> generation{0};
};

// Never destroyed: handlers may run while the process exits.
Guard& TheGuard() {
  static Guard* const guard = new Guard;
  return *guard;
}

void BeforeFork() { TheGuard().mutex.lock(); }

void AfterForkInParent() { TheGuard().mutex.unlock(); }

void AfterForkInChild() {
  Guard& guard = TheGuard();
  for (const int fd : guard.descriptors) close(fd);
  guard.descriptors.clear();
  guard.generation.fetch_add(1, std::memory_order_relaxed);
  guard.mutex.unlock();
}

}  // namespace

std::uint64_t ForkGeneration() { return TheGuard().generation.load(std::memory_order_relaxed); }

int OpenGuarded(int (*open)()) {
  static std::once_flag installed;
  std::call_once(installed, [] { pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild); });
  const std::lock_guard<std::mutex> lock(TheGuard().mutex);
  const int fd = open();
  if (fd >= 0) TheGuard().descriptors.push_back(fd);
  return fd;
}

void CloseGuardedDescriptor(int fd) {
  const std::lock_guard<std::mutex> lock(TheGuard().mutex);
  std::erase(TheGuard().descriptors, fd);
  close(fd);
}

}  // namespace ringway::internal
