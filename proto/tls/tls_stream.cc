#include "proto/tls/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cstring>

#include "proto/check.h"

namespace ringway::tls {
namespace {

using net::StreamIo;
using net::StreamSink;

constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr char kNoTls[] = "it does not speak TLS 1.3: give both sides --tls-dir, or neither";

std::size_t BytesOf(net::WriteParts from) {
  std::size_t bytes = 0;
  for (const auto part : from) bytes += part.size();
  return bytes;
}

using Record = std::array<std::byte, kRecordBytes>;

// Returns the bytes after the first `skip`, at least a record if there is as much: in place, or gathered from two parts
// in `record`.
std::span<const std::byte> NextOf(net::WriteParts from, std::size_t skip, Record& record) {
  std::span<const std::byte> next;
  for (const std::span<const std::byte> part : from) {
    if (skip >= part.size()) {
      skip -= part.size();
      continue;
    }
    const std::span<const std::byte> rest = part.subspan(std::exchange(skip, 0));
    if (next.empty()) {
      next = rest;
      continue;
    }
    if (next.size() >= kRecordBytes) break;
    const std::size_t more = std::min(kRecordBytes - next.size(), rest.size());
    std::memcpy(record.data(), next.data(), next.size());
    std::memcpy(record.data() + next.size(), rest.data(), more);
    next = std::span(record).first(next.size() + more);
  }
  return next;
}

std::string Revoked(const Identity& whom) {
  return "its certificate, of " + ToString(whom) + ", is revoked: issue a new one there";
}

}  // namespace

// Waits at the stream below, once for each event, for who reads and who writes. Held by that stream's waits alone: who
// waits often holds this stream, and must not be held by it.
class TlsStream::Relay final : public StreamSink {
 public:
  void OnReadable() override { Call(Event::kBytes); }
  void OnWritable() override { Call(Event::kRoom); }

  bool IsWaitingFor(Event event) const { return waits_[static_cast<std::size_t>(event)].below; }
  // Returns whether somebody has to wait at the stream below for it from now on.
  bool Add(bool reader, Event event, std::shared_ptr<StreamSink> waiter) {
    Waits& waits = waits_[static_cast<std::size_t>(event)];
    (reader ? waits.reader : waits.writer) = std::move(waiter);
    return !std::exchange(waits.below, true);
  }
  // Both may get further, whatever they wait for.
  void CallAll() {
    for (Waits& waits : waits_) Call(waits);
  }

 private:
  struct Waits {
    std::shared_ptr<StreamSink> reader;
    std::shared_ptr<StreamSink> writer;
    bool below = false;
  };
  void Call(Event event) {
    Waits& waits = waits_[static_cast<std::size_t>(event)];
    waits.below = false;
    Call(waits);
  }
  static void Call(Waits& waits) {
    const auto reader = std::exchange(waits.reader, nullptr);
    const auto writer = std::exchange(waits.writer, nullptr);
    if (reader != nullptr) reader->OnReadable();
    if (writer != nullptr) writer->OnWritable();
  }

  std::array<Waits, 2> waits_;  // by event
};

// ---- the stream below, as OpenSSL sees it

int TlsStream::BioRead(BIO* bio, char* into, int bytes) {
  auto* self = static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self->read_budget_ == 0) {  // the rest is there at once in the next call
    BIO_set_retry_read(bio);
    return -1;
  }
  StreamIo io = self->below_->Read(std::as_writable_bytes(std::span(into, static_cast<std::size_t>(bytes))));
  if (io.kind == StreamIo::Kind::kBytes) {
    self->read_budget_ -= std::min(self->read_budget_, io.bytes);
    return static_cast<int>(io.bytes);
  }
  if (io.kind == StreamIo::Kind::kWouldBlock) {
    BIO_set_retry_read(bio);
    return -1;
  }
  self->broken_ = std::move(io);
  return self->broken_.kind == StreamIo::Kind::kEnd ? 0 : -1;
}

void TlsStream::OnMessage(int sent, int, int type, const void*, std::size_t, SSL*, void* self) {
  auto* stream = static_cast<TlsStream*>(self);
  if (sent == 0 && type == SSL3_RT_HANDSHAKE && stream->up_) ++stream->chatter_;
}

int TlsStream::BioWrite(BIO* bio, const char* from, int bytes) {
  BIO_clear_retry_flags(bio);
  static_cast<TlsStream*>(BIO_get_data(bio))->out_.append(from, static_cast<std::size_t>(bytes));
  return bytes;
}

long TlsStream::BioControl(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) {
    const auto* self = static_cast<const TlsStream*>(BIO_get_data(bio));
    return self->broken_.kind == StreamIo::Kind::kEnd ? 1 : 0;
  }
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* TlsStream::Method() {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ringway stream");
    RINGWAY_CHECK(method != nullptr);
    BIO_meth_set_read(method, BioRead);
    BIO_meth_set_write(method, BioWrite);
    BIO_meth_set_ctrl(method, BioControl);
    return method;
  }();
  return kMethod;
}

// ---- the stream

TlsStream::TlsStream(std::unique_ptr<net::Stream> below, std::shared_ptr<Credentials> credentials,
                     TlsStreamOptions options)
    : below_(std::move(below)),
      credentials_(std::move(credentials)),
      options_(std::move(options)),
      whom_(options_.whom ? ToUri(*options_.whom) : ""),
      ssl_(SSL_new(options_.dialled ? credentials_->dialling() : credentials_->accepting())) {
  BIO* bio = ssl_ == nullptr ? nullptr : BIO_new(Method());
  if (bio == nullptr) {
    (void)Fail("OpenSSL has no memory for a connection");
    return;
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);  // takes it over
  SSL_set_msg_callback(ssl_.get(), OnMessage);
  SSL_set_msg_callback_arg(ssl_.get(), this);
  if (!options_.dialled) {
    SSL_set_accept_state(ssl_.get());
    return;
  }
  SSL_set_connect_state(ssl_.get());
  SSL_set_app_data(ssl_.get(), const_cast<std::string*>(&whom_));
  SSL_SESSION* session = credentials_->Session(whom_);
  if (session == nullptr) return;
  SSL_set_session(ssl_.get(), session);
  SSL_SESSION_free(session);
}

// Marks the shutdown as complete; otherwise OpenSSL does not resume a session that no close_notify has ended.
TlsStream::~TlsStream() {
  if (ssl_ != nullptr) SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

Status TlsStream::Attach(asio::io_context& loop) {
  loop_ = &loop;
  return below_->Attach(loop);
}

void TlsStream::Detach() {
  below_->Detach();
  if (out_.empty()) out_.shrink_to_fit();  // it may be kept for long
  relay_.reset();
  loop_ = nullptr;
}

bool TlsStream::IsProven() const {
  X509* certificate = ssl_ == nullptr ? nullptr : SSL_get0_peer_certificate(ssl_.get());
  return certificate != nullptr && IsCurrent(certificate) && !credentials_->revocations()->Has(certificate);
}

bool TlsStream::IsRevoked() {
  const std::uint64_t revision = credentials_->revocations()->revision();
  if (revision == judged_by_) return false;
  judged_by_ = revision;
  return credentials_->revocations()->Has(SSL_get0_peer_certificate(ssl_.get()));
}

bool TlsStream::resumed() const { return ssl_ != nullptr && SSL_session_reused(ssl_.get()) == 1; }

StreamIo TlsStream::Fail(std::string why) {
  ERR_clear_error();
  failed_ = std::move(why);
  return {.kind = StreamIo::Kind::kError, .why = *failed_};
}

// ---- handshake

StreamIo TlsStream::Shake() {
  if (failed_) return {.kind = StreamIo::Kind::kError, .why = *failed_};
  if (up_ && IsRevoked()) return Fail(Revoked(*identity_));
  if (up_) return {.kind = StreamIo::Kind::kBytes};
  Event needs = Event::kBytes;
  StreamIo shaken{.kind = StreamIo::Kind::kBytes};
  if (!shook_) {
    ERR_clear_error();
    read_budget_ = kReadBudget;
    const int returned = SSL_do_handshake(ssl_.get());
    shook_ = returned == 1;
    if (!shook_) shaken = Outcome(returned, needs);
    if (shook_) {
      if (const Status status = CheckIdentity(); !status.ok()) return Fail(status.text());
    }
  }
  // An alert is flushed, too; it gives the other side the reason.
  StreamIo flushed = Flush();
  if (shaken.kind == StreamIo::Kind::kError) return shaken;
  if (flushed.kind == StreamIo::Kind::kWouldBlock) needs = Event::kRoom;
  if (flushed.kind != StreamIo::Kind::kBytes) shaken = std::move(flushed);
  if (shaken.kind != StreamIo::Kind::kBytes) {
    reader_needs_ = writer_needs_ = needs;
    return shaken;
  }
  up_ = true;
  reader_needs_ = Event::kBytes;
  writer_needs_ = Event::kRoom;
  if (auto relay = relay_.lock()) asio::post(*loop_, [relay = std::move(relay)] { relay->CallAll(); });
  return {.kind = StreamIo::Kind::kBytes};
}

Status TlsStream::CheckIdentity() {
  X509* certificate = SSL_get0_peer_certificate(ssl_.get());
  const std::optional<Identity> other = certificate == nullptr ? std::nullopt : IdentityOf(certificate);
  if (!other) {
    return {Code::kProtocol,
            "its certificate names no identity of the form ringway://ROLE/NAME: issue one with "
            "ringwayctl certs"};
  }
  // A resumed session's was judged when the session began.
  if (!IsCurrent(certificate)) {
    return {Code::kProtocol, "its certificate, of " + ToString(*other) + ", ended on " +
                                 ToDate(X509_get0_notAfter(certificate)) + ": issue a new one there"};
  }
  if (IsRevoked()) return {Code::kProtocol, Revoked(*other)};
  if (options_.whom) {
    const Identity& whom = *options_.whom;
    if (other->role != whom.role || (!whom.name.empty() && other->name != whom.name)) {
      const std::string wanted = whom.name.empty() ? "a " + ToString(whom.role) : ToString(whom);
      return {Code::kProtocol, "its certificate is that of " + ToString(*other) + ", not of " + wanted};
    }
  }
  identity_ = other;
  return Status::Ok();
}

std::string TlsStream::WhyItFailed(unsigned long error) const {
  const char* reason = ERR_reason_error_string(error);
  const std::string text = reason == nullptr ? "unknown error" : reason;
  if (ERR_GET_REASON(error) == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION) return kNoTls;
  if (ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET) {
    return "it refuses: " + text + "; look at both certificates with ringwayctl certs show";
  }
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) {
    return std::string("its certificate is not accepted: ") + X509_verify_cert_error_string(verified) +
           "; look at both certificates with ringwayctl certs show";
  }
  switch (ERR_GET_REASON(error)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_BAD_RECORD_TYPE:
      return kNoTls;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "it shows no certificate: give it --tls-dir";
    default:
      break;
  }
  return "the TLS connection failed: " + text;
}

// Maps an OpenSSL call that did not succeed to the outcome of the I/O.
StreamIo TlsStream::Outcome(int returned, Event& stuck_at) {
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      stuck_at = Event::kBytes;
      return {};
    case SSL_ERROR_WANT_WRITE:
      stuck_at = Event::kRoom;
      return {};
    case SSL_ERROR_ZERO_RETURN:
      if (up_) return {.kind = StreamIo::Kind::kEnd, .why = "the other side closed the connection"};
      [[fallthrough]];
    default:
      break;
  }
  const unsigned long error = ERR_peek_error();
  if (broken_.kind == StreamIo::Kind::kError) return Fail(broken_.why);
  if (!up_ && broken_.kind == StreamIo::Kind::kEnd) {
    return Fail(
        "it closed the connection in the TLS handshake: does it have --tls-dir, with a certificate of the same CA?");
  }
  if (broken_.kind == StreamIo::Kind::kEnd) return broken_;
  return Fail(WhyItFailed(error));
}

// ---- bytes

StreamIo TlsStream::Receive(net::ReadParts into) {
  StreamIo io = Shake();
  if (io.kind != StreamIo::Kind::kBytes) return io;
  reader_needs_ = Event::kBytes;
  // An answer to what was read that did not leave at once goes with the next Write.
  for (std::span<std::byte> part : into) {
    while (!part.empty()) {
      ERR_clear_error();
      read_budget_ = kReadBudget;
      std::size_t bytes = 0;
      const int returned = SSL_read_ex(ssl_.get(), part.data(), part.size(), &bytes);
      if (IsChatting()) return Fail("the other side renews its keys again and again, and says nothing");
      if (returned != 1) {
        StreamIo end = Outcome(returned, reader_needs_);
        return io.bytes > 0 ? io : end;  // the next call meets it again
      }
      read_bytes_ += bytes;
      io.bytes += bytes;
      part = part.subspan(bytes);
    }
  }
  return io;
}

StreamIo TlsStream::Flush() {
  while (out_sent_ < out_.size()) {
    StreamIo io = below_->Write(std::as_bytes(std::span(out_)).subspan(out_sent_));
    if (io.kind == StreamIo::Kind::kError) return Fail(io.why);
    if (io.kind != StreamIo::Kind::kBytes) return io;
    out_sent_ += io.bytes;
  }
  out_.clear();
  out_sent_ = 0;
  return {.kind = StreamIo::Kind::kBytes};
}

StreamIo TlsStream::Seal(net::WriteParts from, std::size_t skip) {
  if (sealed_bytes_ >= options_.key_bytes && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
    sealed_bytes_ = 0;
    ++key_updates_;
  }
  Record record;
  while (sealed_now_ < kBatchBytes) {
    const std::span<const std::byte> next = NextOf(from, skip + sealed_now_, record);
    if (next.empty()) break;
    ERR_clear_error();
    std::size_t bytes = 0;
    const int returned = SSL_write_ex(ssl_.get(), next.data(), std::min(next.size(), kRecordBytes), &bytes);
    if (returned != 1 && sealed_now_ > 0) break;
    if (returned != 1) return Outcome(returned, writer_needs_);
    sealed_now_ += bytes;
  }
  sealed_bytes_ += sealed_now_;
  return {.kind = StreamIo::Kind::kBytes};
}

StreamIo TlsStream::Write(net::WriteParts from) {
  StreamIo io = Shake();
  if (io.kind != StreamIo::Kind::kBytes) return io;
  writer_needs_ = Event::kRoom;
  const std::size_t whole = BytesOf(from);
  if (whole < sealed_now_) return Fail("what would have blocked was not repeated");
  while (io.bytes < whole) {
    if (sealed_now_ == 0) {
      StreamIo sealed = Seal(from, io.bytes);
      if (sealed.kind != StreamIo::Kind::kBytes) return io.bytes > 0 ? io : sealed;
    }
    StreamIo flushed = Flush();
    if (flushed.kind == StreamIo::Kind::kWouldBlock && io.bytes > 0) return io;
    if (flushed.kind != StreamIo::Kind::kBytes) return flushed;
    io.bytes += std::exchange(sealed_now_, 0);
  }
  return io;
}

// ---- waits

// Once it is up, who reads waits for bytes and who writes for room, each alone.
void TlsStream::Await(bool reader, Event event, std::shared_ptr<StreamSink> waiter) {
  std::shared_ptr<Relay> relay = relay_.lock();
  const bool is_shared = relay != nullptr && relay->IsWaitingFor(event);
  const bool is_alone = up_ && event == (reader ? Event::kBytes : Event::kRoom) && !is_shared;
  std::shared_ptr<StreamSink> below = std::move(waiter);
  if (!is_alone) {
    if (relay == nullptr) relay_ = relay = std::make_shared<Relay>();
    if (!relay->Add(reader, event, std::move(below))) return;
    below = std::move(relay);
  }
  if (event == Event::kBytes) {
    below_->AwaitRead(std::move(below));
  } else {
    below_->AwaitWrite(std::move(below));
  }
}

void TlsStream::AwaitRead(std::shared_ptr<StreamSink> waiter) { Await(true, reader_needs_, std::move(waiter)); }

void TlsStream::AwaitWrite(std::shared_ptr<StreamSink> waiter) { Await(false, writer_needs_, std::move(waiter)); }

}  // namespace ringway::tls
