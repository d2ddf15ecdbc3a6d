#include "tests/e2e/tls_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <span>

#include "proto/stream/address.h"
#include "tests/e2e/processes.h"

namespace ringway::e2e {

net::UniqueFd ConnectTo(const std::string& address) {
  const auto where = net::ResolveBlocking(ParseEndpoint(address).value(), false);
  net::UniqueFd fd(::socket(where.value().storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  EXPECT_EQ(::connect(fd.get(), where.value().get(), where.value().length), 0) << address;
  return fd;
}

std::string SayAndHear(const std::string& address, const std::string& bytes) {
  const net::UniqueFd fd = ConnectTo(address);
  (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string heard;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0) heard.append(buffer.data(), got);
  EXPECT_TRUE(got == 0 || errno == ECONNRESET) << "it was not closed";
  return heard;
}

TlsClient::TlsClient(const std::string& address, const TlsClientOptions& options)
    : context_(SSL_CTX_new(TLS_client_method())), fd_(ConnectTo(address)) {
  SSL_CTX_set_min_proto_version(context_.get(), options.version);
  SSL_CTX_set_max_proto_version(context_.get(), options.version);
  if (options.files) {
    EXPECT_EQ(SSL_CTX_use_certificate_file(context_.get(), options.files->cert.c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), options.files->key.c_str(), SSL_FILETYPE_PEM), 1);
  }
  ssl_.reset(SSL_new(context_.get()));
  SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(ssl_.get());
  while (!(shook_ = SSL_do_handshake(ssl_.get()) == 1) && Pump()) {
  }
  Send();
}

void TlsClient::Send() {
  std::array<char, 4096> buffer{};
  for (int bytes = 0; (bytes = BIO_read(SSL_get_wbio(ssl_.get()), buffer.data(), buffer.size())) > 0;) {
    wire_.append(buffer.data(), static_cast<std::size_t>(bytes));
    (void)::send(fd_.get(), buffer.data(), static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
  }
}

bool TlsClient::Pump() {
  Send();
  std::array<char, 4096> buffer{};
  const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
  EXPECT_FALSE(got < 0 && errno == EAGAIN) << "nobody answers, and nobody closes";
  if (got <= 0) return false;
  return BIO_write(SSL_get_rbio(ssl_.get()), buffer.data(), static_cast<int>(got)) == got;
}

void TlsClient::Say(const google::protobuf::MessageLite& message) {
  std::string frame;
  AppendFrame(message, frame);
  if (shook_) (void)SSL_write(ssl_.get(), frame.data(), static_cast<int>(frame.size()));
  Send();
}

std::string TlsClient::Hear() {
  std::string heard;
  std::array<char, 4096> buffer{};
  while (shook_) {
    const int bytes = SSL_read(ssl_.get(), buffer.data(), buffer.size());
    if (bytes > 0) heard.append(buffer.data(), static_cast<std::size_t>(bytes));
    FrameReader reader;
    if (reader.Feed(std::as_bytes(std::span(heard))).ok() && reader.Next().has_value()) break;
    if (bytes > 0) continue;
    if (SSL_get_error(ssl_.get(), bytes) != SSL_ERROR_WANT_READ || !Pump()) break;
  }
  return heard;
}

}  // namespace ringway::e2e
