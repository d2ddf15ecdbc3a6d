// Replaces functions of the C library in the process that is started with it (surroundings.h). Threads: any.
#include "tests/chaos/surroundings.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <ctime>

namespace {

using ringway::chaos::Names;
using ringway::chaos::Surroundings;

// Null: nothing is changed.
const Surroundings* Map() {
  const char* const path = std::getenv(ringway::chaos::kSurroundingsVariable);
  const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const at = ::mmap(nullptr, sizeof(Surroundings), PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<const Surroundings*>(at);
}

const Surroundings* Here() {
  static const Surroundings* const kHere = Map();
  return kHere;
}

std::int64_t AheadSeconds() { return Here() == nullptr ? 0 : Here()->clock_ahead_s.load(std::memory_order_relaxed); }

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Returns whether somebody can set the clock: all but those that count from the start of the machine, a process or a
// thread.
bool IsWallClock(clockid_t clock) {
  constexpr std::array<clockid_t, 6> kOthers = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,      CLOCK_MONOTONIC_COARSE,
                                                CLOCK_BOOTTIME,  CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
  return clock >= 0 && std::find(kOthers.begin(), kOthers.end(), clock) == kOthers.end();
}

bool IsName(const char* host) {
  for (; host != nullptr && *host != '\0'; ++host) {
    if (std::isalpha(static_cast<unsigned char>(*host)) != 0) return true;
  }
  return false;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static auto* const kNext = Next<int(clockid_t, timespec*)>("clock_gettime");
  const int result = kNext(clock, now);
  if (result == 0 && IsWallClock(clock)) now->tv_sec += AheadSeconds();
  return result;
}

time_t time(time_t* out) noexcept {
  static auto* const kNext = Next<time_t(time_t*)>("time");
  const time_t now = kNext(nullptr) + AheadSeconds();
  if (out != nullptr) *out = now;
  return now;
}

int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  static auto* const kNext = Next<int(const char*, const char*, const addrinfo*, addrinfo**)>("getaddrinfo");
  if (Here() != nullptr && IsName(host)) {
    while (Here()->names == Names::kHang) ::usleep(10'000);
    if (Here()->names == Names::kFail) return EAI_AGAIN;
  }
  return kNext(host, service, hints, found);
}

}  // extern "C"
