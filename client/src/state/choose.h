// Chooses the rank whose state all ranks take: the same choice on all, from the same offers.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ringway/shared_state.hpp>
#include <vector>

namespace ringway::internal {

struct Hash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Hash&) const = default;
};

// Only ranks of the highest standing among all send their state.
enum class Standing : std::uint8_t {
  kNew,
  kRejoined,  // has trained with the state, and rejoined
  kTrains,    // trains with the state, without interruption
};

// A rank's description of its state. Gathered as words of 64 bits.
struct Offer {
  std::uint64_t layout = 0;  // StateBytes::layout
  Hash content;
  std::uint64_t revision = 0;
  std::uint64_t strategy = 0;  // StateStrategy; with kReplays
  std::uint64_t standing = 0;  // Standing

  bool IsSameState(const Offer& other) const {
    return layout == other.layout && content == other.content && revision == other.revision;
  }
  // This rank may replay, or has a copy for those that do.
  static constexpr std::uint64_t kReplays = 1U << 8;
  bool replays() const { return (strategy & kReplays) != 0; }
  bool Is(StateStrategy which) const { return (strategy & ~kReplays) == static_cast<std::uint64_t>(which); }
};
inline constexpr std::size_t kOfferWords = sizeof(Offer) / sizeof(std::uint64_t);
static_assert(kOfferWords == 6);

inline constexpr std::uint64_t kRevisionMax = std::uint64_t{1} << 62;

bool HaveOneLayout(const std::vector<Offer>& offers);

// Returns whether the state of `rank` matches all others, or at least the one in use.
bool GoesTogether(const std::vector<Offer>& offers, std::size_t rank);

// Returns the lowest rank of the highest standing, with which the others are compared.
std::size_t ReferenceRank(const std::vector<Offer>& offers);

// Returns the lowest rank that has the state which all take. kMismatch as shared_state.hpp says; `rank`: this one.
// REQUIRES: GoesTogether(offers, rank).
Result<std::size_t> ChooseSource(const std::vector<Offer>& offers, std::size_t rank);

// Returns the first peer of those that replay: all ranks can, those that lack the state of `source` are all newer than
// those that train with it, and no rank from that peer on trains. 0: the state is exchanged at once. `peers`: by rank.
std::uint64_t ReplayFrom(const std::vector<Offer>& offers, std::size_t source, const std::vector<std::uint64_t>& peers);

}  // namespace ringway::internal
