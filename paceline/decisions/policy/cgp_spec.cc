// CGP as a user writes it.
#include <cmath>
#include <set>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/decisions/policy/cgp.h"

namespace paceline::policy {

namespace {

constexpr double kMostWaitMs = 1e9;

constexpr char kHowPatience[] =
    "patience is the share of their iterations' time that replicas may wait for each other; write a number "
    "from 0 to "
    "1, for example patience=0.1";

constexpr char kHow[] =
    "write cgp, and any of :k_min=N :k_max=N :S=N :wait_max=MILLISECONDSms (or forever) "
    ":patience=SHARE :d=ROUNDS (both from 0 to 1) :grouping=natural|window|dp behind it, "
    "for example cgp:k_min=2:S=16";

// "forever", or milliseconds: "50ms", "2.5ms".
std::optional<Duration> wait_max(const std::string& text) {
  if (text == "forever") return CgpOptions::kForever;
  double ms = 0;
  const bool number = text.size() > 2 && text.ends_with("ms") &&
                      text.find_first_not_of("0123456789.") == text.size() - 2 &&
                      absl::SimpleAtod(text.substr(0, text.size() - 2), &ms);
  if (!number || ms > kMostWaitMs) return std::nullopt;
  return Duration(std::llround(ms * 1e6));
}

// Precise to the nanosecond, so that reading the text gives the same value.
std::string milliseconds(Duration duration) {
  std::string text = fmt::format("{:.6f}", static_cast<double>(duration.count()) / 1e6);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text + "ms";
}

std::optional<Grouping> grouping(const std::string& text) {
  for (const Grouping one : {Grouping::kNatural, Grouping::kWindow, Grouping::kDp}) {
    if (text == to_string(one)) return one;
  }
  return std::nullopt;
}

// A number from 0 to 1.
std::optional<double> share(const std::string& text) {
  double value = 0;
  const bool number = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos &&
                      absl::SimpleAtod(text, &value);
  return number && value <= 1 ? std::optional(value) : std::nullopt;
}

// Whether the key is known and the value fits it.
bool set_cgp(CgpSpec& spec, const std::string& key, const std::string& value) {
  const auto whole = iterations(value);
  const auto set = [](const auto& from, auto& to) {
    if (from) to = *from;
    return from.has_value();
  };
  if (key == "k_min") return set(whole, spec.k_min) && spec.k_min >= 1;
  if (key == "k_max") return set(whole, spec.k_max) && spec.k_max >= 1;
  if (key == "S") return set(whole, spec.staleness);
  if (key == "wait_max") return set(wait_max(value), spec.wait_max);
  if (key == "patience") return set(share(value), spec.patience);
  if (key == "d") return set(share(value), spec.delay);
  return key == "grouping" && set(grouping(value), spec.grouping);
}

}  // namespace

std::string to_string(Grouping grouping) {
  switch (grouping) {
    case Grouping::kNatural:
      return "natural";
    case Grouping::kWindow:
      return "window";
    case Grouping::kDp:
      return "dp";
  }
  return {};
}

absl::StatusOr<CgpOptions> CgpOptions::parse(const PolicyText& text) {
  CgpOptions spec;
  std::set<std::string> said;
  for (std::size_t i = 1; i < text.parts.size(); ++i) {
    const std::vector<std::string> sides = absl::StrSplit(text.parts[i], absl::MaxSplits('=', 1));
    if (sides.size() != 2 || !set_cgp(spec, sides[0], sides[1]))
      return text.wrong(sides.size() == 2 && sides[0] == "patience" ? kHowPatience : kHow);
    if (!said.insert(sides[0]).second)
      return text.wrong(fmt::format("{} is there twice; write it once", sides[0]));
  }
  if (spec.k_min > spec.k_max && spec.wait_max != kForever)
    return text.wrong(fmt::format("k_min is above k_max; write k_max={} or more", spec.k_min));
  return spec;
}

std::vector<std::string> CgpOptions::examples() {
  return {"cgp", "cgp:S=2", "cgp:k_min=2:k_max=2", "cgp:grouping=window", "cgp:grouping=dp"};
}

std::string CgpOptions::text() const {
  std::string text = kName;
  if (k_min != 1) text += fmt::format(":k_min={}", k_min);
  if (k_max != kNoLimit) text += fmt::format(":k_max={}", k_max);
  if (staleness != kNoLimit) text += fmt::format(":S={}", staleness);
  if (wait_max == kForever) {
    text += ":wait_max=forever";
  } else if (wait_max) {
    text += ":wait_max=" + milliseconds(*wait_max);
  }
  if (patience != CgpOptions{}.patience) text += fmt::format(":patience={}", patience);
  if (delay != CgpOptions{}.delay) text += fmt::format(":d={}", delay);
  if (grouping != Grouping::kNatural) text += fmt::format(":grouping={}", policy::to_string(grouping));
  return text;
}

std::unique_ptr<SyncPolicy> CgpOptions::make() const { return std::make_unique<Cgp>(*this); }

absl::Status CgpOptions::check(const PolicyText& text, std::int64_t replicas) const {
  if (k_min <= replicas || wait_max == kForever) return absl::OkStatus();
  return text.wrong(
      fmt::format("the job has {0} replica{1}; write k_min={0} or less", replicas, replicas == 1 ? "" : "s"));
}

}  // namespace paceline::policy
