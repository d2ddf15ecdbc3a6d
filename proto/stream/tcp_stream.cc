#include "proto/stream/tcp_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/check.h"
#include "proto/stream/address.h"
#include "proto/stream/tcp_traffic.h"

namespace ringway::net {
namespace {

// The parts as the kernel wants them. What it only reads from it takes as writable, too.
template <typename Byte>
class Message {
 public:
  explicit Message(std::span<const std::span<Byte>> parts) {
    RINGWAY_CHECK(parts.size() <= vectors_.size());
    std::transform(parts.begin(), parts.end(), vectors_.begin(), [](std::span<Byte> part) {
      return iovec{.iov_base = const_cast<std::byte*>(part.data()), .iov_len = part.size()};
    });
    header_.msg_iov = vectors_.data();
    header_.msg_iovlen = parts.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  msghdr* get() { return &header_; }

 private:
  std::array<iovec, kStreamPartsMax> vectors_{};
  msghdr header_{};
};

// Repeats `call`, which a signal may have interrupted.
template <typename Call>
StreamIo Carry(const char* what, const Call& call) {
  ssize_t bytes = 0;
  do bytes = call();
  while (bytes < 0 && errno == EINTR);
  if (bytes >= 0) return {.kind = StreamIo::Kind::kBytes, .bytes = static_cast<std::size_t>(bytes)};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
  const bool ended = errno == ECONNRESET || errno == EPIPE;
  return {.kind = ended ? StreamIo::Kind::kEnd : StreamIo::Kind::kError, .why = ErrnoStatus(what, errno).text()};
}

}  // namespace

// ---- TcpPath

LaneTraffic TcpPath::Traffic() const { return TrafficOf(fd_.get()); }

void TcpPath::Tune(LinkTuning tuning) {
  const auto local = LocalAddress(fd_.get());
  tuning.loopback = local.ok() && IsLoopback(local.value());
  TuneLink(fd_.get(), tuning);
  ChooseCongestion(fd_.get(), tuning);
}

void TcpPath::Shutdown() { (void)::shutdown(fd_.get(), SHUT_RDWR); }

// ---- TcpStream

TcpStream::~TcpStream() { Detach(); }

Status TcpStream::Attach(asio::io_context& loop) {
  RINGWAY_CHECK(!watch_);
  asio::error_code error;
  watch_.emplace(loop).assign(path_.fd(), error);
  if (!error) return Status::Ok();
  watch_.reset();
  return {Code::kIo, "cannot watch the connection: " + error.message()};
}

void TcpStream::Detach() {
  if (!watch_) return;
  (void)watch_->release();
  watch_.reset();
}

StreamIo TcpStream::Receive(ReadParts into) {
  Message message(into);
  StreamIo io = Carry("cannot receive", [&] { return ::recvmsg(path_.fd(), message.get(), MSG_DONTWAIT); });
  if (io.kind != StreamIo::Kind::kBytes || io.bytes > 0) return io;
  return {.kind = StreamIo::Kind::kEnd, .why = "the other side closed the connection"};
}

StreamIo TcpStream::Write(WriteParts from) {
  Message message(from);
  return Carry("cannot send", [&] { return ::sendmsg(path_.fd(), message.get(), MSG_NOSIGNAL | MSG_DONTWAIT); });
}

void TcpStream::AwaitRead(std::shared_ptr<StreamSink> waiter) {
  watch_->async_wait(asio::posix::stream_descriptor::wait_read, [waiter = std::move(waiter)](asio::error_code error) {
    if (!error) waiter->OnReadable();
  });
}

void TcpStream::AwaitWrite(std::shared_ptr<StreamSink> waiter) {
  watch_->async_wait(asio::posix::stream_descriptor::wait_write, [waiter = std::move(waiter)](asio::error_code error) {
    if (!error) waiter->OnWritable();
  });
}

StreamPeer TcpStream::peer() const {
  const auto remote = RemoteAddress(path_.fd());
  if (!remote.ok()) return {};
  return {.source = SourceOf(remote.value()),
          .address = HostOf(remote.value()),
          .loopback = IsLoopback(remote.value()),
          .within_host = IsWithinHost(path_.fd())};
}

std::unique_ptr<StreamPath> TcpStream::SharePath() const {
  UniqueFd fd(::fcntl(path_.fd(), F_DUPFD_CLOEXEC, 0));
  return fd.valid() ? std::make_unique<TcpPath>(std::move(fd)) : nullptr;
}

}  // namespace ringway::net
