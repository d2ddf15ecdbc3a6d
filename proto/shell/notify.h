// Tells systemd about readiness (Type=notify), without its library.
#pragma once

namespace ringway::shell {

// A datagram to $NOTIFY_SOCKET; nothing where it is not set.
void NotifyReady();
void NotifyStopping();

}  // namespace ringway::shell
