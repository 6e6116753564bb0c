#include "paceline/transport/links/tcp_port.h"

#include <gtest/gtest.h>

namespace paceline::links {
namespace {

// A message goes in chunks, without a very small one at the end.
TEST(TcpPort, CutsAMessageIntoFramesThatAreWorthIt) {
  const auto port =
      TcpPort::connect(parse_host("127.0.0.1", 0).value(), parse_host("127.0.0.1", 1).value()).value();
  const std::size_t whole = port->chunk_bytes(std::size_t{1} << 30);
  for (std::size_t bytes = 1; bytes < 5 * whole; bytes += whole / 16) {
    for (std::size_t left = bytes; left > 0;) {
      const std::size_t chunk = port->chunk_bytes(left);
      ASSERT_GT(chunk, 0u);
      ASSERT_LE(chunk, left);
      ASSERT_TRUE(chunk == bytes || chunk >= whole / 8) << chunk << " of " << bytes;
      left -= chunk;
    }
  }
}

}  // namespace
}  // namespace paceline::links
