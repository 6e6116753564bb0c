#include "bench/gloo_ring.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/all_reduce_rounds.h"

namespace paceline::bench {

void gloo_ring(const std::string& store, const std::string& address, int rank, int ranks, std::int64_t floats,
               int rounds, const std::function<void(double ms)>& round) {
  gloo::rendezvous::FileStore files(store);
  gloo::transport::tcp::attr where;
  where.hostname = address;
  auto device = gloo::transport::tcp::CreateDevice(where);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(files, device);
  std::uint32_t tag = 0;
  all_reduce_rounds(
      ranks, floats, rounds,
      [&](std::span<float> gradient) {
        gloo::AllreduceOptions options(context);
        options.setOutput(gradient.data(), gradient.size());
        options.setReduceFunction(
            [](void* to, const void* a, const void* b, std::size_t n) { gloo::sum<float>(to, a, b, n); });
        // Gloo's fastest algorithm here, with segments of 1 MB, its own choice.
        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        options.setTag(tag++);
        gloo::allreduce(options);
      },
      round);
}

}  // namespace paceline::bench
