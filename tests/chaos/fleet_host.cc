#include "tests/chaos/fleet_host.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <new>
#include <utility>

#include "tests/sanitized.h"

namespace ringway::chaos {
namespace {

constexpr char kResolvers[] = "/etc/resolv.conf";
constexpr char kDiskOptions[] = "size=8m,mode=0700";  // many times what a journal has

}  // namespace

Surrounded::Surrounded(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  EXPECT_GE(fd, 0) << path;
  EXPECT_EQ(::ftruncate(fd, sizeof(Surroundings)), 0);
  void* const at = ::mmap(nullptr, sizeof(Surroundings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  EXPECT_NE(at, MAP_FAILED);
  here_ = new (at) Surroundings;
}

Surrounded::~Surrounded() { ::munmap(here_, sizeof(Surroundings)); }

std::vector<std::string> Surrounded::Start(const std::vector<std::string>& argv) const {
  if (kSanitized) return argv;
  std::vector<std::string> out = {"/usr/bin/env", "LD_PRELOAD=" RINGWAY_CHAOS_SURROUNDINGS,
                                  std::string(kSurroundingsVariable) + "=" + path_};
  out.insert(out.end(), argv.begin(), argv.end());
  return out;
}

SmallDisk::SmallDisk(std::string directory, bool mounts) : directory_(std::move(directory)) {
  std::filesystem::create_directory(directory_);
  mounted_ = mounts && ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
             ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
             ::mount("tmpfs", directory_.c_str(), "tmpfs", 0, kDiskOptions) == 0;
}

SmallDisk::~SmallDisk() {
  if (mounted_) ::umount2(directory_.c_str(), MNT_DETACH);
}

void SmallDisk::Fill() const {
  const int fd = ::open((directory_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_GE(fd, 0);
  constexpr std::array<char, 4096> kPage{};
  while (::write(fd, kPage.data(), kPage.size()) > 0) continue;
  ::close(fd);
}

void SmallDisk::Empty() const { std::filesystem::remove(directory_ + "/filler"); }

NameServer::NameServer(const e2e::TemporaryDirectory& directory, bool wanted) : directory_(directory) {
  if (!wanted) return;
  Start();
  const auto has_begun = [this] {
    return process_->Exited().has_value() || !process_->Logged("listening", "address").empty();
  };
  if (!e2e::Eventually(has_begun) || process_->Exited().has_value()) {
    process_.reset();
    return;
  }
  const std::string path = directory / "resolv.conf";
  std::ofstream(path) << "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
  mounted_ = ::mount(path.c_str(), kResolvers, nullptr, MS_BIND, nullptr) == 0;
}

NameServer::~NameServer() {
  if (mounted_) ::umount2(kResolvers, MNT_DETACH);
}

void NameServer::Start() {
  process_ = std::make_unique<e2e::Process>(directory_, "names." + std::to_string(starts_++),
                                            std::vector<std::string>{RINGWAY_CHAOS_NAME_SERVER});
}

}  // namespace ringway::chaos
