// For loops over flat memory: one copy for each instruction set, chosen when the program is loaded. Not with
// clang, which has no attribute "optimize"; it builds the fuzz targets only. Files that use it are compiled
// with -ffp-contract=off: fused multiply-add would round differently from one instruction set to the next.
#pragma once

#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PACELINE_VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define PACELINE_VECTORIZED
#endif

// Before a loop whose passes may run side by side, although pointers in it may be equal: each pass writes only what no
// other pass reads.
#ifdef __clang__
#define PACELINE_INDEPENDENT_PASSES _Pragma("clang loop vectorize(assume_safety)")
#else
#define PACELINE_INDEPENDENT_PASSES _Pragma("GCC ivdep")
#endif
