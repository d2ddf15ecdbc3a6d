#include "master/coordination/timeline.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "master/coordination/names.h"
#include "master/coordination/verdicts.h"

namespace ringway {
namespace {

using Names = std::vector<std::string>;

// The first few, and how many there are besides.
std::string Listed(const Names& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), Timeline::kNamesMax); ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() <= Timeline::kNamesMax) return out;
  return out + " and " + std::to_string(names.size() - Timeline::kNamesMax) + " more";
}

std::string Peers(std::size_t count) { return std::to_string(count) + (count == 1 ? " peer" : " peers"); }

}  // namespace

void Timeline::OnJoin(const control::PeerInfo& info, const control::JoinRequest& request, TimePoint now) {
  Add(now, {.kind = "join",
            .group = request.group(),
            .who = NameOfPeer(info),
            .text = "wants to join by daemon " + info.daemon() +
                    (request.wait_world() > 1 ? ", in a group of " + std::to_string(request.wait_world()) : "")});
}

void Timeline::OnMessage(const std::string& group, const control::FromMaster& message, TimePoint now) {
  if (message.has_view()) return OnView(message.view(), now);
  if (message.has_abort()) {
    Said& said = groups_[group];
    const Epoch epoch(message.abort().epoch());
    if (said.is_recovering()) return;
    said.recovery = std::max(epoch, said.installed);
    return Add(now, {.kind = "recovery", .group = group, .text = "view " + ToString(epoch) + " is aborted"});
  }
  if (!message.has_revoke_prepared()) return;
  Said& said = groups_[group];
  const Epoch epoch(message.revoke_prepared().epoch());
  if (epoch <= said.revoked) return;
  said.revoked = epoch;
  Add(now, {.kind = "revoked",
            .group = group,
            .text = "prepared view " + ToString(epoch) + " is taken back: a newcomer in it has gone"});
}

void Timeline::OnView(const control::ViewFor& message, TimePoint now) {
  const control::View& view = message.view();
  const Epoch epoch(view.epoch());
  Said& said = groups_[view.group()];
  if (epoch <= said.view) return;
  const bool is_first = said.members.empty();
  std::map<std::uint64_t, std::string> members;
  Names all, newcomers;
  for (const control::PeerInfo& info : view.members()) {
    members[info.peer_id()] = NameOfPeer(info);
    all.push_back(NameOfPeer(info));
    if (!said.members.contains(info.peer_id())) newcomers.push_back(NameOfPeer(info));
  }
  const std::string name = "view " + ToString(epoch);
  const auto world = static_cast<std::size_t>(view.members_size());
  said.view = epoch;
  said.members = std::move(members);
  if (!message.prepared()) {
    said.installed = epoch;
    said.worlds.clear();
    std::string text = name + (is_first ? " begins: " : " goes on: ") + Peers(world) + ", " + Listed(all);
    if (view.verdicts_size() > 0) text += "; verdicts on " + std::to_string(view.verdicts_size()) + " operations";
    return Add(now, {.kind = "view", .group = view.group(), .text = std::move(text)});
  }
  constexpr std::size_t kPreparedMax = 64;
  if (said.worlds.size() >= kPreparedMax) said.worlds.erase(said.worlds.begin());
  said.worlds[epoch] = world;
  Add(now, {.kind = newcomers.empty() ? "plan" : "prepared",
            .group = view.group(),
            .text = newcomers.empty() ? name + ", with a better plan, waits for UpdateView"
                                      : name + " with " + Listed(newcomers) + " waits for UpdateView"});
}

void Timeline::OnReport(const std::string& group, const std::string& who, const control::Report& report,
                        TimePoint now) {
  const Epoch epoch(report.epoch());
  Said& said = groups_[group];
  if (said.is_recovering() || epoch < said.installed || report.reason().empty()) return;
  said.recovery = epoch;
  Add(now, {.kind = "recovery",
            .group = group,
            .who = who,
            .text = "view " + ToString(epoch) + " is aborted: " + ClipText(report.reason())});
}

void Timeline::OnInstalled(const std::string& group, Epoch epoch, TimePoint now) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  Said& said = found->second;
  const auto world = said.worlds.find(epoch);
  if (epoch <= said.installed || world == said.worlds.end()) return;  // a view that nobody sent is a lie
  said.installed = epoch;
  Add(now,
      {.kind = "adopted", .group = group, .text = "view " + ToString(epoch) + " is in force: " + Peers(world->second)});
  said.worlds.erase(said.worlds.begin(), std::next(world));
}

void Timeline::OnPlanned(const std::string& group, const std::optional<ViewPlanner::SlowPeer>& slow, TimePoint now) {
  const std::string name = slow ? slow->name : "";
  const auto said = groups_.find(group);
  if (name == (said == groups_.end() ? "" : said->second.slow)) return;
  const std::string before = std::exchange(groups_[group].slow, name);
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  if (slow) text << "large operations take " << slow->ratio << " times as long as they would without this host's line";
  Add(now, {.kind = slow ? kSlowHost : kSlowHostOver,
            .group = group,
            .who = slow ? name : before,
            .text = slow ? text.str() : "large operations would not be twice as fast without it any more"});
}

void Timeline::OnDropped(const FormerPeer& former, TimePoint now) {
  Add(now, {.kind = former.code == Code::kLeft ? "left" : "dropped",
            .group = former.group,
            .who = former.name.empty() ? "peer " + ToString(former.peer) : former.name,
            .text = former.why});
}

}  // namespace ringway
