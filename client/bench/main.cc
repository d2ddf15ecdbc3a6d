// ringway-bench: joins a group, waits until the world is complete, measures a collective, prints a table on rank 0.
//
// Exit status: 0 success, 1 a result was wrong (--check), 2 it could not run; then one line says why.
#include <algorithm>
#include <cstdio>
#include <string>

#include "client/bench/groups.h"
#include "client/bench/options.h"
#include "client/bench/process_usage.h"
#include "client/bench/report.h"
#include "client/bench/runner.h"

namespace ringway::bench {
namespace {

// Advice for errors whose text has none.
const char* AdviceFor(Code code) {
  switch (code) {
    case Code::kTimeout:
      return "see that all ranks run with the same options, or raise --timeout";
    case Code::kMismatch:
      return "run all ranks with the same options";
    case Code::kPeerLost:
    case Code::kWorldTooSmall:
      return "see the logs of the other daemons, then start the bench again";
    default:
      return "see the log of ringwayd";
  }
}

int Fail(const std::string& what, const Status& error) {
  std::string text = error.text();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.find(';') == std::string::npos) text += std::string("; ") + AdviceFor(error.code());
  std::fprintf(stderr, "ringway-bench: %s: %s (%s)\n", what.c_str(), text.c_str(), NameOf(error.code()));
  return 2;
}

// Ranks may share the file: rank 0 writes last, so that its times remain.
Status WriteJson(const Sink& sink, const Session& session, const std::vector<SizeResult>& results, Runner* runner) {
  std::string problem;
  const bool last = session.rank() == 0;
  const std::string text = ToJson(results, session.rank());
  if (!last && sink) problem = sink(text);
  const Status error = runner->Barrier();
  if (last && sink) problem = sink(text);
  return problem.empty() ? error : Status(Code::kIo, problem + "; give --json a path that can be written");
}

// `sink` may be null.
int Run(const Options& options, const Sink& sink) {
  JoinOptions join;
  join.socket_path = options.socket_path;
  join.group = options.group;
  join.wait_world = options.world;
  join.timeout = options.timeout;
  join.reconnect = Milliseconds(0);  // a rank that rejoins would be out of step with the others' iterations
  auto session = Session::Join(join);
  if (!session.ok()) return Fail("joining group " + options.group, session.status());
  Runner runner(options, session->get(), PidOfListener(options.socket_path));
  if ((*session)->rank() == 0) {
    std::printf("# ringway-bench %s, group %s, world %u, codec %s, %u in flight, %u iterations\n%s",
                NameOf(options.collective), options.group.c_str(), (*session)->world_size(),
                NameOf(options.reduction.codec), options.in_flight, options.iterations, TableHeader().c_str());
  }
  std::uint64_t wrong = 0;
  auto results = runner.Run([&](const SizeResult& result) {
    wrong += result.wrong;
    if ((*session)->rank() == 0) std::printf("%s", TableRow(result).c_str());
    std::fflush(stdout);
  });
  if (!results.ok()) return Fail(NameOf(options.collective), results.status());
  if (Status error = WriteJson(sink, **session, results.value(), &runner); !error.ok()) return Fail("json", error);
  if (Status error = (*session)->Leave(); !error.ok()) return Fail("leaving", error);
  if (wrong == 0) return 0;
  std::fprintf(stderr, "ringway-bench: %llu elements are wrong; please report it with the logs of all daemons\n",
               static_cast<unsigned long long>(wrong));
  return 1;
}

}  // namespace
}  // namespace ringway::bench

int main(int argc, char** argv) {
  const auto parsed = ringway::bench::ParseOptions(argc, argv);
  if (parsed.exit_status) {
    std::fputs(parsed.message.c_str(), *parsed.exit_status == 0 ? stdout : stderr);
    return *parsed.exit_status;
  }
  const ringway::bench::Options& options = parsed.options;
  if (options.groups > 1) return RunGroups(options, ringway::bench::Run);
  if (options.json_path.empty()) return ringway::bench::Run(options, nullptr);
  return ringway::bench::Run(
      options, [&](const std::string& json) { return ringway::bench::WriteFile(options.json_path, json); });
}
