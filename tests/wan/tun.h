// A TUN device in another network namespace.
#pragma once

#include <string>

#include "proto/stream/unique_fd.h"

namespace ringway::wan {

struct OpenedTun {
  net::UniqueFd fd;   // non-blocking; frames begin with a virtio header; TCP comes unsegmented, without checksum
  std::string error;  // empty: it is open
};

// Makes the device `name` in the namespace of that name below /run/netns. Needs CAP_SYS_ADMIN.
OpenedTun OpenTun(const std::string& network_namespace, const std::string& name);

}  // namespace ringway::wan
