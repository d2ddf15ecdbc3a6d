// Outcomes of a group's open operations after its members have frozen. Pure.
//
// Commit if and only if a member of the new view holds the outcome, or each of them has its own part of it; else an
// agreed failure if a member asked for one, the group wants errors or the new view is too small; else no verdict, which
// means a retry in the new view.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway {

// Failures instead of a retry; OK: retry.
struct VerdictOptions {
  Status peer_lost;  // of all open operations
  Status too_small;  // of those that are not an UpdateView at some member; an UpdateView waits for peers
};

// `reports`: of the members of the new view, by peer. In order of (channel, seq).
std::vector<control::Verdict> DecideVerdicts(const std::map<PeerId, control::Report>& reports,
                                             const VerdictOptions& options);

// Sets next_seq of the view that follows `base`: newcomers start where the UpdateView that adopted them left the
// channels, the one with the newest prepared view. `reports`: as for DecideVerdicts.
void SetNextSequences(const std::map<PeerId, control::Report>& reports, const control::View& base, control::View* next);

// Returns at most the first 512 bytes of a foreign text, cut at a UTF-8 boundary.
std::string ClipText(const std::string& text);

}  // namespace ringway
