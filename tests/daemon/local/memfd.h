// Memfds as clients make them, and as hostile clients do.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "proto/stream/unique_fd.h"

namespace ringway::local {

inline constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

enum class Pages : std::uint8_t { kThere, kNone };

inline net::UniqueFd MakeMemfd(std::uint64_t bytes, int seals = kAllSeals, Pages pages = Pages::kThere) {
  net::UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return {};
  if (pages == Pages::kThere && bytes > 0 && ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) return {};
  if (seals != 0) (void)::fcntl(fd.get(), F_ADD_SEALS, seals);
  return fd;
}

}  // namespace ringway::local
