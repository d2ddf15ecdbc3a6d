#include "proto/tls/tls_stream.h"

#include <asio/io_context.hpp>
#include <random>
#include <vector>

#include "proto/stream/tcp_stream.h"
#include "proto/tls/tls_security.h"
#include "tests/proto/stream/memory_stream.h"
#include "tests/proto/tls/certificates.h"
#include "tests/sanitized.h"

namespace ringway::tls {
namespace {

using net::MemoryFaults;
using net::MemoryOptions;
using net::MemoryPair;
using net::Stream;
using net::StreamIo;
using Kind = StreamIo::Kind;
using std::chrono::days;

const Identity kNear{.role = ProcessRole::kDaemon, .name = "near"};
const Identity kFar{.role = ProcessRole::kDaemon, .name = "far"};

std::vector<std::byte> Noise(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& one : out) one = static_cast<std::byte>(random());
  return out;
}

// One end that sends `out` and reads until it has `wants` bytes, or it is over.
class Party final : public net::StreamSink, public std::enable_shared_from_this<Party> {
 public:
  Party(asio::io_context& loop, std::unique_ptr<Stream> stream, std::vector<std::byte> sends, std::size_t wants)
      : stream_(std::move(stream)), out_(std::move(sends)), wants_(wants) {
    EXPECT_TRUE(stream_->Attach(loop).ok());
  }

  void OnReadable() override {
    std::array<std::byte, 3000> first{};
    std::array<std::byte, 20'000> second{};
    while (stream_ != nullptr && !failed() && in_.size() < wants_) {
      const StreamIo io = stream_->Read(std::array<std::span<std::byte>, 2>{first, second});
      if (io.kind == Kind::kWouldBlock) return stream_->AwaitRead(shared_from_this());
      if (io.kind != Kind::kBytes) return void(why_ = io.why);
      const std::size_t in_first = std::min(io.bytes, first.size());
      in_.insert(in_.end(), first.begin(), first.begin() + static_cast<std::ptrdiff_t>(in_first));
      in_.insert(in_.end(), second.begin(), second.begin() + static_cast<std::ptrdiff_t>(io.bytes - in_first));
    }
  }
  // A header and a payload, as lanes write.
  void OnWritable() override {
    while (stream_ != nullptr && !failed() && sent_ < out_.size()) {
      const std::size_t header = std::min<std::size_t>(64, out_.size() - sent_);
      const std::span rest = std::span<const std::byte>(out_).subspan(sent_);
      const StreamIo io = rest.size() > header ? stream_->Write(std::array{rest.first(header), rest.subspan(header)})
                                               : stream_->Write(rest);
      if (io.kind == Kind::kWouldBlock) return stream_->AwaitWrite(shared_from_this());
      if (io.kind != Kind::kBytes) return void(why_ = io.why);
      sent_ += io.bytes;
    }
  }
  bool failed() const { return !why_.empty(); }
  bool done() const { return failed() || (sent_ == out_.size() && in_.size() >= wants_); }
  const std::string& why() const { return why_; }
  const std::vector<std::byte>& in() const { return in_; }
  const std::vector<std::byte>& out() const { return out_; }
  TlsStream& tls() { return dynamic_cast<TlsStream&>(*stream_); }
  void Close() { stream_ = nullptr; }
  void Add(std::vector<std::byte> more) { out_.insert(out_.end(), more.begin(), more.end()); }
  void Want(std::size_t more) { wants_ += more; }

 private:
  std::unique_ptr<Stream> stream_;
  std::vector<std::byte> out_, in_;
  std::size_t wants_;
  std::size_t sent_ = 0;
  std::string why_;
};

class TlsStreamTest : public testing::Test {
 protected:
  struct Sides {
    std::shared_ptr<Credentials> dials = TestAuthority::Get().Of(kNear);
    std::shared_ptr<Credentials> accepts = TestAuthority::Get().Of(kFar);
    Identity whom = kFar;
    std::uint64_t key_bytes = TlsStreamOptions().key_bytes;
    std::size_t bytes = 1000;
    unsigned seed = 1;
  };
  // Both ends of a connection, which send each other noise.
  void Run(const MemoryOptions& options, const Sides& sides) {
    MemoryPair pair(options);
    Begin(std::make_unique<TlsStream>(
              std::move(pair.a), sides.dials,
              TlsStreamOptions{.dialled = true, .whom = sides.whom, .key_bytes = sides.key_bytes}),
          std::make_unique<TlsStream>(std::move(pair.b), sides.accepts, TlsStreamOptions{.key_bytes = sides.key_bytes}),
          sides);
  }
  // A stream holds the handler that waits for it, which holds the stream.
  void TearDown() override {
    for (const auto& party : {near_, far_}) {
      if (party != nullptr) party->Close();
    }
  }
  void Begin(std::unique_ptr<Stream> near, std::unique_ptr<Stream> far, const Sides& sides) {
    TearDown();
    near_ = std::make_shared<Party>(loop_, std::move(near), Noise(sides.bytes, sides.seed), sides.bytes);
    far_ = std::make_shared<Party>(loop_, std::move(far), Noise(sides.bytes, sides.seed + 1), sides.bytes);
    Go();
  }
  // Until both are done, or wait for each other.
  void Go() {
    for (const auto& party : {near_, far_}) {
      party->OnReadable();
      party->OnWritable();
    }
    do {
      loop_.restart();
      for (const auto& party : {near_, far_}) {
        if (party->failed()) party->Close();
      }
    } while (loop_.poll_one() > 0);
  }
  bool both_done() const { return near_->done() && far_->done(); }
  void ExpectBoth() {
    ASSERT_TRUE(both_done()) << "the ends wait for each other";
    EXPECT_EQ(near_->why() + far_->why(), "");
    EXPECT_TRUE(near_->in() == far_->out());
    EXPECT_TRUE(far_->in() == near_->out());
  }

  asio::io_context loop_;
  std::shared_ptr<Party> near_, far_;
};

TEST_F(TlsStreamTest, BytesArriveAndBothEndsKnowWhoTheOtherIs) {
  Run({}, {.bytes = 200'000});
  ExpectBoth();
  ASSERT_NE(near_->tls().identity(), nullptr);
  EXPECT_EQ(*near_->tls().identity(), kFar);
  EXPECT_EQ(*far_->tls().identity(), kNear);
}

// What stands, what is resumed, and what is new, from either end.
TEST_F(TlsStreamTest, ConnectionsEndWhoseOtherEndIsRevoked) {
  for (const bool dials : {true, false}) {
    SCOPED_TRACE(dials ? "the one that dials is revoked" : "the one that accepts is revoked");
    const TestAuthority authority;
    Sides sides;
    TlsSecurity near(Credentials::Load(authority.Issued(kNear)).value());
    TlsSecurity far(Credentials::Load(authority.Issued(kFar)).value());
    sides.dials = near.credentials();
    sides.accepts = far.credentials();
    Run({}, sides);
    ExpectBoth();
    ASSERT_TRUE(Revoke(authority.dir(), dials ? kNear.name : kFar.name).ok());
    TlsSecurity& other = dials ? far : near;
    ASSERT_TRUE(other.Reload(FilesOf(authority.dir(), dials ? kFar.name : kNear.name)).ok());
    Party& judge = dials ? *far_ : *near_;
    EXPECT_FALSE(judge.tls().IsProven());
    Party& revoked = dials ? *near_ : *far_;
    judge.Want(10);
    revoked.Add(Noise(10, 7));
    Go();
    EXPECT_NE(judge.why().find("is revoked"), std::string::npos) << judge.why();
    EXPECT_EQ(judge.in().size(), sides.bytes) << "nothing more is taken from it";
    for (const bool resumes : {true, false}) {
      if (!resumes) sides.dials = near.credentials();
      if (!resumes) sides.accepts = far.credentials();
      Run({}, sides);
      EXPECT_NE((dials ? *far_ : *near_).why().find("is revoked"), std::string::npos);
    }
  }
}

TEST_F(TlsStreamTest, NobodyIsKnownBeforeTheHandshake) {
  MemoryPair pair{MemoryOptions()};
  const TlsStream stream(std::move(pair.b), TestAuthority::Get().Of(kFar), {});
  EXPECT_EQ(stream.identity(), nullptr);
}

TEST_F(TlsStreamTest, BytesArriveWhateverTheCutsAndStalls) {
  constexpr std::array<std::size_t, 5> kPieces = {1, 7, 100, 5000, MemoryFaults::kNever};
  constexpr std::array<std::size_t, 4> kCapacities = {1, 100, 4096, 256 * 1024};
  for (unsigned seed = 1; seed <= TurnsOf(60); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto faults = [&] {
      return MemoryFaults{.seed = random() | 1U,
                          .capacity = kCapacities[random() % kCapacities.size()],
                          .piece_max = kPieces[random() % kPieces.size()],
                          .stall_percent = static_cast<std::uint32_t>(random() % 4 * 20)};
    };
    MemoryOptions options;
    options.a_to_b = faults();
    options.b_to_a = faults();
    Run(options, {.key_bytes = 10'000, .bytes = 1 + random() % 40'000, .seed = seed});
    ExpectBoth();
  }
}

TEST_F(TlsStreamTest, KeysAreRenewedAfterTheirBytes) {
  Run({}, {.key_bytes = 50'000, .bytes = 400'000});
  ExpectBoth();
  EXPECT_GE(near_->tls().key_updates(), 5U);
  EXPECT_LE(near_->tls().key_updates(), 8U);
}

TEST_F(TlsStreamTest, NextConnectionResumesAndStillKnowsWhoItIs) {
  TestAuthority authority;
  Sides sides{.dials = authority.Of(kNear), .accepts = authority.Of(kFar)};
  Run({}, sides);
  EXPECT_FALSE(near_->tls().resumed());
  Run({}, sides);
  ExpectBoth();
  EXPECT_TRUE(near_->tls().resumed());
  EXPECT_TRUE(far_->tls().resumed());
  EXPECT_EQ(*near_->tls().identity(), kFar);
  EXPECT_EQ(*far_->tls().identity(), kNear);
  // Fresh credentials, as after a reload, know none of it.
  sides.accepts = Credentials::Load(FilesOf(authority.dir(), kFar.name)).value();
  Run({}, sides);
  ExpectBoth();
  EXPECT_FALSE(near_->tls().resumed());
}

TEST_F(TlsStreamTest, ResumptionForOneIsNoneForAnother) {
  TestAuthority authority;
  Run({}, {.dials = authority.Of(kNear), .accepts = authority.Of(kFar)});
  Run({}, {.dials = authority.Of(kNear), .accepts = authority.Of({.name = "third"}), .whom = {.name = "third"}});
  ExpectBoth();
  EXPECT_FALSE(near_->tls().resumed());
}

// ---- who is kept out

TEST_F(TlsStreamTest, DiallerSpeaksToNobodyElse) {
  for (const Identity& whom :
       {Identity{.role = ProcessRole::kDaemon, .name = "other"}, Identity{.role = ProcessRole::kMaster, .name = "far"},
        Identity{.role = ProcessRole::kMaster, .name = ""}}) {
    Run({}, {.whom = whom});
    EXPECT_NE(near_->why().find("daemon far, not of"), std::string::npos) << near_->why();
    EXPECT_TRUE(far_->in().empty()) << "nothing of ours went there";
  }
  Run({}, {.whom = {.role = ProcessRole::kDaemon, .name = ""}});
  ExpectBoth();
}

TEST_F(TlsStreamTest, OtherAuthorityIsRefusedAtBothEnds) {
  TestAuthority stranger;
  Run({}, {.dials = stranger.Of(kNear)});
  EXPECT_NE(near_->why().find("not accepted"), std::string::npos) << near_->why();
  EXPECT_TRUE(far_->failed());
  EXPECT_TRUE(far_->in().empty());
  Run({}, {.accepts = stranger.Of(kFar)});
  EXPECT_TRUE(near_->failed());
  EXPECT_TRUE(far_->failed());
}

// A cloned or stolen host may still send such certificates: Load cannot make a fresh one.
TEST_F(TlsStreamTest, CertificateWithoutIdentityOrOfAnotherTimeIsRefused) {
  const TestAuthority authority;
  const CredentialFiles good = authority.Issued(kNear);
  const auto with = [&](const CredentialFiles& files) {
    auto credentials = Credentials::Load(good).value();
    SSL_CTX* context = credentials->dialling();
    EXPECT_EQ(SSL_CTX_use_certificate_file(context, files.cert.c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM), 1);
    return credentials;
  };
  const auto far = Credentials::Load(authority.Issued(kFar)).value();
  Run({}, {.dials = with(authority.Issued({.name = "old"}, {.begins = days(-10), .ends = days(-1)})), .accepts = far});
  EXPECT_NE(far_->why().find("expired"), std::string::npos) << far_->why();
  EXPECT_NE(near_->why().find("expired"), std::string::npos) << near_->why();
  Run({}, {.dials = with(authority.Issued({.name = "early"}, {.begins = days(1), .ends = days(9)})), .accepts = far});
  EXPECT_NE(far_->why().find("not yet valid"), std::string::npos) << far_->why();
  Run({}, {.dials = with({.ca = good.ca, .cert = good.ca, .key = authority.dir() + "/ca.key"}), .accepts = far});
  EXPECT_TRUE(far_->failed());
  EXPECT_TRUE(far_->in().empty());
}

TEST_F(TlsStreamTest, NoCertificateIsRefused) {
  auto bare = Credentials::Load(TestAuthority().Issued(kNear)).value();
  // An end that dials with credentials whose certificate is taken away.
  SSL_CTX_set_verify(bare->dialling(), SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_cert_cb(
      bare->dialling(),
      [](SSL* ssl, void*) {
        SSL_certs_clear(ssl);
        return 1;
      },
      nullptr);
  Run({}, {.dials = bare});
  EXPECT_NE(far_->why().find("shows no certificate"), std::string::npos) << far_->why();
  EXPECT_TRUE(far_->in().empty());
}

TEST_F(TlsStreamTest, OldTlsAndPlainBytesAreRefused) {
  auto old = Credentials::Load(TestAuthority().Issued(kNear)).value();
  ASSERT_EQ(SSL_CTX_set_min_proto_version(old->dialling(), TLS1_2_VERSION), 1);
  ASSERT_EQ(SSL_CTX_set_max_proto_version(old->dialling(), TLS1_2_VERSION), 1);
  Run({}, {.dials = old});
  EXPECT_NE(far_->why().find("does not speak TLS 1.3"), std::string::npos) << far_->why();
  EXPECT_NE(near_->why().find("does not speak TLS 1.3"), std::string::npos) << near_->why();
  for (const bool dialled_is_plain : {true, false}) {
    MemoryPair pair{MemoryOptions()};
    std::unique_ptr<Stream> near = std::move(pair.a);
    std::unique_ptr<Stream> far = std::move(pair.b);
    std::unique_ptr<Stream>& secured = dialled_is_plain ? far : near;
    secured = std::make_unique<TlsStream>(
        std::move(secured), TestAuthority::Get().Of(kNear),
        TlsStreamOptions{.dialled = !dialled_is_plain, .whom = dialled_is_plain ? std::nullopt : std::optional(kFar)});
    Begin(std::move(near), std::move(far), {.bytes = 300});
    const auto& judge = dialled_is_plain ? far_ : near_;
    EXPECT_NE(judge->why().find("does not speak TLS"), std::string::npos) << judge->why();
    EXPECT_TRUE(judge->in().empty());
  }
}

// Before anything is proven: an exchange in a group of 8192 bits costs a hundred milliseconds.
TEST_F(TlsStreamTest, CostlyKeyExchangesAreRefused) {
  auto costly = Credentials::Load(TestAuthority().Issued(kNear)).value();
  for (const char* group : {"ffdhe8192", "ffdhe2048", "P-521"}) {
    ASSERT_EQ(SSL_CTX_set1_groups_list(costly->dialling(), group), 1);
    Run({}, {.dials = costly});
    EXPECT_TRUE(far_->failed()) << group;
    EXPECT_TRUE(near_->failed()) << group;
  }
}

// ---- who has a certificate, and means no good

TEST_F(TlsStreamTest, KeysThatAreRenewedAgainAndAgainEndTheConnection) {
  MemoryPair pair{MemoryOptions()};
  const std::unique_ptr<Stream> near =
      std::make_unique<TlsStream>(std::move(pair.a), TestAuthority::Get().Of(kNear),
                                  TlsStreamOptions{.dialled = true, .whom = kFar, .key_bytes = 1});
  const std::unique_ptr<Stream> far =
      std::make_unique<TlsStream>(std::move(pair.b), TestAuthority::Get().Of(kFar), TlsStreamOptions{});
  std::size_t read = 0;
  StreamIo io;
  for (int i = 0; i < 100 && io.kind != Kind::kError; ++i) {
    const std::array<std::byte, 1> one{};
    (void)near->Write(one);
    std::array<std::byte, 100> buffer{};
    io = far->Read(buffer);
    read += io.bytes;
    (void)near->Read(buffer);  // the handshake
  }
  EXPECT_EQ(io.kind, Kind::kError);
  EXPECT_NE(io.why.find("renews its keys"), std::string::npos) << io.why;
  EXPECT_GE(read, TlsStream::kChatterMax);
  EXPECT_LE(read, TlsStream::kChatterMax + 1);
}

TEST_F(TlsStreamTest, WriteThatIsNotRepeatedEndsTheConnectionNotTheProcess) {
  MemoryPair pair({.a_to_b = {.seed = 1, .capacity = 3000}, .b_to_a = {}});
  const std::unique_ptr<Stream> near = std::make_unique<TlsStream>(std::move(pair.a), TestAuthority::Get().Of(kNear),
                                                                   TlsStreamOptions{.dialled = true, .whom = kFar});
  const std::unique_ptr<Stream> far =
      std::make_unique<TlsStream>(std::move(pair.b), TestAuthority::Get().Of(kFar), TlsStreamOptions{});
  const std::vector<std::byte> much = Noise(20'000, 1);
  std::array<std::byte, 100> buffer{};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(near->Write(much).kind, Kind::kWouldBlock);
    (void)far->Read(buffer);
  }
  EXPECT_EQ(near->Write(std::span(much).first(10)).kind, Kind::kError);
}

// ---- a hostile network

// A flipped bit at any byte, also of the handshake: nothing false is ever read.
TEST_F(TlsStreamTest, FlippedByteIsNeverRead) {
  const std::vector<std::byte> truth = Noise(1000, 1);
  std::size_t ignored = 0;
  for (std::size_t at = 0; at < 4000; at += at < 600 ? 1 : 13) {
    SCOPED_TRACE(at);
    Run({.a_to_b = {.flip_at = at}}, {});
    EXPECT_TRUE(std::equal(far_->in().begin(), far_->in().end(), truth.begin()));
    // A longer length is waited for: that ends with the time that a hello, or an answer, may take.
    if (at < 1300 && far_->in().size() == truth.size()) ++ignored;
  }
  EXPECT_LE(ignored, 8U) << "bits that TLS 1.3 ignores, as those of the record's version";
}

TEST_F(TlsStreamTest, BreakAtAnyByteEndsBothWithoutAHang) {
  for (const bool reads : {true, false}) {
    for (const Kind kind : {Kind::kEnd, Kind::kError}) {
      for (std::size_t at = 0; at < 3500; at += at < 200 ? 1 : 29) {
        SCOPED_TRACE(at);
        MemoryOptions options;
        if (reads) {
          options.b_to_a = {.read_breaks_at = at, .breaks = kind};
        } else {
          options.a_to_b = {.write_breaks_at = at, .breaks = kind};
        }
        Run(options, {.bytes = 5000});
        EXPECT_TRUE(near_->failed());
        EXPECT_TRUE(both_done());
      }
    }
  }
}

TEST_F(TlsStreamTest, SilenceInTheHandshakeWaitsAndCostsNothingElse) {
  MemoryPair pair{MemoryOptions()};
  auto far = std::make_shared<Party>(
      loop_, std::make_unique<TlsStream>(std::move(pair.b), TestAuthority::Get().Of(kFar), TlsStreamOptions{}),
      Noise(10, 1), 10);
  far->OnReadable();
  far->OnWritable();
  EXPECT_EQ(loop_.poll(), 0U);
  EXPECT_FALSE(far->done());
  far->Close();
}

// ---- over threads and sockets

TEST_F(TlsStreamTest, MovesBetweenLoopsWithWhatWasReadAhead) {
  std::array<int, 2> fds{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
  auto dialled =
      std::make_unique<TlsStream>(std::make_unique<net::TcpStream>(net::UniqueFd(fds[0])),
                                  TestAuthority::Get().Of(kNear), TlsStreamOptions{.dialled = true, .whom = kFar});
  std::unique_ptr<Stream> accepted = std::make_unique<TlsStream>(
      std::make_unique<net::TcpStream>(net::UniqueFd(fds[1])), TestAuthority::Get().Of(kFar), TlsStreamOptions{});
  Stream& from = *dialled;
  const std::vector<std::byte> sent = Noise(6000, 3);
  std::vector<std::byte> got(sent.size());
  // Both without a loop: handshake and first bytes by calls alone.
  std::size_t written = 0;
  std::size_t read = 0;
  while (read < 100) {
    const StreamIo out = from.Write(std::span(sent).subspan(written));
    if (out.kind == Kind::kBytes) written += out.bytes;
    const StreamIo in = accepted->Read(std::span(got).subspan(read, 100 - read));
    ASSERT_NE(in.kind, Kind::kError) << in.why;
    read += in.bytes;
    if (written == sent.size() && in.kind == Kind::kWouldBlock) break;
  }
  ASSERT_EQ(read, 100U);
  ASSERT_EQ(written, sent.size());
  asio::io_context other;
  ASSERT_TRUE(accepted->Attach(other).ok());
  accepted->Detach();
  ASSERT_TRUE(accepted->Attach(loop_).ok());
  while (read < got.size()) {
    const StreamIo in = accepted->Read(std::span(got).subspan(read));
    ASSERT_EQ(in.kind, Kind::kBytes) << "all of it has arrived, some was read ahead";
    read += in.bytes;
  }
  EXPECT_TRUE(got == sent);
}

}  // namespace
}  // namespace ringway::tls
