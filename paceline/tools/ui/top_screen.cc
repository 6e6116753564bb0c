#include "paceline/tools/ui/top_screen.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/printable.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::ui {

namespace {

using report::Json;

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? report::printable(found->get<std::string>()) : "";
}

std::optional<double> number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

template <class Text>
std::string or_dash(std::optional<double> value, Text text) {
  return value ? text(*value) : "-";
}

std::string four_digits(double value) { return fmt::format("{:.4g}", value); }
std::string share(double value) { return report::percent(value, 0) + " %"; }

// A text over as many lines as it needs, cut at spaces.
std::vector<std::string> wrapped(std::string text, int width) {
  std::vector<std::string> lines;
  while (report::columns(text) > static_cast<std::size_t>(width)) {
    const std::string head = fitting(text, static_cast<std::size_t>(width));
    const std::size_t space = head.rfind(' ');
    const std::size_t end = space == std::string::npos || space == 0 ? head.size() : space;
    lines.push_back(text.substr(0, end));
    text.erase(0, text[end] == ' ' ? end + 1 : end);
  }
  lines.push_back(text);
  return lines;
}

std::string bar(double done, int width) {
  const int full = static_cast<int>(std::clamp(done, 0.0, 1.0) * width);
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(width - full), '.') + "]";
}

// Rounded down: 100 % means that all is done.
std::string whole_percent(double samples, double all) {
  return fmt::format("{:.0f} %", std::floor(100 * samples / all));
}

std::string progress(const Json& head, int width) {
  const double samples = number_of(head, "samples").value_or(0),
               all = number_of(head, "total_samples").value_or(0);
  const double done = all > 0 ? samples / all : 0;
  const std::string left = or_dash(number_of(head, "left_s"), report::short_duration);
  const std::string far =
      all > 0 ? fmt::format("{} {}", bar(done, std::max(8, width / 4)), whole_percent(samples, all))
              : report::short_number(samples) + " samples,";
  const bool is_virtual = text_of(head, "world") == "virtual";
  return fmt::format("{} {} samples/s, {} so far, {}", far,
                     or_dash(number_of(head, "samples_per_s"), report::short_number),
                     or_dash(number_of(head, "elapsed_s"), report::short_duration),
                     is_virtual ? "in virtual time" : left + " left");
}

std::string learning(const Json& head) {
  std::string line =
      fmt::format("training loss {}, test loss {}", or_dash(number_of(head, "training_loss"), four_digits),
                  or_dash(number_of(head, "loss"), four_digits));
  if (const auto accuracy = number_of(head, "accuracy"))
    line += fmt::format(", accuracy {} %", report::percent(*accuracy, 1));
  return line + fmt::format("; waiting {}, staleness {}, {} updates",
                            or_dash(number_of(head, "wait_of_late"), share),
                            or_dash(number_of(head, "staleness_mean"), four_digits),
                            or_dash(number_of(head, "commits"), report::short_number));
}

std::string against(std::optional<double> own, std::optional<double> others) {
  if (!own || !others || *own <= 0 || *others <= 0) return "-";
  const double times = *others / *own;
  return times > 1.05   ? fmt::format("{:.1f}x slower", times)
         : times < 0.95 ? fmt::format("{:.1f}x faster", 1 / times)
                        : "the same";
}

std::string row(const std::string& name, const std::string& doing, const std::string& waited,
                const std::string& speed, const std::string& others, const std::string& waiting,
                const std::string& iterations) {
  return fmt::format("{:<12} {:<10} {:>10} {:>9} {:>13} {:>8} {:>10}", fitting(name, 12), doing, waited,
                     speed, others, waiting, iterations);
}

std::string device_row(const Json& device, std::optional<double> middle) {
  return row(text_of(device, "name"), text_of(device, "doing"),
             or_dash(number_of(device, "waited_for_s"), report::seconds_text),
             or_dash(number_of(device, "speed"), report::rate_text),
             against(number_of(device, "speed"), middle), or_dash(number_of(device, "wait_share"), share),
             or_dash(number_of(device, "iterations"),
                     [](double count) { return with_thousands(static_cast<std::int64_t>(count)); }));
}

std::string event_line(const Json& event) {
  if (!event.is_array() || event.size() < 3 || !event[0].is_number() || !event[1].is_string() ||
      !event[2].is_string())
    return "";
  const std::string who = report::printable(event[1].get<std::string>());
  return fmt::format("{:>8} s  {}{}", report::seconds_text(event[0].get<double>()),
                     who.empty() ? "" : who + ": ", report::printable(event[2].get<std::string>()));
}

}  // namespace

std::vector<std::string> top_screen(const RunFollower::Parts& parts, const std::string& run, int width,
                                    int height) {
  const Json& head = parts.at("head");
  std::vector<std::string> lines;
  const std::string title = text_of(head, "title");
  lines.push_back(fmt::format("{}  {}  {}", title.empty() ? report::printable(run) : title,
                              text_of(head, "policy"), text_of(head, "state")));
  const std::string sentence = text_of(head, "holds_back");
  for (const std::string& line : wrapped(sentence.empty() ? text_of(head, "why") : sentence, width))
    lines.push_back(line);
  if (const std::string trouble = text_of(head, "trouble"); !trouble.empty()) {
    for (const std::string& line : wrapped("! " + trouble, width)) lines.push_back(line);
  }
  const auto devices = parts.find("devices");
  if (devices != parts.end()) {
    lines.push_back(progress(head, width));
    for (const std::string& line : wrapped(learning(head), width)) lines.push_back(line);
    lines.emplace_back();
    lines.push_back(
        row("device", "does", "waited for", "samples/s", "to the others", "waiting", "iterations"));
    const Json& rows = devices->second.at("rows");
    // The latest events have the last lines.
    const int events = height >= 16 ? 4 : 0;
    const int room = std::max(1, height - static_cast<int>(lines.size()) - events);
    const int all = static_cast<int>(rows.size() + devices->second.at("left_out").get<std::size_t>());
    const int shown = std::min(static_cast<int>(rows.size()), all > room ? room - 1 : room);
    for (int i = 0; i < shown; ++i)
      lines.push_back(device_row(rows[static_cast<std::size_t>(i)], number_of(devices->second, "middle")));
    if (shown < all)
      lines.push_back(
          fmt::format("and {} more, which are gone or which the others wait for less", all - shown));
    const auto happened = parts.find("events");
    if (events > 0 && happened != parts.end() && !happened->second.at("list").empty()) {
      lines.emplace_back();
      for (int i = 0; i < std::min<int>(events - 1, static_cast<int>(happened->second.at("list").size()));
           ++i)
        lines.push_back(event_line(happened->second.at("list")[static_cast<std::size_t>(i)]));
    }
  }
  if (lines.size() > static_cast<std::size_t>(height)) lines.resize(static_cast<std::size_t>(height));
  for (std::string& line : lines) line = fitting(line, static_cast<std::size_t>(width));
  return lines;
}

}  // namespace paceline::ui
