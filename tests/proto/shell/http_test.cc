#include "proto/shell/http.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "proto/shell/http_connection.h"
#include "proto/shell/http_question.h"
#include "tests/proto/stream/net_fixture.h"
#include "tests/proto/stream/simulated_clock.h"

namespace ringway::shell {
namespace {

constexpr char kStatus[] = R"({"daemon": {"name": "a", "master": "m:1", "master_connected": true}, "groups": []})";

// The answers to the server's questions, which the test gives when it wants.
class Program {
 public:
  std::function<void(HttpQuestions::Answer)> Asked() {
    return [this](HttpQuestions::Answer answer) {
      const std::scoped_lock lock(mutex_);
      questions_.push_back(std::move(answer));
      changed_.notify_all();
    };
  }
  HttpQuestions::Answer Take() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [this] { return !questions_.empty(); }));
    HttpQuestions::Answer first = std::move(questions_.front());
    questions_.erase(questions_.begin());
    return first;
  }
  std::size_t open() {
    const std::scoped_lock lock(mutex_);
    return questions_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HttpQuestions::Answer> questions_;
};

constexpr HttpLimits kImpatient{.request_time = std::chrono::hours(1), .patience = std::chrono::milliseconds(50)};

std::string Request(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n"; }

class HttpServerTest : public net::NetTest {
 protected:
  static void AnswerHealth(const HttpQuestions::Answer& answer) { answer(std::string("ok"), {}); }
  static void AnswerStatus(const HttpQuestions::Answer& answer) { answer(std::string(kStatus), {}); }

  void Start(HttpQuestions questions = {.health = AnswerHealth, .status = AnswerStatus},
             const HttpLimits& limits = {.request_time = std::chrono::hours(1), .patience = std::chrono::hours(1)}) {
    server_.emplace(std::move(questions), limits);
    const auto started = server_->Start("127.0.0.1:0");
    ASSERT_TRUE(started.ok()) << started.status().text();
    address_ = started.value();
  }
  net::UniqueFd Send(const std::string& bytes) const {
    net::UniqueFd client = ConnectTo(address_);
    WriteAll(client.get(), bytes);
    return client;
  }
  // All that comes until the server closes the connection.
  std::string AnswerOn(const net::UniqueFd& client) const {
    std::string out;
    std::array<char, 4096> buffer{};
    for (;;) {
      const ssize_t got = ::recv(client.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0) return out;
      out.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
  std::string Get(const std::string& path) const { return AnswerOn(Send(Request(path))); }

  static bool IsOk(const std::string& answer) { return answer.starts_with("HTTP/1.1 200 OK\r\n"); }
  static bool IsUnavailable(const std::string& answer) { return answer.starts_with("HTTP/1.1 503 "); }

  std::optional<HttpServer> server_;
  std::string address_;
};

TEST_F(HttpServerTest, PathsSayWhatTheyAreFor) {
  Start();
  EXPECT_TRUE(IsOk(Get("/healthz")));
  EXPECT_TRUE(IsOk(Get("/readyz")));
  const std::string metrics = Get("/metrics");
  EXPECT_TRUE(IsOk(metrics)) << metrics;
  EXPECT_NE(metrics.find("\nringway_master_connected 1"), std::string::npos) << metrics;
  EXPECT_TRUE(Get("/").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(AnswerOn(Send("POST /metrics HTTP/1.1\r\n\r\n")).starts_with("HTTP/1.1 405 "));
  const std::string head = AnswerOn(Send("HEAD /healthz HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(IsOk(head) && head.ends_with("\r\n\r\n")) << head;
}

TEST_F(HttpServerTest, FilesOfTheProgramAreServedAsTheyAreAndMayUseNothingElse) {
  static constexpr char kBody[] = "<p>hello";
  server_.emplace(HttpQuestions{.health = AnswerHealth,
                                .status = AnswerStatus,
                                .live = [](const HttpQuestions::Answer& answer) { answer(std::string("{}"), {}); }},
                  HttpLimits{}, HttpPages{{"/", "text/html; charset=utf-8", kBody}});
  address_ = server_->Start("127.0.0.1:0").value();
  const std::string page = Get("/");
  EXPECT_TRUE(IsOk(page) && page.ends_with("\r\n\r\n<p>hello")) << page;
  EXPECT_NE(page.find("\r\nContent-Type: text/html; charset=utf-8\r\n"), std::string::npos) << page;
  EXPECT_NE(page.find("\r\nContent-Security-Policy: default-src 'none'; script-src 'self';"), std::string::npos);
  const std::string live = Get("/live.json");
  EXPECT_TRUE(IsOk(live) && live.ends_with("\r\n\r\n{}")) << live;
  EXPECT_NE(live.find("\r\nContent-Type: application/json\r\n"), std::string::npos) << live;
  EXPECT_NE(Get("/none").find("readyz are served here, and /"), std::string::npos);
  EXPECT_TRUE(AnswerOn(Send("POST / HTTP/1.1\r\n\r\n")).starts_with("HTTP/1.1 405 "));
}

TEST_F(HttpServerTest, SlowClientsKeepNobodyWaiting) {
  Start();
  std::vector<net::UniqueFd> slow;
  for (std::size_t i = 0; i < 3 * HttpServer::kConnectionsMax; ++i) slow.push_back(Send("GET /metrics HTTP/1.1\r\n"));
  EXPECT_TRUE(IsOk(Get("/healthz")));
  EXPECT_TRUE(IsOk(Get("/metrics")));
}

TEST_F(HttpServerTest, ClientsThatWaitForAStatusKeepNobodyFromHealth) {
  Program program;
  Start({.health = AnswerHealth, .status = program.Asked()});
  std::vector<net::UniqueFd> waiting;
  for (std::size_t i = 0; i < 2 * HttpServer::kConnectionsMax; ++i) waiting.push_back(Send(Request("/metrics")));
  const HttpQuestions::Answer open = program.Take();
  EXPECT_TRUE(IsOk(Get("/healthz")));
}

TEST_F(HttpServerTest, WhoAsksWhileAQuestionIsOpenSharesItsAnswer) {
  Program program;
  Start({.health = AnswerHealth, .status = program.Asked()}, kImpatient);
  const net::UniqueFd first = Send(Request("/metrics"));
  const HttpQuestions::Answer open = program.Take();
  const net::UniqueFd second = Send(Request("/readyz"));
  EXPECT_TRUE(IsUnavailable(AnswerOn(first))) << "its time is over";
  EXPECT_TRUE(IsUnavailable(AnswerOn(second)));
  EXPECT_EQ(program.open(), 0U) << "the first question is open";
  open(std::string(kStatus), {});
  EXPECT_TRUE(RunUntil([&] {
    const net::UniqueFd next = Send(Request("/readyz"));
    program.Take()(std::string(kStatus), {});
    return IsOk(AnswerOn(next));
  }));
}

TEST_F(HttpServerTest, WhoAsksSoonAfterACostlyAnswerGetsItAgain) {
  std::atomic<int> asked = 0;
  Start({.health = AnswerHealth, .status = [&](const HttpQuestions::Answer& answer) {
           ++asked;
           answer(std::string(kStatus), std::chrono::hours(1));
         }});
  for (const char* path : {"/metrics", "/readyz", "/metrics"}) EXPECT_TRUE(IsOk(Get(path)));
  EXPECT_EQ(asked, 1);
  server_.reset();
}

TEST(HttpQuestionTest, IsAskedAgainAfterNineTimesTheTimeOfItsAnswer) {
  const auto loop = std::make_shared<asio::io_context>(1);
  auto& clock = net::SimulatedClock::Make(*loop);
  int asked = 0;
  std::map<HttpConnectionId, std::string> answers;
  const auto question = std::make_shared<HttpQuestion>(
      loop, std::chrono::hours(1),
      [&](const HttpQuestion::Answer& answer) { answer(std::to_string(++asked), std::chrono::milliseconds(2)); },
      [&](const auto& to, const Result<std::string>& answer) {
        for (const HttpConnectionId id : to) answers[id] = answer.value();
      });
  const auto ask = [&](HttpConnectionId id) {
    question->Wait(id);
    loop->restart();
    loop->poll();
    return answers[id];
  };
  EXPECT_EQ(ask(1), "1");
  const TimePoint end = clock.Now() + std::chrono::milliseconds(18);
  EXPECT_EQ(ask(2), "1");
  (void)clock.Step(end - Duration(1));
  EXPECT_EQ(ask(3), "1");
  (void)clock.Step(end);
  EXPECT_EQ(ask(4), "2");
}

TEST_F(HttpServerTest, LostQuestionIsAskedAgain) {
  Program program;
  Start({.health = program.Asked(), .status = AnswerStatus}, kImpatient);
  const net::UniqueFd first = Send(Request("/healthz"));
  program.Take() = nullptr;
  EXPECT_TRUE(IsUnavailable(AnswerOn(first)));
  EXPECT_TRUE(RunUntil([&] {
    const net::UniqueFd next = Send(Request("/healthz"));
    program.Take()(std::string("ok"), {});
    return IsOk(AnswerOn(next));
  }));
}

TEST_F(HttpServerTest, RequestHasItsTimeAndItsBytes) {
  Start({.health = AnswerHealth, .status = AnswerStatus}, {.request_time = std::chrono::milliseconds(50)});
  EXPECT_EQ(AnswerOn(Send("GET /healthz")), "");
  server_.reset();
  Start();
  EXPECT_EQ(AnswerOn(Send("GET /healthz HTTP/1.1\r\na: " + std::string(HttpConnection::kRequestBytesMax, 'b'))), "");
}

TEST_F(HttpServerTest, AnswerAfterTheServersEndGoesNowhere) {
  Program program;
  Start({.health = program.Asked(), .status = AnswerStatus});
  const net::UniqueFd client = Send(Request("/healthz"));
  const HttpQuestions::Answer answer = program.Take();
  server_.reset();
  answer(std::string("ok"), {});
  EXPECT_EQ(AnswerOn(client), "");
}

TEST_F(HttpServerTest, AddressThatCannotBeListenedOnIsNamed) {
  Start();
  HttpServer second({.health = AnswerHealth, .status = AnswerStatus});
  const auto started = second.Start(address_);
  EXPECT_EQ(started.status().code(), Code::kIo);
  EXPECT_NE(started.status().text().find("--http: cannot listen on " + address_), std::string::npos)
      << started.status().text();
  EXPECT_EQ(second.Start("nonsense").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringway::shell
