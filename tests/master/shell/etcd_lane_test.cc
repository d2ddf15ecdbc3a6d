// What answers may be no etcd, or a broken one: each request ends, by its deadline, with a typed error.
#include "master/shell/etcd_lane.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>

#include "proto/stream/address.h"
#include "tests/e2e/closed_port.h"
#include "tests/proto/tls/certificates.h"

namespace {

// A name server that answers nothing for "slow" between Fall and Rise.
class NameServer {
 public:
  static NameServer& Get() {
    static NameServer server;
    return server;
  }
  void Ask() {
    std::unique_lock lock(mutex_);
    is_asked_ = true;
    risen_.wait(lock, [this, before = rises_] { return is_up_ || rises_ != before; });
  }
  void Fall() {
    const std::scoped_lock lock(mutex_);
    is_up_ = is_asked_ = false;
  }
  bool is_asked() {
    const std::scoped_lock lock(mutex_);
    return is_asked_;
  }
  void Rise() {
    const std::scoped_lock lock(mutex_);
    is_up_ = true;
    ++rises_;
    risen_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable risen_;
  int rises_ = 0;
  bool is_asked_ = false, is_up_ = true;
};

}  // namespace

extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  static auto* const kSystem = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool is_slow = host != nullptr && std::string(host) == "slow";
  if (!is_slow) return kSystem(host, service, hints, found);
  if ((hints->ai_flags & AI_NUMERICHOST) == 0) NameServer::Get().Ask();
  return EAI_NONAME;
}

namespace ringway {
namespace {

constexpr char kRevoked[] = R"({"header":{"revision":"1"}})";

// Answers each POST as the test says.
class FakeEtcd {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;

  explicit FakeEtcd(Answer answer) {
    server_.Post(".*", std::move(answer));
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~FakeEtcd() {
    while (!server_.is_running()) std::this_thread::yield();
    server_.stop();
    thread_.join();
  }
  FakeEtcd(const FakeEtcd&) = delete;
  FakeEtcd& operator=(const FakeEtcd&) = delete;
  Endpoint endpoint() const { return {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(port_)}; }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

// Accepts one connection and sends a TLS handshake that never ends, byte for byte, until the other end is gone; after
// kBytesMax it is given up.
class DrippingEndpoint {
 public:
  DrippingEndpoint() {
    thread_ = std::thread([this] { Drip(); });
  }
  ~DrippingEndpoint() {
    ::shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }
  DrippingEndpoint(const DrippingEndpoint&) = delete;
  DrippingEndpoint& operator=(const DrippingEndpoint&) = delete;
  Endpoint endpoint() const {
    return {.host = "127.0.0.1", .port = net::LocalAddress(listening_.get()).value().port()};
  }
  bool drips() const { return drips_; }
  bool gave_up() const { return gave_up_; }

 private:
  static constexpr int kBytesMax = 2000;

  void Drip() {
    const net::UniqueFd accepted = Accept();
    constexpr unsigned char kBegin[] = {0x16, 3, 3, 0x40, 0, 2, 0, 0x3f, 0xfc, 3, 3};  // a ServerHello of 16 KiB
    bool is_there = ::send(accepted.get(), kBegin, sizeof kBegin, MSG_NOSIGNAL) == sizeof kBegin;
    for (int i = 0; i < kBytesMax && is_there; ++i) {
      drips_ = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far below any read's timeout
      is_there = ::send(accepted.get(), "", 1, MSG_NOSIGNAL) == 1;
    }
    gave_up_ = is_there;
  }
  net::UniqueFd Accept() {
    pollfd ready{.fd = listening_.get(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, -1);
    return net::UniqueFd(::accept(listening_.get(), nullptr, nullptr));
  }

  const net::UniqueFd listening_ =
      net::ListenTcp(net::ResolveBlocking({.host = "127.0.0.1", .port = 0}, true).value()).value();
  std::atomic<bool> drips_ = false, gave_up_ = false;
  std::thread thread_;
};

class EtcdLaneTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }  // as the master does
  kv::Reply Ask(EtcdLane& lane, decltype(kv::Request::what) what = kv::Revoke{5}) {
    reply_.reset();
    lane.Ask({.number = 1, .what = std::move(what)});
    while (!reply_) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(5));
      lane.Tick();
    }
    return *reply_;
  }
  std::unique_ptr<EtcdLane> LaneTo(std::vector<Endpoint> endpoints, Duration within = std::chrono::seconds(30)) {
    EtcdOptions options;
    options.endpoints = std::move(endpoints);
    options.user = user_;
    options.password = "secret";
    options.ca = ca_;
    return std::make_unique<EtcdLane>(io_, options, within, [this](const kv::Reply& reply) { reply_ = reply; });
  }

  asio::io_context io_{1};
  std::string user_, ca_;
  std::optional<kv::Reply> reply_;
};

TEST_F(EtcdLaneTest, NextEndpointIsAskedAfterOneThatIsGone) {
  FakeEtcd etcd([](const auto&, auto& response) { response.set_content(kRevoked, "application/json"); });
  const e2e::ClosedPort closed;
  const auto lane = LaneTo({ParseEndpoint(closed.address()).value(), etcd.endpoint()});
  EXPECT_EQ(Ask(*lane).status.code(), Code::kIo);
  EXPECT_TRUE(Ask(*lane).status.ok());
  EXPECT_TRUE(Ask(*lane).status.ok()) << "it stays with the one that answers";
}

TEST_F(EtcdLaneTest, GarbageIsAnErrorThatNamesTheAddress) {
  FakeEtcd etcd([](const auto&, auto& response) { response.set_content("<html>", "text/html"); });
  const auto lane = LaneTo({etcd.endpoint()});
  const kv::Reply reply = Ask(*lane);
  EXPECT_EQ(reply.status.code(), Code::kProtocol);
  EXPECT_NE(reply.status.text().find(ToString(etcd.endpoint())), std::string::npos) << reply.status.text();
}

TEST_F(EtcdLaneTest, HugeAnswerIsCutOff) {
  FakeEtcd etcd([](const auto&, auto& response) {
    response.set_chunked_content_provider("application/json", [](std::size_t, httplib::DataSink& sink) {
      static const std::string kPiece(1 << 20, ' ');
      return sink.write(kPiece.data(), kPiece.size());  // without end
    });
  });
  const auto lane = LaneTo({etcd.endpoint()});
  const kv::Reply reply = Ask(*lane);
  EXPECT_EQ(reply.status.code(), Code::kProtocol) << reply.status.text();
}

// Only a list of all entries may be large.
TEST_F(EtcdLaneTest, AnswerLargerThanItsKindIsRefused) {
  const std::string spaces(std::size_t{300} << 10, ' ');
  int http = 200;
  FakeEtcd etcd([&](const auto&, auto& response) {
    response.status = http;
    response.set_content(kRevoked + spaces, "application/json");
  });
  const auto lane = LaneTo({etcd.endpoint()});
  EXPECT_EQ(Ask(*lane).status.code(), Code::kProtocol);
  EXPECT_TRUE(Ask(*lane, kv::List{}).status.ok());
  http = 503;
  EXPECT_EQ(Ask(*lane, kv::List{}).status.code(), Code::kProtocol);
}

TEST_F(EtcdLaneTest, AnswerThatNeverComesEndsWithTheDeadline) {
  std::atomic<bool> over = false;
  FakeEtcd etcd([&](const auto&, auto&) {
    while (!over) std::this_thread::yield();
  });
  const auto lane = LaneTo({etcd.endpoint()}, std::chrono::milliseconds(100));
  EXPECT_EQ(Ask(*lane).status.code(), Code::kTimeout);
  over = true;
}

TEST_F(EtcdLaneTest, AnswerOfSingleBytesEndsWithTheDeadline) {
  FakeEtcd etcd([](const auto&, auto& response) {
    response.set_chunked_content_provider("application/json", [](std::size_t, httplib::DataSink& sink) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far below any read's timeout
      return sink.write(" ", 1);
    });
  });
  const auto lane = LaneTo({etcd.endpoint()}, std::chrono::milliseconds(200));
  EXPECT_EQ(Ask(*lane).status.code(), Code::kTimeout);
}

TEST_F(EtcdLaneTest, HandshakeThatNeverEndsEndsWithTheDeadlineAndTheLoopGoesOn) {
  ca_ = tls::FilesOf(tls::TestAuthority::Get().dir(), "m").ca;
  DrippingEndpoint dripping;
  const auto lane = LaneTo({dripping.endpoint()}, std::chrono::milliseconds(500));
  EXPECT_EQ(Ask(*lane).status.code(), Code::kTimeout);
  EXPECT_TRUE(dripping.drips());
  EXPECT_FALSE(dripping.gave_up()) << "the loop was stopped for as long as the handshake took";
}

TEST_F(EtcdLaneTest, EndDoesNotWaitForAHandshakeThatNeverEnds) {
  ca_ = tls::FilesOf(tls::TestAuthority::Get().dir(), "m").ca;
  DrippingEndpoint dripping;
  auto lane = LaneTo({dripping.endpoint()}, std::chrono::milliseconds(500));
  lane->Ask({.number = 1, .what = kv::Revoke{5}});
  while (!dripping.drips()) std::this_thread::yield();
  lane.reset();
  EXPECT_FALSE(dripping.gave_up());
}

TEST_F(EtcdLaneTest, NameIsLookedUpAndOneThatDoesNotExistIsAnError) {
  FakeEtcd etcd([](const auto&, auto& response) { response.set_content(kRevoked, "application/json"); });
  const auto lane = LaneTo({{.host = "name.invalid", .port = 1}, {.host = "localhost", .port = etcd.endpoint().port}});
  EXPECT_EQ(Ask(*lane).status.code(), Code::kIo);
  bool answers = false;  // the name may have an address of IPv6, too, where nobody listens
  for (int i = 0; i < 4 && !answers; ++i) answers = Ask(*lane).status.ok();
  EXPECT_TRUE(answers);
}

TEST_F(EtcdLaneTest, NeitherARequestNorTheEndWaitsForANameServer) {
  NameServer::Get().Fall();
  auto lane = LaneTo({{.host = "slow", .port = 1}}, std::chrono::milliseconds(100));
  EXPECT_EQ(Ask(*lane).status.code(), Code::kTimeout);
  EXPECT_TRUE(NameServer::Get().is_asked());
  lane->Ask({.number = 2, .what = kv::Revoke{5}});
  lane.reset();
  NameServer::Get().Rise();
}

TEST_F(EtcdLaneTest, MoreRequestsThanWaitFailAtOnce) {
  std::atomic<bool> over = false;
  FakeEtcd etcd([&](const auto&, auto&) {
    while (!over) std::this_thread::yield();
  });
  const auto lane = LaneTo({etcd.endpoint()});
  for (std::size_t i = 0; i < EtcdLane::kQueueMax + 1; ++i) lane->Ask({.number = 9, .what = kv::Revoke{5}});
  EXPECT_EQ(Ask(*lane).status.code(), Code::kResourceExhausted);
  over = true;
}

TEST_F(EtcdLaneTest, TokenThatHasEndedIsRenewedOnce) {
  user_ = "u";
  std::atomic<int> logins = 0;
  FakeEtcd etcd([&](const httplib::Request& request, httplib::Response& response) {
    if (request.path == "/v3/auth/authenticate") {
      return response.set_content(R"({"token":"t)" + std::to_string(++logins) + "\"}", "application/json");
    }
    if (request.get_header_value("Authorization") == "t2") return response.set_content(kRevoked, "application/json");
    response.status = 401;
    response.set_content(R"({"error":"etcdserver: invalid auth token","code":16})", "application/json");
  });
  const auto lane = LaneTo({etcd.endpoint()});
  EXPECT_TRUE(Ask(*lane).status.ok());
  EXPECT_TRUE(Ask(*lane).status.ok());
  EXPECT_EQ(logins, 2);
}

TEST_F(EtcdLaneTest, PasswordThatIsNotTakenIsSaid) {
  user_ = "u";
  FakeEtcd etcd([&](const httplib::Request&, httplib::Response& response) {
    response.status = 400;
    response.set_content(R"({"error":"etcdserver: authentication failed","code":3})", "application/json");
  });
  const auto lane = LaneTo({etcd.endpoint()});
  const kv::Reply reply = Ask(*lane);
  EXPECT_NE(reply.status.text().find("does not take user u: etcdserver: authentication failed"), std::string::npos)
      << reply.status.text();
}

}  // namespace
}  // namespace ringway
