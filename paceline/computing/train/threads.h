// How many threads libtorch computes with. A setting of the whole process: main sets it once, before anything
// else calls libtorch.
#pragma once

namespace paceline::train {

// `intra_op` threads inside one operation, at least 1; operations never run beside each other. This binds
// OpenMP, and so oneDNN and a BLAS built on OpenMP (libopenblas0-openmp), but not one with threads of its own
// (libopenblas0-pthread).
void use_threads(int intra_op);

}  // namespace paceline::train
