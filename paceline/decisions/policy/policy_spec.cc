#include "paceline/decisions/policy/policy_spec.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/policy/grouped.h"

namespace paceline::policy {

namespace {

// Calls see(std::type_identity<Spec>) for each in the table.
template <class See>
void for_each_spec(See see) {
  [&]<class... Specs>(std::type_identity<std::variant<Specs...>>) {
    (see(std::type_identity<Specs>{}), ...);
  }(std::type_identity<PolicySpec>{});
}

std::string all_forms() {
  std::vector<std::string> forms;
  for_each_spec([&]<class Spec>(std::type_identity<Spec>) { forms.emplace_back(Spec::kForm); });
  const std::string last = forms.back();
  forms.pop_back();
  return absl::StrJoin(forms, ", ") + " or " + last;
}

PolicySpec as_policy(const UngroupedSpec& ungrouped) {
  return std::visit([](const auto& spec) -> PolicySpec { return spec; }, ungrouped);
}

}  // namespace

absl::StatusOr<PolicySpec> parse_policy(const std::string& text) {
  const PolicyText words(text);
  absl::StatusOr<PolicySpec> parsed = words.wrong("unknown; write " + all_forms());
  for_each_spec([&]<class Spec>(std::type_identity<Spec>) {
    if (words.parts[0] != Spec::kName) return;
    auto spec = Spec::parse(words);
    parsed = spec.ok() ? absl::StatusOr<PolicySpec>(*std::move(spec)) : spec.status();
  });
  return parsed;
}

absl::StatusOr<std::vector<PolicySpec>> parse_policies(const std::string& text) {
  std::vector<PolicySpec> specs;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    PACELINE_ASSIGN_OR_RETURN(PolicySpec spec, parse_policy(part));
    if (std::find(specs.begin(), specs.end(), spec) != specs.end())
      return PolicyText(part).wrong("is there twice; write it once");
    specs.push_back(std::move(spec));
  }
  return specs;
}

absl::Status check_replicas(const PolicySpec& spec, std::int64_t replicas) {
  return std::visit(
      [&](const auto& one) {
        const PolicyText text(one.text());
        if constexpr (requires { one.check(text, replicas); }) return one.check(text, replicas);
        return absl::OkStatus();
      },
      spec);
}

std::string to_string(const PolicySpec& spec) {
  return std::visit([](const auto& one) { return one.text(); }, spec);
}

std::unique_ptr<SyncPolicy> make_policy(const PolicySpec& spec) {
  return std::visit([](const auto& one) { return one.make(); }, spec);
}

std::vector<std::string> example_policies() {
  std::vector<std::string> all;
  for_each_spec([&]<class Spec>(std::type_identity<Spec>) {
    for (std::string& one : Spec::examples()) all.push_back(std::move(one));
  });
  return all;
}

std::vector<std::string> one_of_each_policy() {
  std::vector<std::string> all;
  for_each_spec([&]<class Spec>(std::type_identity<Spec>) { all.push_back(Spec::examples().front()); });
  return all;
}

// ---- Groups ----

absl::StatusOr<GroupsSpec> GroupsSpec::parse(const PolicyText& text) {
  static constexpr char kHow[] =
      "write groups:SIZES:POLICY with sizes from 1 to 1000000, for example groups:2+2+4:ssp:3";
  const std::vector<std::string> parts = absl::StrSplit(text.whole, absl::MaxSplits(':', 2));
  if (parts.size() < 3) return text.wrong(kHow);
  GroupsSpec groups;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(parts[1], '+'))) {
    const auto size = iterations(part);
    if (!size || *size < 1) return text.wrong(kHow);
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
  if (!ungrouped) {
    return text.wrong(fmt::format("'{}' makes groups of its own; write another policy", parts[2]));
  }
  return groups;
}

std::vector<std::string> GroupsSpec::examples() { return {"groups:2+1:asp", "groups:1+2:ssp:1"}; }

std::string GroupsSpec::text() const {
  return fmt::format("{}:{}:{}", kName, absl::StrJoin(sizes, "+"), to_string(as_policy(inner)));
}

std::unique_ptr<SyncPolicy> GroupsSpec::make() const {
  return std::make_unique<Grouped>(sizes, make_policy(as_policy(inner)));
}

absl::Status GroupsSpec::check(const PolicyText& text, std::int64_t replicas) const {
  const std::int64_t before_last = std::accumulate(sizes.begin(), sizes.end() - 1, std::int64_t{0});
  if (before_last < replicas) {
    const absl::Status within = check_replicas(as_policy(inner), std::ssize(sizes));
    return within.ok() ? within
                       : text.wrong(fmt::format("to its policy a group is a replica: {}",
                                                std::string(within.message())));
  }
  return text.wrong(
      fmt::format("the job has {} replica{}, and the last group would have none; write smaller groups",
                  replicas, replicas == 1 ? "" : "s"));
}

}  // namespace paceline::policy
