// A trainer as the README shows it, built against the installed library. Nothing listens here, and it must say so.
#include <cstdio>
#include <ringway/ringway.hpp>

int main() {
  auto session = ringway::Session::Join({.socket_path = "/nonexistent/ringwayd.sock", .group = "job", .wait_world = 1});
  if (!session.ok()) {
    std::puts(session.status().text().c_str());
    return session.status().code() == ringway::Code::kDaemonUnreachable ? 0 : 1;
  }
  float gradients[4] = {1, 2, 3, 4};
  return (*session)->AllReduce(gradients, gradients, 4, ringway::DType::kF32, ringway::ReduceOp::kAvg).ok() ? 0 : 1;
}
