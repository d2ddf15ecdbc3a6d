// A connection secured by TLS, as a Stream (proto/stream/stream.h) over another one.
//
//   made --first Read or Write--> shaking hands --finished, the other end is the expected one--> up
//                                               --anything else--> failed: every call returns why
//
// During the handshake a Read may wait for room and a Write for bytes; the call that completes the handshake ends all
// waits. Afterwards waits are those of the stream below.
//
// A Write seals records of up to 16 KiB, kBatchBytes of them at once, and takes their bytes when the stream below has
// taken all of them. After kWouldBlock they are sealed already: the next Write begins with the same bytes, or more.
// Keys are renewed after `key_bytes`. A connection whose other end is revoked fails at its next call.
//
// A peer that sends only TLS messages (key updates, tickets) is disconnected after kChatterMax of them, and delays one
// call by at most kReadBudget bytes.
//
// Memory: about 150 KiB while data flows both ways, a third when idle.
//
// Threads: as every stream.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "proto/stream/stream.h"
#include "proto/tls/credentials.h"

namespace ringway::tls {

struct TlsStreamOptions {
  bool dialled = false;            // else accepted
  std::optional<Identity> whom{};  // if dialled: the expected other end; an empty name is any process of the role
  // AES-GCM is sound for about 2^24 records of one key.
  std::uint64_t key_bytes = std::uint64_t{64} << 30;
};

class TlsStream final : public net::Stream {
 public:
  static constexpr std::size_t kBatchBytes = 64 * 1024;
  static constexpr std::size_t kReadBudget = 64 * 1024;  // read from below without a byte for the caller
  static constexpr std::uint64_t kChatterMax = 16;       // and one more each GiB

  TlsStream(std::unique_ptr<net::Stream> below, std::shared_ptr<Credentials> credentials, TlsStreamOptions options);
  ~TlsStream() override;

  Status Attach(asio::io_context& loop) override;
  void Detach() override;
  net::StreamIo Write(net::WriteParts from) override;
  void AwaitRead(std::shared_ptr<net::StreamSink> waiter) override;
  void AwaitWrite(std::shared_ptr<net::StreamSink> waiter) override;
  net::StreamPeer peer() const override { return below_->peer(); }
  const Identity* identity() const override { return identity_ ? &*identity_ : nullptr; }
  bool IsProven() const override;
  net::StreamPath& path() override { return below_->path(); }
  std::unique_ptr<net::StreamPath> SharePath() const override { return below_->SharePath(); }

  // Returns whether its handshake resumed an earlier session.
  bool resumed() const;
  std::uint64_t key_updates() const { return key_updates_; }

 private:
  class Relay;
  enum class Event : std::uint8_t { kBytes, kRoom };

  net::StreamIo Receive(net::ReadParts into) override;
  // kBytes when it is up.
  net::StreamIo Shake();
  Status CheckIdentity();
  // Whether the other end's certificate is on the newest list; asks once for each list.
  bool IsRevoked();
  // Some records that begin with what follows the first `skip` bytes, into `out_`.
  net::StreamIo Seal(net::WriteParts from, std::size_t skip);
  // kBytes when all of `out_` is sent.
  net::StreamIo Flush();
  net::StreamIo Outcome(int returned, Event& stuck_at);
  net::StreamIo Fail(std::string why);
  std::string WhyItFailed(unsigned long error) const;
  void Await(bool reader, Event event, std::shared_ptr<net::StreamSink> waiter);
  bool IsChatting() const { return chatter_ > kChatterMax + (read_bytes_ >> 30); }
  static void OnMessage(int sent, int version, int type, const void* bytes, std::size_t length, SSL* ssl, void* self);
  static int BioRead(BIO* bio, char* into, int bytes);
  static int BioWrite(BIO* bio, const char* from, int bytes);
  static long BioControl(BIO* bio, int command, long number, void* pointer);
  static const BIO_METHOD* Method();

  std::unique_ptr<net::Stream> below_;
  const std::shared_ptr<Credentials> credentials_;
  const TlsStreamOptions options_;
  const std::string whom_;  // names the session that the next connection resumes
  std::unique_ptr<SSL, Freer<SSL_free>> ssl_;
  std::weak_ptr<Relay> relay_;  // of a handshake
  asio::io_context* loop_ = nullptr;
  std::optional<Identity> identity_;
  std::uint64_t judged_by_ = 0;  // revision of the revocations
  std::optional<std::string> failed_;
  net::StreamIo broken_{};  // what the stream below ended with
  bool shook_ = false;      // the handshake is over here; up when its last bytes are sent
  bool up_ = false;
  Event reader_needs_ = Event::kBytes;
  Event writer_needs_ = Event::kRoom;
  std::string out_;                 // for the stream below
  std::size_t out_sent_ = 0;        // of it
  std::size_t sealed_now_ = 0;      // bytes of the caller's that it holds
  std::uint64_t sealed_bytes_ = 0;  // with the current key
  std::uint64_t key_updates_ = 0;
  std::size_t read_budget_ = 0;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t chatter_ = 0;  // handshake messages heard since it is up
};

}  // namespace ringway::tls
