#include "proto/device/loader.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace ringway::device {
namespace {

constexpr char kDriver[] = "libcuda.so.1";
constexpr char kCudaLibrary[] = "libringway-cuda.so." RINGWAY_SOVERSION;

Loaded Open(const std::string& path) {
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // for good
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return {.problem = std::string("no device library: ") + (reason != nullptr ? reason : path)};
  }
  const auto factory = reinterpret_cast<Factory>(::dlsym(handle, kFactoryName));
  Library* const library = factory != nullptr ? factory(kLibraryVersion) : nullptr;
  if (library == nullptr) return {.problem = path + " is no device library of this version; install the same of both"};
  return {.library = library};
}

// Returns how many objects the process has loaded so far.
unsigned long long LoadCount() {
  unsigned long long count = 0;
  const auto look = [](dl_phdr_info* info, std::size_t, void* out) {
    *static_cast<unsigned long long*>(out) = info->dlpi_adds;
    return 1;
  };
  ::dl_iterate_phdr(look, &count);
  return count;
}

// The driver, if the process has loaded it: by a runtime, or the trainer itself. Kept from then on.
void* FindDriver() {
  static std::atomic<void*> found = nullptr;
  if (found == nullptr) found = ::dlopen(kDriver, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return found;
}

Loaded Find() {
  if (const char* const path = std::getenv("RINGWAY_DEVICE_LIBRARY"); path != nullptr && *path != '\0') {
    Loaded opened = Open(path);
    if (!opened.problem.empty()) opened.problem += "; RINGWAY_DEVICE_LIBRARY names it: correct or unset it";
    opened.is_named = true;
    return opened;
  }
  if (FindDriver() == nullptr) return {};
  Loaded opened = Open(kCudaLibrary);
  if (!opened.problem.empty()) opened.problem += "; install it beside libringway, or pass host memory";
  return opened;
}

const Loaded kNone;

}  // namespace

const Loaded& Load() {
  static std::atomic<const Loaded*> found = nullptr;
  static std::atomic<unsigned long long> looked_at = 0;
  static std::mutex mutex;
  if (const Loaded* const known = found.load(std::memory_order_acquire)) return *known;
  const unsigned long long count = LoadCount();
  if (looked_at.load(std::memory_order_relaxed) == count) return kNone;
  const std::lock_guard<std::mutex> lock(mutex);
  if (const Loaded* const known = found.load(std::memory_order_acquire)) return *known;
  Loaded loaded = Find();
  if (loaded.library == nullptr && loaded.problem.empty()) {
    looked_at.store(count, std::memory_order_relaxed);  // only now: others take it for an answer
    return kNone;
  }
  const Loaded* const kept = new Loaded(std::move(loaded));  // for good, as the library
  found.store(kept, std::memory_order_release);
  return *kept;
}

void LoadDriver() { (void)::dlopen(kDriver, RTLD_NOW | RTLD_LOCAL); }

bool IsDriversMemory(const void* memory) {
  using GetAttribute = int (*)(void* data, int attribute, unsigned long long pointer);
  constexpr int kMemoryType = 2;         // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  constexpr unsigned kDeviceMemory = 2;  // CU_MEMORYTYPE_DEVICE
  void* const driver = FindDriver();
  if (driver == nullptr) return false;
  const auto get = reinterpret_cast<GetAttribute>(::dlsym(driver, "cuPointerGetAttribute"));
  unsigned type = 0;
  return get != nullptr && get(&type, kMemoryType, reinterpret_cast<std::uintptr_t>(memory)) == 0 &&
         type == kDeviceMemory;
}

}  // namespace ringway::device
