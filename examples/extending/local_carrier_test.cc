// The example of docs/extending.md under the tests that every carrier has to pass: links/link_test.cc.
#include "examples/extending/local_carrier.h"
#include "paceline/transport/links/testing/carriers_under_test.h"

namespace paceline::links::testing {

std::vector<CarrierUnderTest> carriers_under_test() {
  return {{"local", [](const std::string& host) -> absl::StatusOr<std::unique_ptr<Carrier>> {
             auto carrier = example::LocalCarrier::open(host);
             if (!carrier.ok()) return carrier.status();
             return std::make_unique<example::LocalCarrier>(*std::move(carrier));
           }}};
}

}  // namespace paceline::links::testing
