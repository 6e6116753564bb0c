// The policies for a test of all of them: its own forms, and one of each policy that is not among them. So
// such a test finds a new policy in the table (policy_spec.h).
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::policy::testing {

inline std::vector<std::string> with_every_policy(std::vector<std::string> own) {
  const auto name = [](const std::string& text) { return text.substr(0, text.find(':')); };
  for (const std::string& one : one_of_each_policy()) {
    const auto same = [&](const std::string& other) { return name(other) == name(one); };
    if (std::none_of(own.begin(), own.end(), same)) own.push_back(one);
  }
  return own;
}

// The policy's text as the name of a test: letters and digits.
inline std::string policy_test_name(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace paceline::policy::testing
