// Any bytes as a config file of a program with options of every kind: they are read, or refused with one line.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <string>

#include "proto/endpoint.h"
#include "proto/shell/options.h"
#include "tests/fuzz/input.h"

namespace ringway {
namespace {

// A file that exists for as long as this does.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : fd_(::memfd_create("config", MFD_CLOEXEC)) {
    REQUIRE(::write(fd_, data, size) == static_cast<ssize_t>(size));
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void CheckRefusal(const Status& status) {
  REQUIRE(status.code() == Code::kInvalidArgument);
  REQUIRE(!status.text().empty() && status.text().find('\n') == std::string::npos);
}

void Read(const std::string& path) {
  CLI::App app("as the daemon's", "fuzzed");
  std::string listen, name;
  std::uint32_t lanes = 1, grace_ms = 0;
  bool insecure = false;
  app.add_option("--listen", listen);
  app.add_option("--name", name);
  app.add_option("--lanes", lanes)->check(CLI::Range(1U, 128U));
  app.add_option("--grace-ms", grace_ms);
  app.add_flag("--insecure", insecure);
  const std::array<const char*, 3> argv = {"fuzzed", "--config", path.c_str()};
  try {
    const Status status = shell::Parse(app, argv.size(), argv.data());
    if (!status.ok()) return CheckRefusal(status);
  } catch (const CLI::Success&) {
    return;
  }
  REQUIRE(lanes >= 1 && lanes <= 128);
  const auto endpoint = ParseEndpoint(listen);
  if (!endpoint.ok()) return CheckRefusal(endpoint.status());
}

}  // namespace
}  // namespace ringway

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ringway::MemoryFile file(data, size);
  ringway::Read(file.path());
  return 0;
}
