// The verdict on the header of a frame, an operation's or a message's.
#pragma once

#include "daemon/links/frames.h"

namespace ringway::agreement {

struct Judged {
  links::Inbound inbound;
  bool differs = false;  // from what was submitted here: there is something to act on
};

}  // namespace ringway::agreement
