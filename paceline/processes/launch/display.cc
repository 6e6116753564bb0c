#include "paceline/processes/launch/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "paceline/processes/launch/print.h"

namespace paceline::launch {

namespace {
// A log file gets a line now and then, not five a second.
constexpr std::chrono::seconds kLogEvery{10};
constexpr std::chrono::seconds kJsonEvery{1};
constexpr int kUsualWidth = 100;
constexpr int kNoTerminal = 0;
}  // namespace

Display::Display(std::string label, Shown shown)
    : label_(std::move(label)),
      what_(shown),
      terminal_(shown == Shown::kLine && isatty(STDERR_FILENO) == 1) {}

Display::~Display() { clear(); }

int Display::width() const {
  if (!terminal_) return kNoTerminal;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // The label comes before the line, and the last column stays free: some terminals wrap when it is written.
  return std::max(20, (known ? size.ws_col : kUsualWidth) - static_cast<int>(label_.size()) - 3);
}

void Display::show(const wire::StatusReply& status) {
  if (what_ == Shown::kNothing) return;
  const auto now = std::chrono::steady_clock::now();
  const bool starting = status.line().empty();
  if (what_ == Shown::kJson) {
    if (starting || (last_ && now - *last_ < kJsonEvery) || status.json() == last_json_) return;
    last_ = now;
    last_json_ = status.json();
    print(stdout, status.json() + "\n");
    return;
  }
  const bool waits = !status.waits_for().empty();
  const std::string line = waits      ? "trained; waiting for " + status.waits_for()
                           : starting ? status.phase()
                                      : status.line();
  const bool at_once = (starting || waits) && status.phase() != last_phase_;
  if (terminal_) {
    print(stderr, fmt::format("\r\033[K{}  {}", label_, line));
    shown_ = true;
  } else if (line != last_line_ && (!last_ || now - *last_ >= kLogEvery || at_once)) {
    last_ = now;
    last_line_ = line;
    last_phase_ = status.phase();
    print(stderr, fmt::format("{}  {}\n", label_, line));
  }
}

void Display::note(const std::string& line) {
  clear();
  print(stderr, fmt::format("{}  {}\n", label_, line));
}

void Display::clear() {
  if (std::exchange(shown_, false)) print(stderr, "\r\033[K");
}

}  // namespace paceline::launch
