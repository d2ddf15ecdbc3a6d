#include "proto/stream/connector.h"

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proto/stream/name_lookup.h"
#include "proto/stream/tcp_stream.h"
#include "proto/stream/unique_fd.h"

namespace ringway::net {
namespace {

// A few round trips of any path: less would be no try.
constexpr Duration kTurnMin = std::chrono::seconds(1);

}  // namespace

Connector::Connector(asio::io_context& context, ConnectOptions options)
    : context_(context), options_(std::move(options)), timer_(context), turn_(context), socket_(context) {}

Status Connector::Failure(const std::string& reason) const {
  const bool refused = refusals_ > 0 && refusals_ == addresses_.size();
  return {refused ? Code::kPeerUnreachable : Code::kIo, "cannot connect to " + options_.address + ": " + reason};
}

void Connector::Start(Done done) {
  done_ = std::move(done);
  const auto self = shared_from_this();
  deadline_ = Clock::Of(context_).Now() + options_.timeout;
  timer_.After(options_.timeout, [self] { self->Finish(Status(Code::kTimeout, self->Failure("timed out").text())); });
  const auto where = ParseEndpoint(options_.address);
  if (!where.ok()) {
    asio::post(context_, [self, status = where.status()] { self->Finish(status); });
    return;
  }
  // A name may wait for others that are looked up: an address does not go there.
  asio::error_code is_name;
  const asio::ip::address numeric = asio::ip::make_address(where.value().host, is_name);
  if (!is_name) {
    const asio::ip::tcp::endpoint endpoint(numeric, where.value().port);
    asio::post(context_, [self, address = AddressOf(endpoint.data(), static_cast<socklen_t>(endpoint.size()))] {
      self->OnResolved(std::vector{address});
    });
    return;
  }
  lookup_ = NameLookup::Of(context_).Start(
      where.value(), [self](Result<std::vector<SocketAddress>> found) { self->OnResolved(std::move(found)); });
}

void Connector::Cancel() {
  done_ = nullptr;
  asio::error_code ignored;
  if (lookup_ != 0) NameLookup::Of(context_).Cancel(std::exchange(lookup_, 0));
  timer_.Cancel();
  turn_.Cancel();
  socket_.close(ignored);
}

void Connector::OnResolved(Result<std::vector<SocketAddress>> found) {
  lookup_ = 0;
  if (!done_) return;
  if (!found.ok()) return Finish(Failure(found.status().text()));
  addresses_ = std::move(found).value();
  TryNext();
}

void Connector::TryNext() {
  while (next_ < addresses_.size()) {
    const SocketAddress& address = addresses_[next_++];
    options_.tuning.loopback = IsLoopback(address);
    if (!options_.tuning.loopback && !options_.allow_remote && options_.security == nullptr) {
      last_error_ = "not a loopback address; give --tls-dir, or --insecure on a network that you trust";
      continue;
    }
    UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) {
      last_error_ = std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): glibc's is safe
      continue;
    }
    TuneLink(fd.get(), options_.tuning);
    if (::connect(fd.get(), address.get(), address.length) != 0 && errno != EINPROGRESS) {
      if (errno == ECONNREFUSED) ++refusals_;
      last_error_ = std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): glibc's is safe
      continue;
    }
    asio::error_code error;
    socket_.assign(fd.get(), error);
    if (error) return Finish(Failure(error.message()));
    (void)fd.Release();
    StartTurn();
    socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                       [self = shared_from_this(), turn = next_](asio::error_code waited) {
                         if (!waited && turn == self->next_) self->OnWritable();  // else its address was given up
                       });
    return;
  }
  Finish(Failure(last_error_.empty() ? "no address" : last_error_));
}

// The last one has all the time that is left.
void Connector::StartTurn() {
  turn_.Cancel();
  if (next_ == addresses_.size()) return;
  const auto left = static_cast<Duration::rep>(addresses_.size() - next_ + 1);
  const Duration share = (deadline_ - Clock::Of(context_).Now()) / left;
  turn_.After(std::max<Duration>(share, kTurnMin), [self = shared_from_this()] {
    if (self->done_) self->GiveUp(ETIMEDOUT);
  });
}

void Connector::GiveUp(int error) {
  if (error == ECONNREFUSED) ++refusals_;
  last_error_ = std::strerror(error);  // NOLINT(concurrency-mt-unsafe): glibc's is safe
  asio::error_code ignored;
  socket_.close(ignored);
  TryNext();
}

void Connector::OnWritable() {
  if (!done_) return;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return GiveUp(error);
  ChooseCongestion(socket_.native_handle(), options_.tuning);
  std::unique_ptr<Stream> stream = std::make_unique<TcpStream>(UniqueFd(socket_.release()));
  if (options_.security != nullptr) stream = options_.security->Dialled(std::move(stream), options_.whom);
  Finish(Connection{std::move(stream), options_.tuning.loopback});
}

void Connector::Finish(Result<Connection> outcome) {
  if (!done_) return;
  const Done done = std::exchange(done_, nullptr);
  Cancel();
  done(std::move(outcome));
}

void ConnectTcp(asio::io_context& context, ConnectOptions options, Connector::Done done) {
  std::make_shared<Connector>(context, std::move(options))->Start(std::move(done));
}

}  // namespace ringway::net
