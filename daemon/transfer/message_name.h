// Names of sends and recvs.
//
// A stream is (sender, receiver, channel, tag). Message n of it is the n-th send of the one and the n-th recv of the
// other, so no number travels before the message does.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "proto/ids.h"

namespace ringway::transfer {

struct StreamName {
  PeerId from;
  PeerId to;
  ChannelId channel;
  std::uint32_t tag = 0;
  friend constexpr auto operator<=>(const StreamName&, const StreamName&) = default;
};
struct MessageName {
  StreamName stream;
  std::uint64_t seq = 0;  // from 1
  friend constexpr auto operator<=>(const MessageName&, const MessageName&) = default;
};
// "message 3 of channel 0, tag 7"
std::string ToString(const MessageName& name);

}  // namespace ringway::transfer
