#include "paceline/parameters/cuda/host_kernels.h"

#include <cstring>

#include "paceline/parameters/cuda/kernel_bodies.h"

namespace paceline::cuda {

namespace {

template <class Arguments, void (*kBody)(const Arguments&, const Place&)>
void run(void** arguments, unsigned blocks, unsigned threads) {
  const Arguments& given = *static_cast<const Arguments*>(arguments[0]);
  for (unsigned block = 0; block < blocks; ++block) {
    for (unsigned thread = 0; thread < threads; ++thread) kBody(given, {block, blocks, thread, threads});
  }
}

template <class Arguments>
constexpr unsigned kSize = sizeof(Arguments);

struct Named {
  const char* name;
  HostKernel kernel;
};

#define KERNEL(name, Arguments, body) {#name, {run<Arguments, body>, &kSize<Arguments>, 1}},
constexpr Named kKernels[] = {PACELINE_EACH_KERNEL};
#undef KERNEL

}  // namespace

}  // namespace paceline::cuda

const HostKernel* paceline_host_kernel(const char* name) {
  for (const paceline::cuda::Named& one : paceline::cuda::kKernels) {
    if (std::strcmp(one.name, name) == 0) return &one.kernel;
  }
  return nullptr;
}
