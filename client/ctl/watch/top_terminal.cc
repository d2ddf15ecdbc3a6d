// The terminal of `ringwayctl top` (top.h): raw keys, its size, and that it is left as it was.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string_view>
#include <thread>

#include "client/ctl/watch/top.h"

namespace ringway::ctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l";  // the other screen, no cursor
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";
constexpr const char* kHome = "\x1b[H";
constexpr const char* kEndOfLine = "\x1b[K\r\n";
constexpr const char* kRest = "\x1b[J";

volatile std::sig_atomic_t ended_by = 0;

// Puts the terminal back however it ends, signals included.
class Screen {
 public:
  Screen() {
    is_raw_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (is_raw_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      raw.c_cc[VMIN] = 0;
      raw.c_cc[VTIME] = 0;
      (void)::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    struct sigaction action {};
    action.sa_handler = [](int signal) { ended_by = signal; };
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) (void)::sigaction(signal, &action, nullptr);
    Write(kEnter);
  }
  ~Screen() {
    Write(kLeave);
    if (is_raw_) (void)::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static void Write(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  static void Draw(const std::string& picture) {
    std::string out = kHome;
    for (const char c : picture) c == '\n' ? out += kEndOfLine : out += c;
    Write(out + kRest);
  }
  static void Measure(TopView& view) {
    constexpr std::size_t kOtherLines = 4;  // header, columns, what is below, keys
    constexpr std::size_t kHelpLines = 4;
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
      size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    const std::size_t taken = kOtherLines + (view.help ? kHelpLines : 0);
    view.rows_max = size.ws_row > taken ? size.ws_row - taken : 0;
    view.width = size.ws_col;
  }

 private:
  termios before_{};
  bool is_raw_ = false;
};

enum class Pressed : std::uint8_t { kNothing, kKey, kEnd };

// Handles what is typed until `until`; stops at the first key that changes the picture, or at the end.
Pressed HandleKeys(TopView& view, Clock::time_point until) {
  while (ended_by == 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return Pressed::kNothing;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&input, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
    if (ready < 0 && errno == EINTR) return ended_by != 0 ? Pressed::kEnd : Pressed::kKey;  // its size changed
    if (ready <= 0) continue;
    char keys[16];
    const ssize_t got = ::read(STDIN_FILENO, keys, sizeof keys);
    if (got <= 0) return Pressed::kEnd;
    const std::string_view typed(keys, static_cast<std::size_t>(got));
    if (typed == "\x1b[A" || typed == "k") {
      view.first -= view.first > 0 ? 1 : 0;
    } else if (typed == "\x1b[B" || typed == "j") {
      ++view.first;
    } else if (typed.find('q') != std::string_view::npos) {
      return Pressed::kEnd;
    } else if (typed == "s") {
      view.sort = static_cast<TopSort>((static_cast<std::size_t>(view.sort) + 1) % kTopSorts);
    } else if (typed == "h" || typed == "?") {
      view.help = !view.help;
    } else if (typed == " ") {
      view.paused = !view.paused;
    } else {
      continue;
    }
    return Pressed::kKey;
  }
  return Pressed::kEnd;
}

control::StatusRequest RequestFor(const TopOrder& order) {
  control::StatusRequest request;
  request.set_group(order.group);
  return request;
}

Status RunPlain(const StatusSource& source, const TopOrder& order) {
  for (int i = 0; i < std::max(order.count, 1); ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(order.interval_ms));
    const Result<std::string> status = source.AskLeader(RequestFor(order));
    if (!status.ok()) return status.status();
    const Result<std::string> picture = TopPicture(status.value(), order.group, {});
    if (!picture.ok()) return picture.status();
    std::printf("%s%s", i > 0 ? "\n" : "", picture.value().c_str());
    std::fflush(stdout);
  }
  return Status::Ok();
}

}  // namespace

Status RunTop(const StatusSource& source, const TopOrder& order) {
  if (::isatty(STDOUT_FILENO) == 0 || ::isatty(STDIN_FILENO) == 0) return RunPlain(source, order);
  Result<std::string> status = source.AskLeader(RequestFor(order));
  if (!status.ok()) return status.status();
  std::string shown = status.value();
  std::string failure;
  TopView view{.is_terminal = true};
  const Screen screen;
  for (int tables = 1;; ++tables) {
    const auto until = Clock::now() + std::chrono::milliseconds(order.interval_ms);
    for (Pressed pressed = Pressed::kKey; pressed != Pressed::kNothing; pressed = HandleKeys(view, until)) {
      if (pressed == Pressed::kEnd) return Status::Ok();
      Screen::Measure(view);
      const Result<std::string> picture = TopPicture(shown, order.group, view);
      Screen::Draw((picture.ok() ? picture.value() : picture.status().text() + "\n") + failure);
    }
    if (order.count > 0 && tables >= order.count) return Status::Ok();
    if (view.paused) continue;
    status = source.AskLeader(RequestFor(order));
    failure = status.ok() ? "" : status.status().text();
    if (status.ok()) shown = status.value();
  }
}

}  // namespace ringway::ctl
