#include "bench/gloo_pair.h"

#include <chrono>
#include <filesystem>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

namespace paceline::bench {

double gloo_pair(const std::string& store, const std::string& address, int rank, std::size_t bytes,
                 int messages) {
  std::filesystem::create_directories(store);
  gloo::rendezvous::FileStore files(store);
  gloo::transport::tcp::attr where;
  where.hostname = address;
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::Context context(rank, 2);
  context.connectFullMesh(files, device);
  std::vector<std::byte> payload(bytes, std::byte{1});
  char word = 0;
  const auto data = context.createUnboundBuffer(payload.data(), bytes);
  const auto last = context.createUnboundBuffer(&word, 1);
  constexpr std::uint64_t kData = 1, kLast = 2;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < messages; ++i) {
    if (rank == 1) {
      data->send(0, kData);
      data->waitSend();
    } else {
      data->recv(1, kData);
      data->waitRecv();
    }
  }
  if (rank == 1) {
    last->recv(0, kLast);
    last->waitRecv();
  } else {
    last->send(1, kLast);
    last->waitSend();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (rank == 1) std::filesystem::remove_all(store);
  return seconds;
}

}  // namespace paceline::bench
