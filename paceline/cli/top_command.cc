#include "paceline/cli/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/launch/say.h"
#include "paceline/launch/stop_signals.h"
#include "paceline/store/files.h"
#include "paceline/ui/run_follower.h"
#include "paceline/ui/runs_index.h"
#include "paceline/ui/top_screen.h"

namespace paceline::cli {

namespace {

constexpr int kRefresh_ms = 1000;
constexpr int kWidth = 80, kHeight = 24;  // where nobody says

absl::StatusOr<store::RunPaths> run_of(const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const std::filesystem::path folder, store::absolute_path(name));
  ui::RunsIndex runs({folder.lexically_normal()});
  runs.look();
  const std::string newest = runs.newest();
  if (newest.empty()) return absl::NotFoundError(fmt::format("{}: there is no run here; name a run's folder", name));
  return runs.find(newest)->paths();
}

struct Size {
  int width = kWidth, height = kHeight;
};

Size size_of_terminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20 || size.ws_row < 4) return {};
  return {size.ws_col, size.ws_row};
}

// The other screen of the terminal, without a cursor, and keys at once; all of it as it was at the end. These few
// sequences are the same in every terminal since the VT100 and xterm.
class FullScreen {
 public:
  FullScreen() {
    keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    launch::say(stdout, "\x1b[?1049h\x1b[?25l\x1b[2J");
  }
  ~FullScreen() {
    launch::say(stdout, "\x1b[?25h\x1b[?1049l");
    if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // Over what was there, so that nothing flickers.
  static void show(const std::vector<std::string>& lines) {
    std::string text = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i) text += lines[i] + (i + 1 < lines.size() ? "\x1b[K\r\n" : "\x1b[K");
    launch::say(stdout, text + "\x1b[J");
  }
  // Whether the user wants to leave. Waits for a key until it is time to look again.
  bool left() const {
    pollfd keyboard{keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&keyboard, 1, kRefresh_ms) <= 0) return false;
    char key = 0;
    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == '\x03' || key == '\x1b';
  }

 private:
  termios before_{};
  bool keys_ = false;
};

}  // namespace

absl::StatusOr<int> top_command(const TopOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths run, run_of(options.run));
  ui::RunFollower follower(run);
  const std::string name = run.root.filename().string();
  if (options.once || isatty(STDOUT_FILENO) == 0) {
    follower.read();
    for (const std::string& line : ui::top_screen(follower.parts(), name, kWidth, kHeight)) launch::say(stdout, line + "\n");
    return 0;
  }
  launch::catch_stop_signals();
  const int before = launch::stop_signals();
  const FullScreen screen;
  do {
    follower.read();
    const Size size = size_of_terminal();
    FullScreen::show(ui::top_screen(follower.parts(), name, size.width, size.height));
  } while (launch::stop_signals() == before && !screen.left() && launch::stop_signals() == before);
  return 0;
}

}  // namespace paceline::cli
