#include "paceline/policy/policy_spec.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <type_traits>

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include "paceline/base/overloaded.h"
#include "paceline/base/status_macros.h"
#include "paceline/policy/asp.h"
#include "paceline/policy/backup.h"
#include "paceline/policy/bsp.h"
#include "paceline/policy/dssp.h"
#include "paceline/policy/elastic_bsp.h"
#include "paceline/policy/grouped.h"
#include "paceline/policy/local_sgd.h"
#include "paceline/policy/ssp.h"

namespace paceline::policy {

namespace {

constexpr std::int64_t kMostIterations = 1'000'000;
// ElasticBSP's plan costs O(R log n) a fact.
constexpr std::int64_t kMostLookAhead = 10'000;
constexpr std::int64_t kMostLocalSteps = 10'000;
constexpr double kMostWaitMs = 1e9;

absl::Status bad(const std::string& text, const std::string& fix) {
  return absl::InvalidArgumentError(fmt::format("policy '{}': {}", text, fix));
}

// A whole number of iterations, nothing else around it.
std::optional<std::int64_t> iterations(const std::string& text) {
  std::int64_t value = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || !absl::SimpleAtoi(text, &value) || value > kMostIterations) return std::nullopt;
  return value;
}

absl::StatusOr<PolicySpec> parse_ssp(const std::string& text, const std::vector<std::string>& parts) {
  const auto s = parts.size() == 2 ? iterations(parts[1]) : std::nullopt;
  if (!s) return bad(text, "write ssp:S with S from 0 to 1000000, for example ssp:3");
  return SspSpec{*s};
}

absl::StatusOr<PolicySpec> parse_local_sgd(const std::string& text, const std::vector<std::string>& parts) {
  const auto steps = parts.size() == 2 ? iterations(parts[1]) : std::nullopt;
  if (!steps || *steps < 1 || *steps > kMostLocalSteps)
    return bad(text, "write local-sgd:H with H from 1 to 10000, for example local-sgd:8");
  return LocalSgdSpec{*steps};
}

absl::StatusOr<PolicySpec> parse_dssp(const std::string& text, const std::vector<std::string>& parts) {
  static constexpr char kForm[] =
      "write dssp:LOWER-UPPER, and :printed or :transient behind it if you like, for example dssp:3-15";
  const bool printed = parts.size() == 3 && parts[2] == "printed";
  const bool transient = parts.size() == 3 && parts[2] == "transient";
  if (parts.size() != 2 && !printed && !transient) return bad(text, kForm);
  const std::vector<std::string> ends = absl::StrSplit(parts[1], '-');
  if (ends.size() != 2) return bad(text, kForm);
  const auto lower = iterations(ends[0]);
  const auto upper = iterations(ends[1]);
  if (!lower || !upper) return bad(text, kForm);
  if (*lower > *upper) {
    return bad(text, fmt::format("the lower bound {0} is above the upper bound {1}; write dssp:{1}-{0}",
                                 *lower, *upper));
  }
  return DsspSpec{*lower, *upper,
                  printed     ? DsspReading::kPrinted
                  : transient ? DsspReading::kTransient
                              : DsspReading::kBounded};
}

absl::StatusOr<PolicySpec> parse_elastic_bsp(const std::string& text, const std::vector<std::string>& parts) {
  static constexpr char kForm[] =
      "write elastic-bsp:R or elastic-bsp:R:average with R from 1 to 10000, for example elastic-bsp:15";
  if (parts.size() == 1) return ElasticBspSpec{};
  const bool average = parts.size() == 3 && parts[2] == "average";
  if (parts.size() != 2 && !average) return bad(text, kForm);
  const auto look_ahead = iterations(parts[1]);
  if (!look_ahead || *look_ahead < 1 || *look_ahead > kMostLookAhead) return bad(text, kForm);
  return ElasticBspSpec{*look_ahead, average};
}

absl::StatusOr<PolicySpec> parse_backup(const std::string& text, const std::vector<std::string>& parts) {
  const auto spare = parts.size() == 2 ? iterations(parts[1]) : std::nullopt;
  if (!spare) return bad(text, "write backup:C with C from 0 to 1000000, for example backup:1");
  return BackupSpec{*spare};
}

absl::StatusOr<PolicySpec> parse_groups(const std::string& text) {
  static constexpr char kForm[] =
      "write groups:SIZES:POLICY with sizes from 1 to 1000000, for example groups:2+2+4:ssp:3";
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 2));
  if (parts.size() < 3) return bad(text, kForm);
  GroupsSpec groups;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(parts[1], '+'))) {
    const auto size = iterations(part);
    if (!size || *size < 1) return bad(text, kForm);
    groups.sizes.push_back(*size);
  }
  PACELINE_ASSIGN_OR_RETURN(const PolicySpec inner, parse_policy(parts[2]));
  const bool ungrouped = std::visit(
      [&]<class Spec>(const Spec& spec) {
        if constexpr (std::is_constructible_v<UngroupedSpec, Spec>) {
          groups.inner = spec;
          return true;
        } else {
          return false;
        }
      },
      inner);
  if (!ungrouped)
    return bad(text, fmt::format("'{}' makes groups of its own; write another policy", parts[2]));
  return groups;
}

PolicySpec as_policy(const UngroupedSpec& ungrouped) {
  return std::visit([](const auto& spec) -> PolicySpec { return spec; }, ungrouped);
}

constexpr char kPatienceForm[] =
    "patience is the share of their iterations' time that replicas may wait for each other; write a number from 0 to "
    "1, for example patience=0.1";

constexpr char kCgpForm[] =
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

// To the nanosecond, so that what is read back is what was written.
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

// From 0 to 1.
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

absl::StatusOr<PolicySpec> parse_cgp(const std::string& text, const std::vector<std::string>& parts) {
  CgpSpec spec;
  std::set<std::string> said;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::string> sides = absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    if (sides.size() != 2 || !set_cgp(spec, sides[0], sides[1]))
      return bad(text, sides.size() == 2 && sides[0] == "patience" ? kPatienceForm : kCgpForm);
    if (!said.insert(sides[0]).second)
      return bad(text, fmt::format("{} is there twice; write it once", sides[0]));
  }
  const bool all_together = spec.wait_max == CgpOptions::kForever;
  if (spec.k_min > spec.k_max && !all_together)
    return bad(text, fmt::format("k_min is above k_max; write k_max={} or more", spec.k_min));
  return spec;
}

std::string to_text(const CgpSpec& spec) {
  std::string text = "cgp";
  if (spec.k_min != 1) text += fmt::format(":k_min={}", spec.k_min);
  if (spec.k_max != CgpOptions::kNoLimit) text += fmt::format(":k_max={}", spec.k_max);
  if (spec.staleness != CgpOptions::kNoLimit) text += fmt::format(":S={}", spec.staleness);
  if (spec.wait_max == CgpOptions::kForever) {
    text += ":wait_max=forever";
  } else if (spec.wait_max) {
    text += ":wait_max=" + milliseconds(*spec.wait_max);
  }
  if (spec.patience != CgpOptions{}.patience) text += fmt::format(":patience={}", spec.patience);
  if (spec.delay != CgpOptions{}.delay) text += fmt::format(":d={}", spec.delay);
  if (spec.grouping != Grouping::kNatural) text += fmt::format(":grouping={}", to_string(spec.grouping));
  return text;
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

absl::StatusOr<PolicySpec> parse_policy(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts[0] == "ssp") return parse_ssp(text, parts);
  if (parts[0] == "dssp") return parse_dssp(text, parts);
  if (parts[0] == "elastic-bsp") return parse_elastic_bsp(text, parts);
  if (parts[0] == "local-sgd") return parse_local_sgd(text, parts);
  if (parts[0] == "cgp") return parse_cgp(text, parts);
  if (parts[0] == "backup") return parse_backup(text, parts);
  if (parts[0] == "groups") return parse_groups(text);
  if (parts[0] != "bsp" && parts[0] != "asp")
    return bad(
        text,
        "unknown; write bsp, asp, ssp:S, dssp:LOWER-UPPER, elastic-bsp:R, cgp, local-sgd:H, backup:C or "
        "groups:SIZES:POLICY");
  if (parts.size() > 1) return bad(text, fmt::format("{0} takes no number; write {0}", parts[0]));
  if (parts[0] == "bsp") return BspSpec{};
  return AspSpec{};
}

absl::StatusOr<std::vector<PolicySpec>> parse_policies(const std::string& text) {
  std::vector<PolicySpec> specs;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    PACELINE_ASSIGN_OR_RETURN(specs.emplace_back(), parse_policy(part));
  }
  return specs;
}

absl::Status check_replicas(const PolicySpec& spec, std::int64_t replicas) {
  const std::string text = to_string(spec);
  const std::string job = fmt::format("the job has {} replica{}", replicas, replicas == 1 ? "" : "s");
  if (const auto* backup = std::get_if<BackupSpec>(&spec); backup != nullptr && backup->spare >= replicas)
    return bad(text,
               fmt::format("{}, and a round needs at least one; write backup:{} or less", job, replicas - 1));
  if (const auto* groups = std::get_if<GroupsSpec>(&spec)) {
    const std::int64_t before_last =
        std::accumulate(groups->sizes.begin(), groups->sizes.end() - 1, std::int64_t{0});
    if (before_last >= replicas)
      return bad(text, fmt::format("{}, and the last group would have none; write smaller groups", job));
  }
  const auto* cgp = std::get_if<CgpSpec>(&spec);
  // Without a timer that is bulk synchronous by its definition.
  if (cgp != nullptr && cgp->k_min > replicas && cgp->wait_max != CgpOptions::kForever)
    return bad(text, fmt::format("{}; write k_min={} or less", job, replicas));
  return absl::OkStatus();
}

std::string to_string(const PolicySpec& spec) {
  return std::visit(Overloaded{
                        [](const BspSpec&) -> std::string { return "bsp"; },
                        [](const AspSpec&) -> std::string { return "asp"; },
                        [](const SspSpec& ssp) { return fmt::format("ssp:{}", ssp.s); },
                        [](const DsspSpec& dssp) {
                          static constexpr const char* kReadings[] = {"", ":printed", ":transient"};
                          return fmt::format("dssp:{}-{}{}", dssp.lower, dssp.upper,
                                             kReadings[static_cast<std::size_t>(dssp.reading)]);
                        },
                        [](const ElasticBspSpec& elastic) {
                          return fmt::format("elastic-bsp:{}{}", elastic.look_ahead,
                                             elastic.average ? ":average" : "");
                        },
                        [](const BackupSpec& backup) { return fmt::format("backup:{}", backup.spare); },
                        [](const GroupsSpec& groups) {
                          return fmt::format("groups:{}:{}", absl::StrJoin(groups.sizes, "+"),
                                             to_string(as_policy(groups.inner)));
                        },
                        [](const CgpSpec& cgp) { return to_text(cgp); },
                        [](const LocalSgdSpec& local) { return fmt::format("local-sgd:{}", local.steps); },
                    },
                    spec);
}

std::unique_ptr<SyncPolicy> make_policy(const PolicySpec& spec) {
  return std::visit(
      Overloaded{
          [](const BspSpec&) -> std::unique_ptr<SyncPolicy> { return std::make_unique<Bsp>(); },
          [](const AspSpec&) -> std::unique_ptr<SyncPolicy> { return std::make_unique<Asp>(); },
          [](const SspSpec& ssp) -> std::unique_ptr<SyncPolicy> { return std::make_unique<Ssp>(ssp.s); },
          [](const DsspSpec& dssp) -> std::unique_ptr<SyncPolicy> {
            return std::make_unique<Dssp>(dssp.lower, dssp.upper, dssp.reading);
          },
          [](const ElasticBspSpec& elastic) -> std::unique_ptr<SyncPolicy> {
            return std::make_unique<ElasticBsp>(elastic.look_ahead, elastic.average);
          },
          [](const BackupSpec& backup) -> std::unique_ptr<SyncPolicy> {
            return std::make_unique<Backup>(backup.spare);
          },
          [](const GroupsSpec& groups) -> std::unique_ptr<SyncPolicy> {
            return std::make_unique<Grouped>(groups.sizes, make_policy(as_policy(groups.inner)));
          },
          [](const CgpSpec& cgp) -> std::unique_ptr<SyncPolicy> { return std::make_unique<Cgp>(cgp); },
          [](const LocalSgdSpec& local) -> std::unique_ptr<SyncPolicy> {
            return std::make_unique<LocalSgd>(local.steps);
          },
      },
      spec);
}

}  // namespace paceline::policy
