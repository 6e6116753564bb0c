// The two programs: `paceline` starts at once and knows all commands; `paceline-torch`, which lies beside it,
// has the built-in models too, and takes 0.4 s and 150 MB to load libtorch.
#pragma once

#include <absl/status/status.h>

namespace paceline::cli {

// Where this program has no built-in models, it becomes the one that has, with the same command line. To be
// called before anything was done. Errors: that one does not lie beside this one.
absl::Status need_built_in_models();

}  // namespace paceline::cli
