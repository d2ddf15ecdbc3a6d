// How the open operations of a group end when its members have frozen. Pure.
//
// Commit if and only if a member of the new view holds the outcome; else an agreed failure where a member asked for one
// or the group wants errors; else no verdict, which means: retry in the new view.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

struct VerdictOptions {
  bool peers_lost = false;  // somebody was dropped by accusation or silence, not by leaving
  bool fail_on_peer_loss = false;
  std::string lost_names = {};
};

// `reports`: of the members of the new view, by peer. In order of (channel, seq).
std::vector<control::Verdict> DecideVerdicts(const std::map<PeerId, control::Report>& reports,
                                             const VerdictOptions& options);

// At most 512 bytes of a text from outside, cut between characters of UTF-8.
std::string ClipText(const std::string& text);

}  // namespace ringway
