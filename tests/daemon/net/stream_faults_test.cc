// Links and lanes over connections that cut, stall, end, fail and lie at any byte.
#include <array>
#include <deque>
#include <random>

#include "daemon/net/control_link.h"
#include "daemon/net/dialer.h"
#include "daemon/net/lane_threads.h"
#include "daemon/net/listener.h"
#include "proto/tls/tls_stream.h"
#include "tests/daemon/net/lane_fixture.h"
#include "tests/proto/stream/memory_stream.h"
#include "tests/proto/tls/certificates.h"
#include "tests/sanitized.h"

namespace ringway::net {
namespace {

using Kind = StreamIo::Kind;

const std::uint64_t kSeeds = TurnsOf(300);

MemoryFaults RandomFaults(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr std::array<std::size_t, 5> kPieces = {1, 7, 100, 5000, MemoryFaults::kNever};
  constexpr std::array<std::size_t, 4> kCapacities = {1, 100, 4096, 256 * 1024};
  return {.seed = random() | 1,
          .capacity = kCapacities[random() % kCapacities.size()],
          .piece_max = kPieces[random() % kPieces.size()],
          .stall_percent = static_cast<std::uint32_t>(random() % 4 * 20)};
}

// A break at byte `at` of what the first of a pair reads or writes.
MemoryOptions BreakAt(std::size_t at, bool reads, Kind kind) {
  MemoryOptions options;
  if (reads) {
    options.b_to_a = {.read_breaks_at = at, .breaks = kind};
  } else {
    options.a_to_b = {.write_breaks_at = at, .breaks = kind};
  }
  return options;
}

// Every second seed is secured.
MemoryPair PairOf(const MemoryOptions& options, std::uint64_t seed) {
  MemoryPair pair(options);
  if (seed % 2 == 0) {
    pair.a = std::make_unique<tls::TlsStream>(std::move(pair.a), tls::TestAuthority::Get().Of({.name = "a"}),
                                              tls::TlsStreamOptions{.dialled = true, .whom = Identity{.name = "b"}});
    pair.b = std::make_unique<tls::TlsStream>(std::move(pair.b), tls::TestAuthority::Get().Of({.name = "b"}),
                                              tls::TlsStreamOptions{});
  }
  return pair;
}

class RecordingControlSink : public ControlSink {
 public:
  Status OnControlMessage(PeerId, const control::PeerMessage& message) override {
    epochs.push_back(message.heartbeat().epoch());
    return {};
  }
  void OnControlClosed(PeerId, const std::string& why) override { closed.push_back(why); }
  std::vector<std::uint64_t> epochs;
  std::vector<std::string> closed;
};

class StreamFaultsTest : public NetTest {
 protected:
  std::shared_ptr<StreamControl> Link(std::unique_ptr<Stream> stream, RecordingControlSink& sink) {
    auto link = std::make_shared<StreamControl>(context_, PeerId(3));
    link->Start(std::move(stream), &sink);
    return link;
  }
  static control::PeerMessage MessageOf(std::uint64_t epoch, std::size_t more = 0) {
    control::PeerMessage message;
    message.mutable_heartbeat()->set_epoch(epoch);
    while (more-- > 0) message.mutable_heartbeat()->add_complete_upto()->set_seq(1ULL << 60);
    return message;
  }
};

TEST_F(StreamFaultsTest, ControlLinksCarryTheSameMessagesWhateverTheCuts) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    MemoryPair pair = PairOf({.a_to_b = RandomFaults(seed), .b_to_a = RandomFaults(seed + kSeeds)}, seed);
    std::array<RecordingControlSink, 2> sinks;
    const std::array links = {Link(std::move(pair.a), sinks[0]), Link(std::move(pair.b), sinks[1])};
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> sent;
    while (sent.size() < 30) {
      sent.push_back(random());
      for (const auto& link : links) link->Send(MessageOf(sent.back(), random() % 30));
      if (random() % 3 == 0) links[random() % 2]->Flush();
      context_.restart();
      context_.poll_one();
    }
    for (const auto& link : links) link->Flush();
    ASSERT_TRUE(RunUntil([&] { return sinks[0].epochs.size() == 30 && sinks[1].epochs.size() == 30; }));
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink.epochs, sent);
      EXPECT_TRUE(sink.closed.empty());
    }
    for (const auto& link : links) link->Close();
  }
}

TEST_F(StreamFaultsTest, ControlLinkThatBreaksAtAnyByteClosesOnce) {
  const std::size_t whole = FrameOf(MessageOf(1)).size();
  for (const bool reads : {true, false}) {
    for (const Kind kind : {Kind::kEnd, Kind::kError}) {
      for (std::size_t at = 0; at <= 2 * whole; ++at) {
        SCOPED_TRACE(at);
        MemoryPair pair(BreakAt(at, reads, kind));
        std::array<RecordingControlSink, 2> sinks;
        const std::array links = {Link(std::move(pair.a), sinks[0]), Link(std::move(pair.b), sinks[1])};
        for (int i = 0; i < 3; ++i) {  // the third finds the break, also behind the second
          for (const auto& link : links) link->Send(MessageOf(1));
        }
        links[1]->Flush();  // before the first fails, which would end it, too
        links[0]->Flush();
        Settle();
        ASSERT_EQ(sinks[0].closed.size(), 1U);
        ASSERT_EQ(sinks[1].closed.size(), 1U) << "its end is the other's";
        EXPECT_EQ(sinks[reads ? 0 : 1].epochs.size(), at / whole) << "what came whole is delivered";
      }
    }
  }
}

TEST_F(StreamFaultsTest, ControlLinkTakesNoMessageWithAFlippedByte) {
  const std::size_t whole = FrameOf(MessageOf(1)).size();
  for (std::size_t at = 0; at < 2 * whole; ++at) {
    SCOPED_TRACE(at);
    MemoryPair pair({.a_to_b = {.flip_at = at}});
    std::array<RecordingControlSink, 2> sinks;
    const std::array links = {Link(std::move(pair.a), sinks[0]), Link(std::move(pair.b), sinks[1])};
    for (int i = 0; i < 2; ++i) links[0]->Send(MessageOf(1));
    links[0]->Flush();
    Settle();
    EXPECT_EQ(sinks[1].epochs.size(), at / whole);
    EXPECT_EQ(sinks[1].closed.size(), 1U) << "also where the second came with the first, and nothing after it";
    EXPECT_EQ(sinks[0].closed.size(), 1U);
  }
}

TEST_F(StreamFaultsTest, ControlLinkWhoseOtherEndTakesNothingClosesAtItsBound) {
  MemoryPair pair({.a_to_b = {.seed = 1, .capacity = 1000, .piece_max = 10, .stall_percent = 30}});
  RecordingControlSink sink;
  const auto link = Link(std::move(pair.a), sink);
  const control::PeerMessage message = MessageOf(1, 1000);
  const std::size_t frame_bytes = FrameOf(message).size();
  for (std::size_t queued = 0; queued + frame_bytes <= ControlLink::kQueueBytesMax; queued += frame_bytes) {
    link->Send(message);
    link->Flush();
  }
  Settle();
  EXPECT_TRUE(sink.closed.empty());
  for (int i = 0; i < 2; ++i) link->Send(message);
  Settle();
  ASSERT_EQ(sink.closed.size(), 1U);
  EXPECT_NE(sink.closed[0].find("does not read"), std::string::npos) << sink.closed[0];
}

// ---- handshakes

class HandshakeFaultsTest : public StreamFaultsTest {
 protected:
  struct Outcome {
    std::vector<Result<DialedLinks>> dialled;
    std::vector<LinkOffer> offers;
  };
  static constexpr std::uint64_t kEarly = 77;

  // Dials a control link over a connection of these options and PairOf `seed`; whoever is offered it answers, with a
  // message right behind.
  void Shake(const MemoryOptions& options, std::uint64_t seed, Outcome& out) {
    Listener listener(context_, {}, [&out](LinkOffer offer) {
      control::LinkReply reply;
      reply.set_version(offer.version);
      const std::string frames = FrameOf(reply) + FrameOf(MessageOf(kEarly));
      (void)offer.stream->Write(std::as_bytes(std::span(frames)));
      out.offers.push_back(std::move(offer));
    });
    const auto connect = [&](asio::io_context& context, const ConnectOptions&, const Connector::Done& done) {
      MemoryPair pair = PairOf(options, seed);
      listener.Take(std::move(pair.b));
      auto stream = std::make_shared<std::unique_ptr<Stream>>(std::move(pair.a));
      asio::post(context, [done, stream] { done(Connection{.stream = std::move(*stream), .loopback = true}); });
    };
    Dialer dialer(context_, {}, connect);
    DialRequest request{
        .group = "job", .from = PeerId(1), .to = PeerId(2), .address = "memory", .daemon = {}, .missing = {}};
    request.control = true;
    dialer.Dial(std::move(request), [&out](Result<DialedLinks> one) { out.dialled.push_back(std::move(one)); });
    for (int i = 0; i < 500; ++i) Settle();
    EXPECT_EQ(listener.half_open(), 0U);
  }
  void CloseOnce(std::unique_ptr<Stream> stream, std::size_t messages) {
    RecordingControlSink sink;
    const auto link = Link(std::move(stream), sink);
    for (int i = 0; i < 3; ++i) link->Send(MessageOf(1));
    link->Flush();
    Settle();
    EXPECT_EQ(sink.closed.size(), 1U);
    EXPECT_EQ(sink.epochs.size(), messages);
  }
};

TEST_F(HandshakeFaultsTest, LinkStandsAtBothEndsWhateverTheCuts) {
  for (std::uint64_t seed = 1; seed <= TurnsOf(100); ++seed) {
    SCOPED_TRACE(seed);
    Outcome out;
    MemoryOptions options{.a_to_b = RandomFaults(seed), .b_to_a = RandomFaults(seed + kSeeds)};
    // An answer is written once: a fresh connection has room for it.
    options.b_to_a = {.seed = seed, .piece_max = MemoryFaults::kNever, .stall_percent = 0};
    Shake(options, seed, out);
    ASSERT_EQ(out.offers.size(), 1U);
    ASSERT_EQ(out.dialled.size(), 1U);
    ASSERT_TRUE(out.dialled[0].ok()) << out.dialled[0].status().text();
    std::array<RecordingControlSink, 2> sinks;
    const std::array links = {Link(std::move(out.dialled[0].value().links[0].stream), sinks[0]),
                              Link(std::move(out.offers[0].stream), sinks[1])};
    for (const auto& link : links) link->Send(MessageOf(seed));
    for (const auto& link : links) link->Flush();
    ASSERT_TRUE(RunUntil([&] { return sinks[0].epochs.size() == 2 && sinks[1].epochs.size() == 1; }));
    EXPECT_EQ(sinks[0].epochs, (std::vector{kEarly, seed})) << "also what was read with the answer";
    for (const auto& link : links) link->Close();
  }
}

TEST_F(HandshakeFaultsTest, BreakAtAnyByteIsOneAnswerToTheDialAndOneEndOfTheLink) {
  std::size_t stood = 0;
  for (const bool reads : {true, false}) {
    for (const Kind kind : {Kind::kEnd, Kind::kError}) {
      for (std::size_t at = 0; at < 150; ++at) {
        SCOPED_TRACE(at);
        Outcome out;
        Shake(BreakAt(at, reads, kind), 1, out);
        ASSERT_EQ(out.dialled.size(), 1U);
        ASSERT_LE(out.offers.size(), 1U);
        if (!out.dialled[0].ok()) {
          EXPECT_EQ(out.dialled[0].status().code(), Code::kPeerUnreachable) << out.dialled[0].status().text();
          if (!out.offers.empty()) CloseOnce(std::move(out.offers[0].stream), 0);
          continue;
        }
        ++stood;
        ASSERT_EQ(out.offers.size(), 1U);
        RecordingControlSink far_sink;
        const auto far = Link(std::move(out.offers[0].stream), far_sink);
        for (int i = 0; i < 20; ++i) far->Send(MessageOf(1));
        far->Flush();
        RecordingControlSink sink;
        const auto link = Link(std::move(out.dialled[0].value().links[0].stream), sink);
        for (int i = 0; i < 20; ++i) link->Send(MessageOf(1));
        link->Flush();
        Settle();
        EXPECT_EQ(sink.closed.size(), 1U);
        EXPECT_EQ(far_sink.closed.size(), 1U);
      }
    }
  }
  EXPECT_GT(stood, 10U) << "the break reaches beyond the handshake";
}

// ---- lanes

// The parameter: how many lane threads there are.
class LaneFaultsTest : public LaneFixture, public ::testing::WithParamInterface<std::size_t> {
 protected:
  void SetUp() override {}
  std::shared_ptr<Lane> Begin(std::unique_ptr<Stream> stream, LaneSink& sink) {
    auto lane = threads_.MakeLane(kLabel, kPayloadBytesMax);
    lane->Start(std::move(stream), &sink);
    return lane;
  }
  // Closes them, and lets go of what their threads hold.
  void End(const std::array<std::shared_ptr<Lane>, 2>& lanes) {
    for (const auto& lane : lanes) lane->Close();
    Settle();
  }

  LaneThreads threads_{context_, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Threads, LaneFaultsTest, ::testing::Values(0, 1));

TEST_P(LaneFaultsTest, LanesCarryTheSamePayloadsWhateverTheCuts) {
  constexpr std::array<std::size_t, 6> kSizes = {0, 1, 87, 5000, 8192, 40'000};
  for (std::uint64_t seed = 1; seed <= TurnsOf(60); ++seed) {
    SCOPED_TRACE(seed);
    MemoryPair pair = PairOf({.a_to_b = RandomFaults(seed), .b_to_a = RandomFaults(seed + kSeeds)}, seed);
    std::array<RecordingLaneSink, 2> sinks;
    const std::array lanes = {Begin(std::move(pair.a), sinks[0]), Begin(std::move(pair.b), sinks[1])};
    sinks[seed % 2].kind = RecordingLaneSink::Kind::kScratch;
    std::mt19937_64 random(seed);
    for (std::size_t round = 0; round < 4; ++round) {
      std::array<std::shared_ptr<std::vector<std::byte>>, 2> payloads;
      for (auto& payload : payloads) {
        payload = std::make_shared<std::vector<std::byte>>(
            Pattern(kSizes[random() % kSizes.size()], static_cast<unsigned>(random())));
      }
      for (std::size_t i = 0; i < 2; ++i) (void)lanes[i]->Send(Outbound(payloads[i]));
      ASSERT_TRUE(RunUntil([&] {
        return sinks[0].payloads.size() > round && sinks[1].payloads.size() > round && lanes[0]->idle() &&
               lanes[1]->idle();
      }));
      for (std::size_t i = 0; i < 2; ++i) ASSERT_EQ(sinks[1 - i].payloads[round], *payloads[i]);
    }
    for (const auto& sink : sinks) EXPECT_TRUE(sink.closed.empty());
    End(lanes);
  }
}

TEST_P(LaneFaultsTest, BreakAtAnyByteClosesTheLaneOnceAndLetsGoOfWhatItSends) {
  const std::size_t whole = kSegmentHeaderBytes + 40;
  for (const bool reads : {true, false}) {
    for (const Kind kind : {Kind::kEnd, Kind::kError}) {
      for (std::size_t at = 0; at <= whole; ++at) {
        SCOPED_TRACE(at);
        MemoryPair pair(BreakAt(at, reads, kind));
        std::array<RecordingLaneSink, 2> sinks;
        sinks[0].kind = sinks[1].kind =
            at % 2 == 0 ? RecordingLaneSink::Kind::kDirect : RecordingLaneSink::Kind::kScratch;
        const std::array lanes = {Begin(std::move(pair.a), sinks[0]), Begin(std::move(pair.b), sinks[1])};
        auto payload = std::make_shared<std::vector<std::byte>>(Pattern(40, 5));
        const std::weak_ptr<std::vector<std::byte>> alive = payload;
        const auto& sender = lanes[reads ? 1 : 0];
        RecordingLaneSink& receiver_sink = sinks[reads ? 0 : 1];
        (void)sender->Send(Outbound(std::exchange(payload, nullptr)));
        if (at == whole && !reads) {  // it breaks with the next one
          ASSERT_TRUE(RunUntil([&] { return sender->idle() && receiver_sink.payloads.size() == 1; }));
          (void)sender->Send(Outbound(std::make_shared<std::vector<std::byte>>(Pattern(40, 5))));
        }
        ASSERT_TRUE(RunUntil([&] { return sinks[0].closed.size() == 1 && sinks[1].closed.size() == 1; }));
        ASSERT_TRUE(RunUntil([&] { return alive.expired(); }));
        EXPECT_EQ(receiver_sink.payloads.size(), at == whole ? 1U : 0U);
        End(lanes);
        EXPECT_EQ(sinks[0].closed.size() + sinks[1].closed.size(), 2U);
      }
    }
  }
}

TEST_P(LaneFaultsTest, FlippedByteClosesTheLane) {
  for (std::size_t at = 0; at < kSegmentHeaderBytes + 40; ++at) {
    SCOPED_TRACE(at);
    MemoryPair pair({.a_to_b = {.flip_at = at}});
    std::array<RecordingLaneSink, 2> sinks;
    const std::array lanes = {Begin(std::move(pair.a), sinks[0]), Begin(std::move(pair.b), sinks[1])};
    (void)lanes[0]->Send(Outbound(std::make_shared<std::vector<std::byte>>(Pattern(40, 5))));
    ASSERT_TRUE(RunUntil([&] { return sinks[1].closed.size() == 1; }));
    End(lanes);
  }
}

}  // namespace
}  // namespace ringway::net
