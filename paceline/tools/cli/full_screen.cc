#include "paceline/tools/cli/full_screen.h"

#include <clocale>
#include <cstdio>
#include <cstdlib>

#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include <ncurses.h>

#include <fmt/format.h>

namespace paceline::cli {

namespace {

constexpr int kEscape = 27;

class Curses final : public FullScreen {
 public:
  explicit Curses(SCREEN* screen) : screen_(screen) {
    cbreak();
    noecho();
    curs_set(0);
    set_escdelay(25);
    keypad(stdscr, true);
  }
  ~Curses() override {
    endwin();
    delscreen(screen_);
  }
  Curses(const Curses&) = delete;
  Curses& operator=(const Curses&) = delete;

  std::pair<int, int> size() const override { return {getmaxx(stdscr), getmaxy(stdscr)}; }
  void show(const std::vector<std::string>& lines) override {
    werase(stdscr);
    for (std::size_t i = 0; i < lines.size(); ++i)
      mvwaddstr(stdscr, static_cast<int>(i), 0, lines[i].c_str());
    wrefresh(stdscr);
  }
  bool left(std::chrono::milliseconds patience) override {
    wtimeout(stdscr, static_cast<int>(patience.count()));
    const int key = wgetch(stdscr);
    return key == 'q' || key == 'Q' || key == kEscape;
  }

 private:
  SCREEN* screen_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FullScreen>> FullScreen::open() {
  std::setlocale(LC_CTYPE, "");  // needed for names in UTF-8
  SCREEN* screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr) {
    const char* kind = std::getenv("TERM");
    return absl::FailedPreconditionError(
        fmt::format("top: the terminal type TERM={} is unknown; set TERM=vt100, or use --once",
                    kind == nullptr ? "" : kind));
  }
  set_term(screen);
  return std::make_unique<Curses>(screen);
}

}  // namespace paceline::cli
