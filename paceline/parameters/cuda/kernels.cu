// The kernels of a card. The build makes PTX of this with clang, which needs no CUDA toolkit for that.
#include "paceline/parameters/cuda/kernel_bodies.h"

namespace paceline::cuda {

__attribute__((device)) inline Place place() {
  return {static_cast<unsigned>(__nvvm_read_ptx_sreg_ctaid_x()),
          static_cast<unsigned>(__nvvm_read_ptx_sreg_nctaid_x()),
          static_cast<unsigned>(__nvvm_read_ptx_sreg_tid_x()),
          static_cast<unsigned>(__nvvm_read_ptx_sreg_ntid_x())};
}

#define KERNEL(name, Arguments, body) \
  extern "C" __attribute__((global)) void name(const Arguments arguments) { body(arguments, place()); }
PACELINE_EACH_KERNEL
#undef KERNEL

}  // namespace paceline::cuda
