#include "paceline/formats/config/predicted_times.h"

#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::config {

namespace {

// Takes what stands before the next `separator`, or all that is left.
std::string_view take_part(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

class TimesReader {
 public:
  explicit TimesReader(const std::string& file) : file_(file) {}

  absl::StatusOr<PredictedTimes> read(std::string_view text) {
    if (text.size() > static_cast<std::size_t>(kMostTimesBytes))
      return absl::InvalidArgumentError(
          fmt::format("{}: longer than {} bytes; split it", file_, kMostTimesBytes));
    while (!text.empty()) {
      ++line_;
      const std::string_view line = trimmed(take_part(text, '\n'));
      if (line.empty() || line[0] == '#') continue;
      PACELINE_RETURN_IF_ERROR(read_line(line));
    }
    if (found_.lists.empty())
      return absl::InvalidArgumentError(
          fmt::format("{}: no list in it; write lines such as w0:1.5,3,4.5", file_));
    return std::move(found_);
  }

 private:
  absl::Status bad(const std::string& what) const {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file_, line_, what));
  }

  absl::Status read_line(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return bad("no ':' after the name; write NAME:TIME,TIME,…");
    const std::string_view name = trimmed(line.substr(0, colon));
    if (name.empty()) return bad("no name before the ':'; write NAME:TIME,TIME,…");
    if (name.size() > kMostNameBytes)
      return bad(fmt::format("a name of more than {} bytes; shorten it", kMostNameBytes));
    if (!names_.emplace(name).second)
      return bad("this name is taken by a line before; give each list a name of its own");
    if (found_.lists.size() == kMostLists)
      return bad(fmt::format("more than {} lists; split the file", kMostLists));
    found_.names.emplace_back(name);
    return read_times(trimmed(line.substr(colon + 1)), found_.lists.emplace_back());
  }

  absl::Status read_times(std::string_view rest, std::vector<double>& times) const {
    if (rest.empty()) return bad("no time after the ':'; write NAME:TIME,TIME,…");
    while (!rest.empty()) {
      PACELINE_ASSIGN_OR_RETURN(const double time,
                                read_time(trimmed(take_part(rest, ',')), times.size() + 1));
      if (!times.empty() && time < times.back())
        return bad(fmt::format("the time in place {} is less than the one before; sort the times",
                               times.size() + 1));
      times.push_back(time);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> read_time(std::string_view text, std::size_t place) const {
    double time = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), time);
    if (error == std::errc::invalid_argument || end != text.data() + text.size() || std::isnan(time))
      return bad(fmt::format(
          "the time in place {} is not a number; write an integer or a decimal such as 4.5", place));
    if (error != std::errc() || std::abs(time) > kLargestTime)
      return bad(fmt::format("the time in place {0} is too large or too small; write times from -{1} to {1}",
                             place, kLargestTime));
    return time;
  }

  const std::string& file_;
  std::size_t line_ = 0;
  std::set<std::string_view> names_;
  PredictedTimes found_;
};

}  // namespace

absl::StatusOr<PredictedTimes> parse_predicted_times(std::string_view text, const std::string& file) {
  return TimesReader(file).read(text);
}

}  // namespace paceline::config
