// How the open operations of a group end when its members have frozen. Pure.
//
// Commit if and only if a member of the new view holds the outcome, or each of them has its own part of it; else an
// agreed failure where a member asked for one, the group wants errors or the new view is too small; else no verdict,
// which means: retry in the new view.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway {

// What open operations end with instead of a retry; OK: with nothing.
struct VerdictOptions {
  Status peer_lost;  // all
  Status too_small;  // those that a member submitted as something else than an UpdateView, which waits for peers
};

// `reports`: of the members of the new view, by peer. In order of (channel, seq).
std::vector<control::Verdict> DecideVerdicts(const std::map<PeerId, control::Report>& reports,
                                             const VerdictOptions& options);

// At most 512 bytes of a text from outside, cut between characters of UTF-8.
std::string ClipText(const std::string& text);

}  // namespace ringway
