// Answers of an etcd that says anything: what is read goes on to an election, which leads only with a fence.
#include <array>
#include <deque>
#include <string>

#include "master/leadership/election.h"
#include "master/shell/etcd_json.h"
#include "tests/fuzz/input.h"

namespace ringway {
namespace {

constexpr char kPrefix[] = "/r/";
constexpr std::size_t kBodyMax = 512;

std::string Body(fuzz::Input& input) {
  const auto bytes = input.Take(1 + input.Number<std::uint16_t>() % kBodyMax);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Well-formed, so that an election gets anywhere.
kv::Reply ReplyTo(const kv::Request& request, fuzz::Input& input) {
  kv::Reply reply{.number = request.number, .succeeded = !input.OneIn(4), .revision = input.Below(16)};
  static constexpr std::array<const char*, 4> kKeys = {"leader", "state", "groups/g", "x"};
  static constexpr std::array<const char*, 4> kValues = {"a:1", "term 7", "term 4294967295", "\n\1g"};
  for (std::uint32_t count = input.Below(4); count > 0; --count) {
    reply.entries.push_back({kKeys[input.Below(4)], kValues[input.Below(4)], input.Below(16), input.Below(16)});
  }
  if (input.OneIn(8)) reply.status = Status(Code::kIo, "failed");
  return reply;
}

}  // namespace
}  // namespace ringway

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringway;
  fuzz::Input input(data, size);
  (void)EtcdTokenIn(Body(input));
  Election election({.address = "me:1", .seed = 1});
  TimePoint now{std::chrono::seconds(1)};
  std::deque<kv::Request> open;
  bool writes = false;
  while (!input.empty()) {
    now += std::chrono::milliseconds(input.Number<std::uint16_t>() % 1500);
    election.Tick(now);
    if (!open.empty()) {
      const kv::Request request = open.front();
      open.pop_front();
      const Result<kv::Reply> read = EtcdReplyOf(request, kPrefix, Body(input));
      election.OnReply(read.ok() ? read.value() : ReplyTo(request, input), now);
    }
    for (kv::Request& request : election.TakeRequests()) {
      REQUIRE(!EtcdCallOf(request, kPrefix).body.empty());
      open.push_back(std::move(request));
    }
    for (const Election::Event& event : election.TakeEvents()) {
      if (std::holds_alternative<Election::Written>(event)) writes = false;
      if (!std::holds_alternative<Election::Lead>(event)) continue;
      writes = false;
      REQUIRE(election.lease() != 0);
      REQUIRE(std::get<Election::Lead>(event).tenure.term > 0);
    }
    if (!election.leads()) writes = false;
    if (election.leads() && !writes) {
      writes = true;
      record::Group group;
      group.set_name("g");
      election.Write({group}, now);
    }
  }
  return 0;
}
