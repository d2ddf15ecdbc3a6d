#include "daemon/local/reclaimer.h"

#include <sys/mman.h>

#include <algorithm>

namespace ringway::local {
namespace {

// Unmaps in pieces: a concurrent mmap waits for the address space lock for one piece only.
constexpr std::uint64_t kPieceBytes = 16 << 20;

void UnmapInPieces(std::byte* data, std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes; done += kPieceBytes) {
    ::munmap(data + done, std::min(kPieceBytes, bytes - done));
  }
}

}  // namespace

Reclaimer::Reclaimer()
    : waits_for_work_(context_.get_executor()), queue_(context_, kWaitingMax), thread_([this] { context_.run(); }) {}

Reclaimer::~Reclaimer() {
  waits_for_work_.reset();
  thread_.join();
}

void Reclaimer::Unmap(void* data, std::uint64_t bytes) {
  Do([data = static_cast<std::byte*>(data), bytes] { UnmapInPieces(data, bytes); });
}

void Reclaimer::Close(net::UniqueFd fd) {
  Do([number = fd.Release()] { net::UniqueFd closed(number); });
}

}  // namespace ringway::local
