// Two ends of a TLS connection, and a network between them that the input plays: it passes bytes on, holds, flips,
// drops and makes them up, and closes. What is read at one end is the beginning of what was written at the other,
// nobody is known who has not shaken hands, and no end is up before the other has sent its whole handshake.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "proto/tls/authority.h"
#include "proto/tls/tls_stream.h"
#include "tests/fuzz/input.h"

namespace ringway {
namespace {

using net::StreamIo;
using Kind = StreamIo::Kind;

const Identity kNear{.role = ProcessRole::kDaemon, .name = "near"};
const Identity kFar{.role = ProcessRole::kDaemon, .name = "far"};

// One direction's bytes.
struct Wire {
  std::string bytes;
  bool closed = false;
};

// The stream below one end. Nobody waits: the input decides who is called.
class Below final : public net::Stream {
 public:
  Below(Wire& in, Wire& out) : in_(in), out_(out) {}
  Status Attach(asio::io_context&) override { return Status::Ok(); }
  void Detach() override {}
  StreamIo Write(net::WriteParts from) override {
    if (out_.closed) return {.kind = Kind::kError, .why = "closed"};
    std::size_t bytes = 0;
    for (const auto part : from) {
      out_.bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      bytes += part.size();
    }
    return {.kind = Kind::kBytes, .bytes = bytes};
  }
  void AwaitRead(std::shared_ptr<net::StreamSink>) override {}
  void AwaitWrite(std::shared_ptr<net::StreamSink>) override {}
  net::StreamPeer peer() const override { return {}; }
  net::StreamPath& path() override { std::abort(); }
  std::unique_ptr<net::StreamPath> SharePath() const override { return nullptr; }
  // The number of bytes that may be read now.
  std::size_t allowed = 0;

 private:
  StreamIo Receive(net::ReadParts into) override {
    const std::size_t most = std::min({allowed, in_.bytes.size(), into.front().size()});
    if (most == 0 && in_.closed && in_.bytes.empty()) return {.kind = Kind::kEnd, .why = "end"};
    if (most == 0) return {};
    std::memcpy(into.front().data(), in_.bytes.data(), most);
    in_.bytes.erase(0, most);
    allowed -= most;
    return {.kind = Kind::kBytes, .bytes = most};
  }

  Wire& in_;
  Wire& out_;
};

struct Keys {
  std::shared_ptr<tls::Credentials> near, far;
};

const Keys& TheKeys() {
  static const Keys keys = [] {
    std::string dir = (std::filesystem::temp_directory_path() / "ringway_fuzz_XXXXXX").string();
    REQUIRE(::mkdtemp(dir.data()) != nullptr);
    REQUIRE(tls::InitAuthority(dir).ok());
    Keys made;
    for (const auto& [identity, credentials] : {std::pair(kNear, &made.near), std::pair(kFar, &made.far)}) {
      REQUIRE(tls::Issue({.dir = dir, .out = dir}, identity).ok());
      *credentials = tls::Credentials::Load(tls::FilesOf(dir, identity.name)).value();
    }
    std::filesystem::remove_all(dir);
    return made;
  }();
  return keys;
}

class End {
 public:
  End(Wire& in, Wire& out, bool dialled) {
    auto below = std::make_unique<Below>(in, out);
    below_ = below.get();
    tls::TlsStreamOptions options{.dialled = dialled, .whom = std::nullopt, .key_bytes = 5000};
    if (dialled) options.whom = kFar;
    stream_ = std::make_unique<tls::TlsStream>(std::move(below), dialled ? TheKeys().near : TheKeys().far,
                                               std::move(options));
  }
  void Allow(std::size_t bytes) { below_->allowed += bytes; }
  void Read() {
    std::array<std::byte, 700> buffer{};
    const StreamIo io = stream_->Read(std::span<std::byte>(buffer));
    if (io.kind != Kind::kBytes) return;
    REQUIRE(io.bytes > 0 && io.bytes <= buffer.size());
    read_.append(reinterpret_cast<const char*>(buffer.data()), io.bytes);
  }
  void Write(std::size_t bytes) {
    // The same again after what would have blocked; more is allowed.
    while (pending_.size() < bytes) pending_ += static_cast<char>(made_++);
    if (pending_.empty()) return;
    const StreamIo io = stream_->Write(std::as_bytes(std::span(pending_)));
    if (io.kind != Kind::kBytes) return;
    REQUIRE(io.bytes > 0 && io.bytes <= pending_.size());
    written_ += pending_.substr(0, io.bytes);
    pending_.erase(0, io.bytes);
  }
  const Identity* identity() const { return stream_->identity(); }
  const std::string& read() const { return read_; }
  // Returns all bytes that were sent, or may have been before an error.
  std::string sent() const { return written_ + pending_; }

 private:
  Below* below_;
  std::unique_ptr<net::Stream> stream_;
  std::string pending_, written_, read_;
  unsigned made_ = 0;
};

void Tamper(Wire& wire, fuzz::Input& input) {
  const std::size_t at = wire.bytes.empty() ? 0 : input.Number<std::uint16_t>() % wire.bytes.size();
  switch (input.Below(4)) {
    case 0:
      if (!wire.bytes.empty()) wire.bytes[at] = static_cast<char>(wire.bytes[at] ^ (1 << input.Below(8)));
      return;
    case 1:
      wire.bytes.erase(at, input.Number<std::uint8_t>());
      return;
    case 2: {
      const auto made_up = input.Take(input.Number<std::uint8_t>());
      wire.bytes.insert(at, reinterpret_cast<const char*>(made_up.data()), made_up.size());
      return;
    }
    default:
      wire.bytes += wire.bytes.substr(at);  // said twice
  }
}

}  // namespace
}  // namespace ringway

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringway;
  fuzz::Input input(data, size);
  Wire to_far, to_near;
  End near(to_near, to_far, true);
  End far(to_far, to_near, false);
  for (int steps = 0; !input.empty() && steps < 400; ++steps) {
    const bool at_near = input.OneIn(2);
    End& end = at_near ? near : far;
    Wire& wire = at_near ? to_near : to_far;
    switch (input.Below(8)) {
      case 0:
        end.Write(input.Number<std::uint16_t>() % 3000);
        break;
      case 1:
        Tamper(wire, input);
        break;
      case 2:
        if (input.OneIn(8)) wire.closed = true;
        break;
      default:
        end.Allow(input.OneIn(4) ? input.Below(200) : 5000);
        end.Read();
    }
    REQUIRE(far.sent().starts_with(near.read()));
    REQUIRE(near.sent().starts_with(far.read()));
    for (const End* one : {&near, &far}) {
      if (one->identity() != nullptr) REQUIRE(*one->identity() == (one == &near ? kFar : kNear));
      if (one->identity() == nullptr) REQUIRE(one->read().empty());
    }
  }
  return 0;
}
