#include "master/shell/etcd_store.h"

#include <variant>

namespace ringway {
namespace {

constexpr std::string_view kScheme = "etcd://";
constexpr Duration kTick = std::chrono::milliseconds(50);

bool IsAboutALease(const kv::Request& request) {
  return std::holds_alternative<kv::Renew>(request.what) || std::holds_alternative<kv::Revoke>(request.what);
}

}  // namespace

Result<EtcdOptions> ParseEtcd(const std::string& text) {
  EtcdOptions options;
  if (!text.starts_with(kScheme)) return Status(Code::kInvalidArgument, text + " is not etcd://HOST:PORT");
  std::string rest = text.substr(kScheme.size());
  if (const std::size_t slash = rest.find('/'); slash != std::string::npos) {
    const std::string prefix = rest.substr(slash);
    if (prefix.size() > 1) options.prefix = prefix.ends_with('/') ? prefix : prefix + "/";
    rest.resize(slash);
  }
  Result<std::vector<Endpoint>> endpoints = ParseEndpointsToDial(rest);
  if (!endpoints.ok()) return endpoints.status();
  options.endpoints = std::move(endpoints).value();
  return options;
}

EtcdStore::EtcdStore(asio::io_context& io, const EtcdOptions& etcd, const ElectionOptions& election)
    : etcd_(etcd),
      election_(election),
      timer_(io),
      data_(io, etcd, election.answer_within(), [this](const kv::Reply& reply) { OnReply(reply); }),
      lease_(io, etcd, election.answer_within(), [this](const kv::Reply& reply) { OnReply(reply); }) {}

EtcdStore::~EtcdStore() {
  election_.Resign();
  Send();
}

std::string EtcdStore::Place() const {
  std::string out(kScheme);
  for (const Endpoint& endpoint : etcd_.endpoints) {
    out += (&endpoint == &etcd_.endpoints.front() ? "" : ",") + ToString(endpoint);
  }
  return out + etcd_.prefix;
}

Status EtcdStore::Check() {
  if (election_.status().ok()) {
    failure_ = Status::Ok();
  } else if (failure_.ok()) {
    failure_ = election_.status();
  }
  return failure_;
}

void EtcdStore::Start(StoreSink* sink) {
  sink_ = sink;
  Tick();
}

void EtcdStore::Tick() {
  timer_.After(kTick, [this] { Tick(); });
  election_.Tick(MonotonicNow());
  data_.Tick();
  lease_.Tick();
  Send();
  Report();
}

void EtcdStore::OnReply(const kv::Reply& reply) {
  election_.OnReply(reply, MonotonicNow());
  Send();
  Report();
}

std::optional<Status> EtcdStore::Write(const std::vector<record::Group>& groups) {
  election_.Write(groups, MonotonicNow());
  Send();
  return std::nullopt;
}

void EtcdStore::Send() {
  for (kv::Request& request : election_.TakeRequests()) {
    EtcdLane& lane = IsAboutALease(request) ? lease_ : data_;
    lane.Ask(std::move(request));
  }
}

void EtcdStore::Report() {
  for (Election::Event& event : election_.TakeEvents()) {
    if (auto* lead = std::get_if<Election::Lead>(&event)) sink_->OnLead(std::move(lead->tenure));
    if (const auto* standby = std::get_if<Election::Standby>(&event)) sink_->OnStandby(standby->leader, standby->why);
    if (const auto* written = std::get_if<Election::Written>(&event)) {
      const Status known = Check();  // says the same as long as it fails
      sink_->OnWritten(written->status.ok() || known.ok() ? written->status : known);
    }
  }
}

}  // namespace ringway
