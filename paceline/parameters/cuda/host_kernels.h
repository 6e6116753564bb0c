// The kernels as functions of the host, for a stand-in of the driver: the same bodies, one thread after the
// other.
#pragma once

extern "C" {

struct HostKernel {
  // `arguments`: `count` pointers, each to one argument, as cuLaunchKernel takes them.
  void (*run)(void** arguments, unsigned blocks, unsigned threads);
  const unsigned* sizes;  // each argument's bytes
  int count;
};

// Null if no kernel has this name.
const HostKernel* paceline_host_kernel(const char* name);
}
