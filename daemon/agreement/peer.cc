#include "daemon/agreement/peer.h"

#include "daemon/agreement/peer_impl.h"

namespace ringway::agreement {

Peer::Peer(PeerId self, std::string group, PeerOptions options)
    : impl_(std::make_unique<Impl>(self, std::move(group), std::move(options))) {}
Peer::~Peer() = default;
Peer::Peer(Peer&&) noexcept = default;

void Peer::OnCandidates(const control::Candidates& candidates, TimePoint now) { impl_->OnCandidates(candidates, now); }
void Peer::OnForget(const control::Forget& forget, TimePoint) { impl_->OnForget(forget); }
void Peer::OnPending(const control::Pending& pending) {
  impl_->Emit(StillPending{CodeFromWire(pending.code()), pending.text()});
}
void Peer::OnView(const control::ViewFor& view, TimePoint now) { impl_->OnView(view, now); }
void Peer::OnAbort(Epoch epoch, TimePoint now) { impl_->OnAbort(epoch, now); }
void Peer::OnTakeBack(Epoch first) { impl_->OnTakeBack(first); }
void Peer::OnEvicted(Code code, const std::string& text) { impl_->OnEvicted(code, text); }
Status Peer::OnPeerMessage(PeerId from, const control::PeerMessage& message, TimePoint now) {
  return impl_->OnPeerMessage(from, message, now);
}
void Peer::OnMasterBack(TimePoint) { impl_->OnMasterBack(); }
Status Peer::Admit(const LinkId& link, std::uint32_t lanes) const { return impl_->Admit(link, lanes); }
void Peer::OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now) { impl_->OnLinkUp(link, terms, now); }
void Peer::OnLinkDown(const LinkId& link, const std::string& why, TimePoint now) { impl_->OnLinkDown(link, why, now); }
void Peer::OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now) {
  impl_->OnDialFailed(other, control, why, now);
}
Status Peer::Submit(Submission submission, TimePoint now) { return impl_->Submit(std::move(submission), now); }
void Peer::OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) { impl_->OnStaged(token, input_bytes_ready); }
void Peer::Cancel(std::uint64_t token, TimePoint now) { impl_->Cancel(token, now); }
void Peer::Leave(TimePoint deadline, TimePoint now) { impl_->Leave(deadline, now); }
void Peer::Abandon(TimePoint now) { impl_->Leave(now, now); }
bool Peer::HasWork() const { return impl_->HasWork(); }
void Peer::Work() { impl_->Work(); }
void Peer::Tick(TimePoint now) { impl_->Tick(now); }
void Peer::WantLanes(PeerId other, std::uint32_t lanes, TimePoint now) { impl_->WantLanes(other, lanes, now); }
void Peer::OnPathSamples(std::span<const flow::PathSample> samples, TimePoint now) {
  impl_->OnPathSamples(samples, now);
}
Result<Inbound> Peer::OnHeader(const LinkId& lane, const SegmentHeader& header) {
  return impl_->OnHeader(lane, header);
}
Status Peer::OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) {
  return impl_->OnPayload(lane, payload, hash);
}
bool Peer::IsLive(std::uint64_t attempt) const { return impl_->IsLive(attempt); }
bool Peer::NextSegment(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch,
                       Outbound& out) {
  return impl_->NextSegment(lane, payload_bytes_max, scratch, out);
}
std::vector<PeerId> Peer::PeersWithWork() const { return impl_->PeersWithWork(); }
bool Peer::EmptyFrame(const LinkId& lane, Outbound& out) { return impl_->EmptyFrame(lane, out); }

bool Peer::NeedsScratch() const { return impl_->NeedsScratch(); }
std::vector<Action> Peer::TakeActions() { return impl_->TakeActions(); }
PeerStatus Peer::GetStatus() const { return impl_->GetStatus(); }
const View& Peer::view() const { return impl_->view(); }
const PeerCounts& Peer::counts() const { return impl_->counts(); }
std::uint64_t Peer::NextSequence(ChannelId channel) const { return impl_->NextSequence(channel); }

}  // namespace ringway::agreement
