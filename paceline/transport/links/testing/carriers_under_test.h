// The carriers over which link_test.cc runs. Each program that has the test has such a list: a new carrier
// has a list of its own, or is in that of our_carriers.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/transport/links/carrier.h"

namespace paceline::links::testing {

struct CarrierUnderTest {
  std::string name;
  absl::StatusOr<std::unique_ptr<Carrier>> (*open)(const std::string& host);
  // Whether a peer that connects, sends and goes, without waiting for anything, is heard.
  bool connects_at_once = true;
  // Whether it goes on after a time in which the process could open no descriptors.
  bool bears_no_descriptors = true;
};

std::vector<CarrierUnderTest> carriers_under_test();

}  // namespace paceline::links::testing
