#include "paceline/computing/train/threads.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "paceline/base/check.h"

namespace paceline::train {

void use_threads(int intra_op) {
  PACELINE_CHECK(intra_op >= 1, "{} threads", intra_op);
  at::set_num_threads(intra_op);
  if (at::get_num_interop_threads() == 1) return;
  try {
    at::set_num_interop_threads(1);
  } catch (const c10::Error&) {
    // Too late to set: its pool has started. Nothing here gives that pool work, so it costs idle threads
    // only.
  }
}

}  // namespace paceline::train
