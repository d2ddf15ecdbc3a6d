// A trainer that sends any packets with any descriptors and writes anything into its page, while its peer goes about
// its business: the daemon touches only memory that the trainer really shares, every operation is handed over once, and
// the session ends once.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/local/trainer_session.h"
#include "tests/daemon/local/client_packets.h"
#include "tests/daemon/local/memfd.h"
#include "tests/fuzz/input.h"

namespace ringway::local {
namespace {

constexpr int kStepsMax = 200;
constexpr std::uint64_t kRegionBytesMax = 64 * 1024;

// Holds the operations until the fuzzer completes them.
class Port : public RequestSink {
 public:
  Status Submit(buffers::Submission submission) override {
    REQUIRE(!gone && submission.token < abi::kSlotCount && !open.contains(submission.token));
    const std::uint64_t bytes = submission.descriptor.count * SizeOf(submission.descriptor.dtype);
    REQUIRE(submission.buffers->input_ready() <= bytes);
    if (bytes > 0) Touch(submission, bytes);
    open.emplace(submission.token, std::move(submission));
    return Status::Ok();
  }
  void OnStaged(std::uint64_t token, std::uint64_t ready) override {
    REQUIRE(!gone && open.contains(token));
    buffers::Submission& submission = open.at(token);
    REQUIRE(ready <= submission.descriptor.count * SizeOf(submission.descriptor.dtype));
    REQUIRE(submission.buffers->Grow(ready) && submission.buffers->input_ready() == ready);
  }
  void Cancel(std::uint64_t token) override { REQUIRE(!gone && open.contains(token)); }
  void SetDeadline(std::uint64_t token, Duration) override { REQUIRE(!gone && open.contains(token)); }
  void OnStateTaken(PeerId) override { REQUIRE(!gone); }
  void Leave() override { REQUIRE(!gone); }
  void OnTrainerGone(bool) override { REQUIRE(!std::exchange(gone, true)); }

  static void Fill(const buffers::Submission& submission, std::uint64_t bytes, int value) {
    if (submission.buffers->output() != nullptr) std::memset(submission.buffers->output(), value, bytes);
  }

  std::map<std::uint64_t, buffers::Submission> open;
  bool gone = false;

 private:
  // Memory beyond the region would fault. Not every kind has both at every rank.
  static void Touch(const buffers::Submission& submission, std::uint64_t bytes) {
    REQUIRE(bytes <= kRegionBytesMax);
    const auto* const input = static_cast<const volatile std::byte*>(submission.buffers->input());
    REQUIRE(input != nullptr || submission.buffers->output() != nullptr);
    if (input != nullptr) {
      (void)input[0];
      (void)input[bytes - 1];
    }
    Fill(submission, bytes, 0x5A);
  }
};

class Host : public SessionSink {
 public:
  Status MayJoin(const TrainerSession&, const std::optional<std::string>&) override { return Status::Ok(); }
  void OnJoin(const std::shared_ptr<TrainerSession>&, const JoinOrder& order) override {
    REQUIRE(!order.group.empty() && order.wait_world <= abi::kWorldSizeMax);
    joining = true;
  }
  void OnSessionOver(const std::shared_ptr<TrainerSession>&) override { ++over; }
  std::string StatusJson() override { return std::string(3000, ' '); }
  std::string FlightImage(const std::string& group, std::uint32_t last) override {
    REQUIRE(!group.empty());
    return std::string(last % 5000, ' ');
  }
  std::uint64_t Instance() const override { return 17; }
  bool joining = false;
  int over = 0;
};

class World {
 public:
  explicit World(fuzz::Input input) : input_(input) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    client_.Reset(ends[1]);
    session_ = std::make_shared<TrainerSession>(context_, &host_, SessionLimits{.region_bytes_max = kRegionBytesMax});
    REQUIRE(session_->Start(net::UniqueFd(ends[0])).ok());
    page_fd_ = MakeMemfd(sizeof(abi::SessionPage));
    page_ = static_cast<abi::SessionPage*>(
        ::mmap(nullptr, sizeof(abi::SessionPage), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd_.get(), 0));
    REQUIRE(page_ != MAP_FAILED);
  }
  ~World() { ::munmap(page_, sizeof(abi::SessionPage)); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void Run() {
    if (!input_.OneIn(4)) Greet();
    for (int step = 0; step < kStepsMax && !input_.empty() && session_->open(); ++step) {
      Step();
      Settle();
    }
    session_->Detach();
    session_->End(Code::kLeft, "");
    Settle();
    REQUIRE(!session_->open() && host_.over == 1);
  }

 private:
  void Settle() {
    context_.restart();
    context_.poll();
    REQUIRE(host_.over <= 1);
  }

  // Most inputs should get past the door.
  void Greet() {
    SendWith(BytesOf(HelloPacket()), {page_fd_.get()});
    SendWith(BytesOf(JoinPacket()), {});
    Settle();
    Answer();
  }

  void Step() {
    switch (input_.Below(12)) {
      case 0:
        return Send(input_.Take(input_.Below(256)));
      case 1:
        return WritePage();
      case 2:
        return CompleteOne();
      case 3:
        if (host_.joining) Answer();
        return;
      case 4:
        char reply[2048];
        while (::recv(client_.get(), reply, sizeof reply, MSG_DONTWAIT) > 0) continue;
        return;
      case 5:
        return session_->ReadPending();
      case 6:
        if (input_.OneIn(8)) client_.Reset();
        return;
      default:
        return SendTyped();
    }
  }

  void Answer() {
    host_.joining = false;
    if (input_.OneIn(8)) return session_->JoinRefused(Status(Code::kJoinRefused, "no"));
    session_->Attach(&port_);
    session_->Joined({.peer = PeerId(7), .epoch = Epoch(1), .rank = 0, .world_size = 1});
  }

  void CompleteOne() {
    if (port_.open.empty() || port_.gone) return;
    const auto one = port_.open.begin();
    const buffers::Submission& submission = one->second;
    const std::uint64_t bytes = submission.descriptor.count * SizeOf(submission.descriptor.dtype);
    Port::Fill(submission, bytes, 0x11);
    buffers::Complete complete;
    complete.token = one->first;
    complete.contributors = {PeerId(7)};
    port_.open.erase(one);
    session_->Complete(complete);
    session_->Flush();
  }

  void WritePage() {
    abi::Slot& slot = page_->slots[input_.Below(8)];
    slot.state = static_cast<abi::SlotState>(input_.Number<std::uint8_t>());
    slot.staged_bytes = input_.OneIn(2) ? input_.Number<std::uint64_t>() : input_.Below(256) * 16;
  }

  template <typename T>
  T Any(abi::PacketType type) {
    T packet{};
    const auto raw = input_.Take(input_.Below(sizeof(T) + 1));
    if (!raw.empty()) std::memcpy(&packet, raw.data(), raw.size());
    packet.header = {abi::kMagic, type};
    return packet;
  }
  template <typename T>
  void SendAny(abi::PacketType type) {
    SendStruct(Any<T>(type));
  }
  template <typename T>
  void SendStruct(const T& packet) {
    const std::size_t size = input_.OneIn(32) ? sizeof packet - 1 : sizeof packet;
    Send(BytesOf(packet).first(size));
  }

  void SendTyped() {
    switch (input_.Below(10)) {
      case 0:
        return SendAny<abi::Hello>(abi::PacketType::kHello);
      case 1:
        if (input_.OneIn(8)) return SendAny<abi::Trace>(abi::PacketType::kTrace);
        return SendAny<abi::Join>(abi::PacketType::kJoin);
      case 2:
        return SendAny<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
      case 3:
        return SendAny<abi::Leave>(input_.OneIn(2) ? abi::PacketType::kLeave : abi::PacketType::kStatus);
      case 4:
        if (input_.OneIn(2)) return SendAny<abi::Cancel>(abi::PacketType::kCancel);
        return SendAny<abi::SetDeadline>(abi::PacketType::kSetDeadline);
      case 5:
        return SendAny<abi::Progress>(abi::PacketType::kProgress);
      case 6:
      case 7: {
        const std::uint32_t id = input_.Below(4);
        const std::uint64_t bytes = input_.OneIn(16) ? input_.Number<std::uint64_t>() : (1 + input_.Below(20)) * 4096;
        fresh_ = MakeMemfd(bytes <= kRegionBytesMax * 2 ? bytes : 4096, input_.OneIn(16) ? 0 : kAllSeals);
        return SendWith(BytesOf(RegisterPacket(id, bytes)), {fresh_.get()});
      }
      default:
        return SendSubmit();
    }
  }

  void SendSubmit() {
    if (input_.OneIn(8)) return SendAny<abi::Submit>(abi::PacketType::kSubmit);
    auto submit = MakePacket<abi::Submit>(abi::PacketType::kSubmit);
    submit.slot = input_.Below(8);
    submit.spec.channel = input_.Below(64);
    submit.spec.dtype = static_cast<DType>(input_.Below(kDTypeCount));
    submit.spec.op = static_cast<ReduceOp>(input_.Below(kReduceOpCount));
    submit.staged = input_.Below(2);
    submit.spec.algorithm = static_cast<std::uint8_t>(input_.Below(kAlgorithmCount + 2));
    submit.input_region = input_.Below(4);
    submit.result_region = input_.Below(4);
    submit.input_offset_bytes = input_.Below(256) * 8;
    submit.result_offset_bytes = input_.Below(256) * 256;
    submit.spec.count = submit.result_count = input_.Below(256) * 64;
    if (input_.OneIn(2)) submit.spec.kind = static_cast<OpKind>(input_.Below(kOpKindCount));
    submit.spec.root = input_.Below(3);
    submit.spec.world_size = input_.Below(4);
    submit.spec.members = input_.Below(2);
    submit.input_count = submit.spec.count * (input_.OneIn(4) ? input_.Below(4) : 1);
    if (input_.OneIn(4)) submit.result_count *= input_.Below(4);
    if (IsMessage(submit.spec.kind) || input_.OneIn(32)) submit.spec.tag = input_.Below(3);
    submit.refusals_told = input_.OneIn(8) ? input_.Below(3) : refusals_.at(submit.spec.channel);
    if (HasCounts(submit.spec.kind)) {
      SendCounted(submit);
    } else {
      if (IsMessage(submit.spec.kind) && !input_.OneIn(4)) {
        submit.spec.members = submit.spec.world_size = 0;
        submit.input_count = submit.spec.kind == OpKind::kSend ? submit.spec.count : 0;
        submit.result_count = submit.spec.count - submit.input_count;
      }
      SendStruct(submit);
    }
    Settle();
    if (session_->open() && !port_.open.contains(submit.slot)) ++refusals_.at(submit.spec.channel);
  }

  // Sends it with counts that mostly fit.
  void SendCounted(abi::Submit submit) {
    std::vector<abi::RankCounts> counts(submit.spec.world_size);
    if (!counts.empty()) {
      submit.spec.rank = input_.Below(submit.spec.world_size);
      counts[input_.Below(submit.spec.world_size)].count = submit.spec.count;
      const bool pairs = submit.spec.kind == OpKind::kAllToAllV;
      for (abi::RankCounts& rank : counts) rank.send_count = pairs ? rank.count : 0;
      submit.input_count = submit.spec.kind == OpKind::kAllGatherV ? counts[submit.spec.rank].count : submit.spec.count;
      if (input_.OneIn(4)) counts[input_.Below(submit.spec.world_size)].send_begin = input_.Number<std::uint64_t>();
    }
    const std::size_t tail_bytes = counts.size() * sizeof(abi::RankCounts);
    std::vector<std::byte> packet(sizeof submit + tail_bytes);
    std::memcpy(packet.data(), &submit, sizeof submit);
    if (tail_bytes > 0) std::memcpy(packet.data() + sizeof submit, counts.data(), tail_bytes);
    if (input_.OneIn(16)) packet.resize(packet.size() - 1);
    Send(packet);
  }

  void Send(std::span<const std::byte> bytes) {
    std::vector<int> fds;
    if (input_.OneIn(8)) fds.assign(1 + input_.Below(6), input_.OneIn(2) ? page_fd_.get() : client_.get());
    SendWith(bytes, fds);
  }

  // Whatever the socket says to it.
  void SendWith(std::span<const std::byte> bytes, const std::vector<int>& fds) {
    if (client_.valid()) (void)SendRaw(client_.get(), bytes, fds, MSG_DONTWAIT);
  }

  fuzz::Input input_;
  asio::io_context context_;
  Host host_;
  Port port_;
  std::shared_ptr<TrainerSession> session_;
  net::UniqueFd client_, page_fd_, fresh_;
  abi::SessionPage* page_ = nullptr;
  std::array<std::uint64_t, abi::kChannelCountMax> refusals_{};
};

}  // namespace
}  // namespace ringway::local

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ringway::local::World(ringway::fuzz::Input(data, size)).Run();
  return 0;
}
