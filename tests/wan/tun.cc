#include "tests/wan/tun.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace ringway::wan {
namespace {

std::string Errno(const std::string& what) { return what + ": " + std::strerror(errno); }

OpenedTun OpenHere(const std::string& network_namespace, const std::string& name) {
  OpenedTun out;
  const std::string path = "/run/netns/" + network_namespace;
  const net::UniqueFd space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (space.get() < 0) return {{}, Errno("cannot open " + path)};
  if (::setns(space.get(), CLONE_NEWNET) != 0) return {{}, Errno("cannot enter " + path)};
  out.fd = net::UniqueFd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (out.fd.get() < 0) return {{}, Errno("cannot open /dev/net/tun")};
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(out.fd.get(), TUNSETIFF, &request) != 0) return {{}, Errno("cannot make the device " + name)};
  if (::ioctl(out.fd.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) return {{}, Errno("cannot offload")};
  return out;
}

}  // namespace

OpenedTun OpenTun(const std::string& network_namespace, const std::string& name) {
  OpenedTun out;
  std::thread([&] { out = OpenHere(network_namespace, name); }).join();  // only that thread is in the namespace
  return out;
}

}  // namespace ringway::wan
