#include "tests/e2e/relay.h"

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/relay_connection.h"

namespace ringway::e2e {

using asio::ip::tcp;

// All of it belongs to the thread; `Do` is the way in.
class Relay::Core {
 public:
  Core() : acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { context_.run(); });
  }

  // Runs `work` in the thread and returns its value.
  template <typename Work>
  auto Do(Work work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    asio::post(context_, [&task] { task(); });
    return result.get();
  }

  ~Core() {
    Do([this] {
      acceptor_.close();
      for (const auto& connection : connections_) connection->Cut();
    });
    thread_.join();  // nothing is left to wait for
  }

  template <typename Change>
  void ChangeRules(Change change) {
    Do([&] {
      change(rules);
      for (const auto& connection : connections_) connection->Reconsider();
    });
  }

  std::size_t Cut(const Flow& flow) {
    return Do([&] {
      std::size_t cut = 0;
      for (const auto& connection : connections_) {
        if (!connection->Carries(flow)) continue;
        connection->Cut();
        ++cut;
      }
      return cut;
    });
  }

  std::size_t Known() {
    return Do([this] {
      ForgetClosed();
      return static_cast<std::size_t>(
          std::count_if(connections_.begin(), connections_.end(), [](const auto& one) { return one->known(); }));
    });
  }

  std::uint16_t port() const { return port_; }

  RelayRules rules;
  std::optional<tcp::endpoint> target;

 private:
  void Accept() {
    acceptor_.async_accept([this](auto error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      ForgetClosed();
      if (!error && target.has_value() && connections_.size() < kConnectionsMax) {
        connections_.push_back(std::make_shared<RelayConnection>(std::move(socket), &rules));
        connections_.back()->Start(*target);
      }
      Accept();
    });
  }

  void ForgetClosed() {
    std::erase_if(connections_, [](const auto& connection) { return connection->closed(); });
  }

  asio::io_context context_;
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::vector<std::shared_ptr<RelayConnection>> connections_;
  std::thread thread_;
};

Relay::Relay() : core_(std::make_unique<Core>()), address_("127.0.0.1:" + std::to_string(core_->port())) {}

Relay::~Relay() = default;

void Relay::Aim(const std::string& target) {
  const auto port = static_cast<std::uint16_t>(std::stoul(target.substr(target.rfind(':') + 1)));
  core_->Do([&] { core_->target = tcp::endpoint(asio::ip::address_v4::loopback(), port); });
}

std::size_t Relay::Cut(const Flow& flow) { return core_->Cut(flow); }

void Relay::Corrupt(const Flow& flow, std::size_t skip) {
  core_->ChangeRules([&](RelayRules& rules) { rules.corruption = {flow, skip}; });
}

void Relay::AddNoise(const Flow& flow, std::size_t one_of) {
  core_->ChangeRules([&](RelayRules& rules) { rules.noises.push_back({flow, one_of, one_of}); });
}

void Relay::Delay(const Flow& flow, std::chrono::milliseconds delay) {
  core_->ChangeRules([&](RelayRules& rules) { rules.slowed.push_back({flow, delay}); });
}

void Relay::BlackHole(const Flow& flow) {
  core_->ChangeRules([&](RelayRules& rules) { rules.black_holes.push_back(flow); });
}

void Relay::Restore() {
  core_->ChangeRules([](RelayRules& rules) {
    rules.slowed.clear();
    rules.black_holes.clear();
    rules.corruption.reset();
    rules.noises.clear();
  });
}

std::size_t Relay::Connections() { return core_->Known(); }

std::uint64_t Relay::CorruptedBytes() {
  return core_->Do([this] { return core_->rules.corrupted_bytes; });
}

}  // namespace ringway::e2e
