// `ringwayctl top`: a table of the peers, whoever hurts the others most first, again and again.
//
//   a terminal    one screen, redrawn in place; keys change the order, and what is shown (kTopKeys)
//   anything else the table as text, as many times as --count says
//
// The pictures are pure; RunTop reads keys and the clock.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

#include "client/ctl/watch/source.h"
#include "proto/result.h"

namespace ringway::ctl {

struct TopOrder {
  std::string group;  // empty: all
  int interval_ms = 1000;
  int count = 0;  // tables; 0: on a terminal without end, else one
};

const CLI::App* AddTop(CLI::App& app, TopOrder* order);

// What decides the order of the rows.
enum class TopSort : std::uint8_t { kHurts, kName, kTime, kSent };
inline constexpr const char* kTopSortNames[] = {"what hurts", "name", "operation time", "sent"};
inline constexpr std::size_t kTopSorts = 4;

struct TopView {
  TopSort sort = TopSort::kHurts;
  std::size_t rows_max = 1000;  // of the screen; 0: none
  std::size_t width = 1000;
  std::size_t first = 0;  // rows that are scrolled past
  bool help = false;
  bool paused = false;
  bool is_terminal = false;  // bold where it hurts, and a line that explains the keys
};

// kProtocol if the text is no status.
Result<std::string> TopPicture(const std::string& status_json, const std::string& group, const TopView& view);

// Ends at `q`, at the end of its input, by a signal, or after --count tables. On a terminal it puts back what it has
// changed. Errors: the first question's; later ones are shown, and it asks again.
Status RunTop(const StatusSource& source, const TopOrder& order);

}  // namespace ringway::ctl
