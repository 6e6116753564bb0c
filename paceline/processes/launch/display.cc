#include "paceline/processes/launch/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "paceline/base/printable.h"
#include "paceline/processes/launch/print.h"

namespace paceline::launch {

namespace {
// A log file gets a line now and then, not five a second.
constexpr std::chrono::seconds kLogEvery{10};
constexpr std::chrono::seconds kJsonEvery{1};
constexpr int kNoTerminal = 0;

// The columns of the terminal on standard error. A terminal without a size is one that nobody looks at, like that of a
// container in the background: its output goes to a log.
int columns_of_terminal() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : kNoTerminal;
}

bool can_change_a_line() {
  const char* const kind = std::getenv("TERM");
  const bool any = kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
  return any && isatty(STDERR_FILENO) == 1 && columns_of_terminal() > 0;
}

}  // namespace

Display::Display(std::string label, Shown shown)
    : label_(std::move(label)),
      what_(shown),
      terminal_(shown == Shown::kLine && can_change_a_line()),
      marks_(std::getenv(kMarksProgress) != nullptr) {}

Display::~Display() { clear(); }

int Display::width() const {
  if (!terminal_) return kNoTerminal;
  // The label comes before the line, and the last column stays free: some terminals wrap when it is written.
  return std::max(20, columns_of_terminal() - static_cast<int>(label_.size()) - 3);
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
    const auto room = static_cast<std::size_t>(std::max(1, columns_of_terminal() - 1));
    std::string shown = fitting(fmt::format("{}  {}", label_, line), room);
    if (shown == shown_) return;
    print(stderr, "\r\033[K" + shown);
    shown_ = std::move(shown);
  } else if (line != last_line_ && (!last_ || now - *last_ >= kLogEvery || at_once)) {
    last_ = now;
    last_line_ = line;
    last_phase_ = status.phase();
    print(stderr, fmt::format("{}{}  {}\n", marks_ ? "\r" : "", label_, line));
  }
}

void Display::note(const std::string& line) {
  clear();
  print(stderr, fmt::format("{}  {}\n", label_, line));
}

void Display::clear() {
  if (!std::exchange(shown_, "").empty()) print(stderr, "\r\033[K");
}

}  // namespace paceline::launch
