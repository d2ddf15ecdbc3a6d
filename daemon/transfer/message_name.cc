#include "daemon/transfer/message_name.h"

namespace ringway::transfer {

std::string ToString(const MessageName& name) {
  return "message " + std::to_string(name.seq) + " of channel " + std::to_string(name.stream.channel.value) + ", tag " +
         std::to_string(name.stream.tag);
}

}  // namespace ringway::transfer
