#include "daemon/local/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <limits>
#include <string>

#include "proto/stream/address.h"

namespace ringway::local {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Status CheckSealedMemfd(int fd, std::uint64_t bytes) {
  struct stat info {};
  struct statfs system {};
  if (::fstat(fd, &info) != 0 || ::fstatfs(fd, &system) != 0) return net::ErrnoStatus("cannot examine a memfd", errno);
  if (!S_ISREG(info.st_mode)) return {Code::kProtocol, "the descriptor is no memfd"};
  if (system.f_type == HUGETLBFS_MAGIC) {
    return {Code::kNotSupported, "memfds of huge pages are not accepted: a fault in them cannot be answered"};
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return {Code::kProtocol, "the descriptor is no memfd"};
  if ((seals & kSeals) != kSeals) {
    return {Code::kProtocol, "the memfd lacks a seal: F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL are required"};
  }
  if (bytes == 0 || info.st_size < 0 || static_cast<std::uint64_t>(info.st_size) != bytes) {
    return {Code::kProtocol,
            "the memfd is " + std::to_string(info.st_size) + " bytes long, not " + std::to_string(bytes)};
  }
  return Status::Ok();
}

Status CheckPopulated(int fd, std::uint64_t bytes) {
  constexpr std::uint64_t kBlockBytes = 512;  // of st_blocks, whatever the file system
  struct stat info {};
  if (::fstat(fd, &info) != 0) return net::ErrnoStatus("cannot examine a memfd", errno);
  const std::uint64_t there = static_cast<std::uint64_t>(info.st_blocks) * kBlockBytes;
  if (there >= bytes) return Status::Ok();
  return {Code::kInvalidArgument, "a region of " + std::to_string(bytes) + " bytes has pages for " +
                                      std::to_string(there) +
                                      " only; populate it before it is used (fallocate, MADV_POPULATE_WRITE)"};
}

Result<std::shared_ptr<const Mapping>> Mapping::Map(int fd, std::uint64_t bytes, bool writable, ReclaimerPtr reclaimer,
                                                    ChargePtr charge) {
  static_assert(sizeof(std::size_t) >= sizeof(std::uint64_t));
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return net::ErrnoStatus(writable ? "cannot map a result region" : "cannot map an input region", errno);
  }
  (void)::madvise(data, bytes, MADV_DONTFORK);
  return std::shared_ptr<const Mapping>(
      std::make_shared<Mapping>(data, bytes, std::move(reclaimer), std::move(charge)));
}

Mapping::~Mapping() {
  if (reclaimer_ != nullptr) {
    reclaimer_->Unmap(data_, bytes_);
  } else {
    ::munmap(data_, bytes_);
  }
}

Region::~Region() {
  if (reclaimer_ != nullptr && fd_.valid()) reclaimer_->Close(std::move(fd_));
}

Result<std::shared_ptr<const Mapping>> Region::Input() {
  if (input_ == nullptr) {
    auto mapped = Mapping::Map(fd_.get(), bytes_, false, reclaimer_, charge_);
    if (!mapped.ok()) return mapped;
    input_ = std::move(mapped).value();
  }
  return input_;
}

Result<std::shared_ptr<const Mapping>> Region::Output() {
  if (output_ == nullptr) {
    auto mapped = Mapping::Map(fd_.get(), bytes_, true, reclaimer_, charge_);
    if (!mapped.ok()) return mapped;
    output_ = std::move(mapped).value();
  }
  return output_;
}

}  // namespace ringway::local
