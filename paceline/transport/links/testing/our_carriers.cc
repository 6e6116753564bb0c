#include "paceline/transport/links/testing/carriers_under_test.h"

namespace paceline::links::testing {

// All carriers of the table.
std::vector<CarrierUnderTest> carriers_under_test() {
  std::vector<CarrierUnderTest> all;
  for (const CarrierKind& kind : carriers()) {
    const bool ucx = std::string(kind.name) == "ucx";
    all.push_back({kind.name, kind.open, !ucx, !ucx});
  }
  return all;
}

}  // namespace paceline::links::testing
