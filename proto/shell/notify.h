// Tells systemd about readiness (Type=notify), without its library.
#pragma once

namespace ringway::shell {

// Sends a datagram to $NOTIFY_SOCKET; no-op if it is not set.
void NotifyReady();
void NotifyStopping();

}  // namespace ringway::shell
