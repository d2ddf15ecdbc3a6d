#include "proto/stream/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "proto/clock.h"
#include "proto/stream/address.h"
#include "proto/stream/tcp_stream.h"

namespace ringway::net {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(100);
constexpr int kAcceptsATurn = 64;

}  // namespace

Acceptor::Acceptor(asio::io_context& context, OnAccepted on_accepted, OnShortage on_shortage)
    : on_accepted_(std::move(on_accepted)),
      on_shortage_(std::move(on_shortage)),
      socket_(context),
      retry_(context),
      alive_(std::make_shared<Acceptor*>(this)) {}

Acceptor::~Acceptor() { *alive_ = nullptr; }

Status Acceptor::Start(UniqueFd fd) {
  asio::error_code error;
  socket_.assign(fd.get(), error);
  if (error) return {Code::kIo, "cannot watch the listening socket: " + error.message()};
  (void)fd.Release();
  Arm();
  return Status::Ok();
}

void Acceptor::Arm() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [alive = alive_](asio::error_code error) {
    if (!error && *alive != nullptr) (*alive)->Accept();
  });
}

void Acceptor::Accept() {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    UniqueFd fd(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      const int on = 1;
      (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      on_accepted_(std::make_unique<TcpStream>(std::move(fd)));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    const std::string why = ErrnoStatus("cannot accept", errno).text();
    if (on_shortage_ && on_shortage_(why)) continue;
    return retry_.After(kPause, [this] { Accept(); });
  }
  Arm();
}

}  // namespace ringway::net
